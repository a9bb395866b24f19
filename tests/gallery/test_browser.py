"""Every page in a real browser: charts are drawn, nothing is loaded, it fits a phone, the dark mode and paper."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contrastive.cli.look import main as look
from contrastive.gallery.run import run_page
from contrastive.report.page import main as page
from contrastive.run.run import read_run

pytestmark = pytest.mark.slow
pytest.importorskip("altair", reason="an extra: try pip install '.[report]'")
playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: try pip install playwright")
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), "")
if not CHROMIUM:
    pytest.skip("no Chromium: try apt-get install chromium", allow_module_level=True)
CHARTS = {"look": 0, "run": 4, "results": 2}  # of each page


@pytest.fixture(scope="module")
def pages(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    assert look(["dataset=biased_digits", "dataset.size=8", "-o", str(folder / "look.html")]) == 0
    assert page([str(folder / "results.html"), str(runs[0].parent)]) == 0
    (folder / "run.html").write_text(run_page(read_run(runs[0]), device="cpu"))
    return {name: folder / f"{name}.html" for name in CHARTS}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def opened(browser: Any, page: Path, **options: Any) -> Any:
    """The page in a new window; it fails on a request to the network or an error of a script."""
    window = browser.new_context(**options).new_page()
    faults: list[str] = []
    window.on("pageerror", lambda error: faults.append(str(error)))
    window.on("request", lambda request: request.url.startswith(("file:", "data:")) or faults.append(request.url))
    window.goto(page.as_uri())
    for figure in window.query_selector_all("figure:has(> .view)"):
        figure.scroll_into_view_if_needed()
        figure.wait_for_selector("svg", timeout=60_000)
    assert not faults
    return window


@pytest.mark.parametrize("name", CHARTS)
@pytest.mark.parametrize("look_of", ["light", "dark", "phone"])
def test_a_page_is_drawn_and_fits(name: str, look_of: str, browser: Any, pages: dict[str, Path]) -> None:
    width = 390 if look_of == "phone" else 1200
    scheme = "dark" if look_of == "dark" else "light"
    window = opened(browser, pages[name], viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert len(window.query_selector_all("figure > .view svg")) == CHARTS[name]
    assert window.evaluate("document.documentElement.scrollWidth") <= width
    style = "getComputedStyle(document.body)"
    background, ink = (window.evaluate(f"{style}.{key}") for key in ("backgroundColor", "color"))
    brightness = [sum(map(int, color[4:-1].split(","))) for color in (background, ink)]
    assert (brightness[0] < brightness[1]) == (look_of == "dark")
    window.context.close()


def test_a_point_of_the_map_shows_its_image(browser: Any, pages: dict[str, Path]) -> None:
    window = opened(browser, pages["run"], viewport={"width": 1200, "height": 800})
    window.locator("h2", has_text="Map of the features").scroll_into_view_if_needed()
    window.locator("figure", has=window.locator(".mark-symbol.role-mark path")).first.locator(
        ".mark-symbol.role-mark path"
    ).nth(5).hover(force=True)
    image = window.locator("#vg-tooltip-element img")
    image.wait_for(timeout=10_000)
    assert image.get_attribute("src").startswith("data:image/png;base64,")
    window.context.close()
