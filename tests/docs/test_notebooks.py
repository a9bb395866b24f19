"""The notebooks of examples/ run, and are kept with their outputs."""

from pathlib import Path

import pytest

from tests.helpers import ROOT

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
RUNS = [path for path in NOTEBOOKS if path.stem not in ("plain_loop", "is_my_loss_better")]  # they call pretrain


@pytest.mark.slow
@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, as_version=4)
    (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert parameters.source.startswith("epochs = ")
    parameters.source = "epochs = 1"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert list(tmp_path.glob("outputs/digits/*/*/seed=0/result.json"))


@pytest.mark.slow
def test_the_comparison_of_a_loss_of_ones_own_ends_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(ROOT / "examples/is_my_loss_better.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("epochs = 5", "epochs = 1").replace("budget=8", "budget=2")
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (said,) = [cell.outputs[0].text for cell in notebook.cells if "found.sentences" in cell.source]
    assert said.startswith("my_margin")
    assert list(tmp_path.glob("outputs/compare/*.json"))


@pytest.mark.slow
def test_the_plain_loop_of_two_processes_prints_what_one_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(ROOT / "examples/plain_loop.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [cell.outputs[0].text for cell in notebook.cells if cell.cell_type == "code" and "train(" in cell.source]
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
