"""Pages as shown: the commands of docs/biased.md run, in their order, on smaller images; the site builds; the pictures
of docs/numbers.md are drawn; the table of docs/tables.md runs and has the shown columns.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tables import engine
from tables.spec import read_table

from tests.docs.test_readme import files
from tests.helpers import ANYWHERE, CONTIGUOUS, ROOT, python, write_files

NUMBERS, OWN = (ROOT / f"docs/{name}.md" for name in ("numbers", "tables"))
SMALL = ["epochs=1", "dataset.size=8", "encoder.width=2", "batch_size=256", "evaluator.linear.max_iter=5", CONTIGUOUS]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the table of the page."""
    ((name, _),) = files(OWN).items()
    write_files(tmp_path, files(OWN))
    monkeypatch.chdir(tmp_path)
    return tmp_path / name


@pytest.mark.slow
def test_each_number_has_its_picture_and_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(ROOT / "docs/make"))
    import number_pictures

    number_pictures.main(tmp_path)
    shown = re.findall(r"\]\(numbers/(\w+\.svg)\)", NUMBERS.read_text())
    assert sorted(shown) == sorted(path.name for path in tmp_path.iterdir())
    assert sorted(shown) == sorted(path.name for path in (ROOT / "docs/numbers").glob("*.svg"))
    assert all(path.stat().st_size < 100_000 for path in (ROOT / "docs/numbers").iterdir())
    sys.modules.pop("number_pictures")


def test_the_page_shows_the_rows_and_claims_of_its_table(mine: Path) -> None:
    own = read_table(mine)
    for row in own.rows:
        assert re.search(rf"^\| {re.escape(row.name)} +\|", OWN.read_text(), re.MULTILINE)
    for claim in own.claims:
        assert f"| {claim['better']} > {claim['worse']} " in OWN.read_text()


@pytest.mark.slow
def test_the_table_of_the_page_runs(mine: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert engine.main(["push", "--config-dir", "mine", "--seeds", "1", "--jobs", "1", *SMALL]) == 0
    assert "| NT-Xent, push 4 > NT-Xent " in capfd.readouterr().out
    assert list(Path("outputs/table").glob("push*.tex"))


BIASED = ROOT / "docs/biased.md"
COMMANDS, SHOWN = (
    re.findall(rf"^```{kind}\n(.*?)^```", BIASED.read_text(), re.DOTALL | re.MULTILINE) for kind in ("bash", "text")
)


def without_numbers(line: str) -> str:
    """The words of a line."""
    return " ".join(re.findall(r"[A-Za-z_=/,]+", line)).replace("better", "undecided").replace("worse", "undecided")


@pytest.mark.slow
def test_the_page_shows_what_its_commands_print(tmp_path: Path) -> None:
    for name in ("train.py", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    ((name, content),) = files(BIASED).items()
    small = content.replace("size: 32", "size: 8").replace("epochs: 10", "epochs: 1")
    write_files(tmp_path, {name: small.replace("resnet18_narrow", "simple_convnet")})
    env = {**ANYWHERE, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    options = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True}
    done = [subprocess.run(["bash", "-ec", block], **options) for block in COMMANDS]
    assert [run.returncode for run in done] == [0] * 5, [run.stderr for run in done]
    first, second, *others = [run.stdout + run.stderr for run in done]
    csv, found, *reports = SHOWN
    assert csv in first
    assert found in second and "'dataset.columns={path: file, split: fold, label: label, bias: " in second
    for text, whole in zip(reports, others, strict=True):
        labels = [without_numbers(line) for line in text.splitlines() if line.strip()]
        assert labels and set(labels) <= {without_numbers(line) for line in whole.splitlines()}


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="an extra: try pip install '.[docs]'")
    words = ["-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = python(*words, cwd=ROOT, env={**ANYWHERE, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr
    for page in ("index", "settings/index", "contributing/index", "studies/index", "api/index"):
        assert (tmp_path / f"site/{page}.html").exists(), page
    assert "tau_plus" in (tmp_path / "site/settings/index.html").read_text()


def test_the_menu_has_five_groups_and_ten_results():
    menu = re.search(r"^nav:\n(.*)", (ROOT / "mkdocs.yml").read_text(), re.DOTALL | re.MULTILINE)[1]
    assert re.findall(r"^  - (.+?):?$", menu, re.MULTILINE) == ["Start", "Guides", "Losses", "Results", "Reference"]
    listed = re.findall(r"studies/\S+\.md", menu)
    assert {"studies/README.md", "studies/archive/README.md"} <= set(listed)
    assert len(listed) <= 10 and all((ROOT / page).exists() for page in listed)


def test_pages_are_few_and_short():
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert len(pages) <= 20
    for page in pages:
        prose = re.sub(r"^(```|<!-- made).*?^(```|<!-- end)", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        assert len(prose.split()) <= 1400, page
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110
