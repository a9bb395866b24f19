"""The notebooks and the loop of examples/ run; notebooks are kept with their outputs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import ROOT, python

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
RUNS = [path.stem for path in NOTEBOOKS if path.stem not in ("plain_loop", "is_my_loss_better")]  # they call pretrain


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """executed(name, {old: new}): the cells of a notebook after it ran in a folder of its own, with these changes."""

    def execute(name: str, changes: dict[str, str]) -> list[Any]:
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        notebook = nbformat.read(ROOT / f"examples/{name}.ipynb", as_version=4)
        for cell in notebook.cells:
            for old, new in changes.items():
                cell.source = re.sub(old, new, cell.source)
        nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
        return [cell for cell in notebook.cells if cell.cell_type == "code"]

    return execute


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_notebook_runs(name: str, executed: Callable[..., list[Any]], tmp_path: Path) -> None:
    assert any(cell.source.startswith("epochs = 1") for cell in executed(name, {r"^epochs = \d+": "epochs = 1"}))
    assert list(tmp_path.glob("outputs/digits/*/*/seed=0/result.json"))


@pytest.mark.slow
def test_the_comparison_of_a_loss_of_ones_own_ends_in_a_sentence(
    executed: Callable[..., list[Any]], tmp_path: Path
) -> None:
    cells = executed("is_my_loss_better", {"epochs = 5": "epochs = 1", "budget=8": "budget=2"})
    (said,) = [cell.outputs[0].text for cell in cells if "found.sentences" in cell.source]
    assert said.startswith("my_margin")
    assert list(tmp_path.glob("outputs/compare/*.json"))


@pytest.mark.slow
def test_the_plain_loop_of_two_processes_prints_what_one_prints(executed: Callable[..., list[Any]]) -> None:
    printed = [cell.outputs[0].text for cell in executed("plain_loop", {}) if "train(" in cell.source]
    one, two = ([float(line.split()[-1]) for line in text.split("\n") if "loss" in line] for text in printed)
    assert one == pytest.approx(two, abs=1e-3)
    assert one[0] > one[-1] > 0


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_shows_its_outputs(path: Path) -> None:
    assert path.stat().st_size < 300_000
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [out for cell in cells for out in cell.outputs if out.output_type == "error" or "stderr" in str(out)]
    assert "/tmp" not in path.read_text() and str(Path.home()) not in path.read_text()


@pytest.mark.slow
def test_the_minimal_loop_learns() -> None:
    done = python(str(ROOT / "examples/minimal.py"), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    untrained, *trained = (float(value) for value in re.findall(r"kNN ([\d.]+) %", done.stdout))
    assert len(trained) == 10
    assert trained[-1] > untrained + 2
