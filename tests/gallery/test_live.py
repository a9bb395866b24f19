"""The page of runs while they run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from contrastive.cli.report import main
from contrastive.cli.runs import main as runs_main
from contrastive.experiment import summary
from contrastive.gallery import live
from contrastive.run.files import lock
from tests.gallery.pages import loads_nothing, specs, text_of

charts = pytest.importorskip("contrastive.study.render.charts")


@pytest.fixture
def folder(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run, one that was interrupted, and one that is running while its lock is held."""
    monkeypatch.setattr(charts, "javascript", lambda: "// library")
    for name in ("done", "stopped", "goes on"):
        shutil.copytree(runs[0], tmp_path / "outputs" / name)
    for name in ("stopped", "goes on"):
        (tmp_path / "outputs" / name / "result.json").unlink()
    return tmp_path / "outputs"


def stops_after(*steps: Callable[[], None]) -> Callable[[float], None]:
    """In place of time.sleep: a step at each call, then Ctrl-C."""
    left = iter(steps)

    def sleep(_: float) -> None:
        step = next(left, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    return sleep


def test_the_page_follows_runs_and_ends_with_ctrl_c(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, seen = folder / "runs.html", list[str]()

    def look() -> None:
        seen.append(page.read_text())

    def log() -> None:
        look()
        with (folder / "goes on/metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": 99, "epoch": 7.0, "test/knn_top1": 12.0}) + "\n")

    monkeypatch.setattr(live, "sleep", stops_after(log, look))
    with lock(folder / "goes on"):
        assert main(["page", "--watch", str(folder)]) == 0
    first, second, last = *seen, page.read_text()
    assert "1 running, 1 interrupted, 1 done" in text_of(first)
    assert all('http-equiv="refresh"' in text for text in seen) and 'http-equiv="refresh"' not in last
    assert "7/2" not in text_of(first) and "7/2" in text_of(second)
    (spec,) = specs(second)
    curve = next(r for r in spec["datasets"]["rows"] if r["method"].endswith("goes on") and r["key"] == "test/knn_top1")
    assert (curve["epoch"][-1], curve["mean"][-1]) == (7.0, 12.0)
    assert loads_nothing(second)


def test_a_run_that_broke_down_is_called_failed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "stopped/failure.json").write_text(json.dumps({"reason": "a loss that is not finite"}))
    assert runs_main([str(folder)]) == 0
    said = capsys.readouterr().out
    assert "failed " in said and said.endswith("1 done, 1 interrupted, 1 failed\n")


def test_nothing_is_written_while_nothing_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = folder.parent / "own.html"
    times: list[int] = []

    def look() -> None:
        times.append(page.stat().st_mtime_ns)

    monkeypatch.setattr(live, "sleep", stops_after(look, look))
    assert main(["page", str(page), "--watch", str(folder)]) == 0
    assert times[0] == times[1] and not (folder / "runs.html").exists()


def test_a_page_needs_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["page", str(tmp_path / "page.html")]) == 2
    assert "try contrastive page page.html outputs" in capsys.readouterr().err
    assert main(["page", "--watch", str(tmp_path)]) == 2
    assert "no run under" in capsys.readouterr().err


def test_the_first_lines_of_a_run_say_how_to_look_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("outputs/digits/nt_xent/default/seed=0")
    assert summary.watching(path) == ""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert summary.watching(path).endswith("-m contrastive page --watch outputs")
    assert summary.watching(Path(".")).endswith("--watch .")
