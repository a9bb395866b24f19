"""docs/numbers.md and docs/tables.md: their pictures are drawn, their table runs and has the shown columns."""

import re
import sys
from pathlib import Path

import pytest
from tables import engine
from tables.spec import read_table

from tests.helpers import CONTIGUOUS, ROOT

NUMBERS, OWN = (ROOT / f"docs/{name}.md" for name in ("numbers", "tables"))
SMALL = ["epochs=1", "dataset.size=8", "encoder.width=2", "batch_size=256", "evaluator.linear.max_iter=5", CONTIGUOUS]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the table of the page."""
    ((name, text),) = re.findall(r"^`(mine/\S+)`\n\n```yaml\n(.*?)^```", OWN.read_text(), re.DOTALL | re.MULTILINE)
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
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
