"""The site builds without a warning, every loss is in its reference, and no page is long."""

import re

import pytest

from tests.helpers import ANYWHERE, ROOT, python

pytest.importorskip("mkdocs", reason="an extra: try pip install '.[docs]'")


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
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
