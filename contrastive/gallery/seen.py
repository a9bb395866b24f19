"""Runs as they stand on the disk: running, interrupted, done, failed, stopped early or damaged. Imports no torch."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from contrastive.errors import ConfigError
from contrastive.report.names import protocols_apart
from contrastive.report.runs import protocol_of
from contrastive.run import log
from contrastive.run.figures import KNN
from contrastive.run.files import files_below, is_locked, read_failure
from contrastive.run.run import Run, read_run

WORDS = {"finished": "done", "resumable": "interrupted", "empty": "stopped early", "damaged": "damaged"}


class Seen(NamedTuple):
    """A run; `points` are the lines of its metrics.jsonl."""

    path: Path
    kind: str
    state: Run
    points: list[dict[str, float]]

    @property
    def epochs(self) -> str:
        """`12/40`: how far the log goes, of how many."""
        if self.kind == "damaged":
            return ""
        total = self.state.config.get("epochs", "")
        last = max((point["epoch"] for point in self.points), default=0)
        return f"{total if self.state.kind == 'finished' else int(last)}/{total}"

    @property
    def knn(self) -> tuple[float, str] | None:
        """kNN accuracy in percent of a finished run, and what it was read with, see `protocol_of`."""
        value = self.state.result.get("test", {}).get(KNN)
        if value is None:
            return None
        return value, protocol_of(KNN, self.state.config["evaluator"])


def runs_seen(folders: Iterable[Path]) -> list[Seen]:
    """Every run below the folders, by path.

    Raises:
        ConfigError: there is none.
    """
    files = [file for folder in folders for file in files_below(folder, "config.yaml")]
    # other programs have a file of this name, too, such as wandb inside a run; only a run has both
    paths = sorted({file.parent for file in files if (file.parent / "environment.json").exists()})
    if not paths:
        raise ConfigError(f"no run under {', '.join(map(str, folders))}: try python train.py first")
    return [_seen(path) for path in paths]


def knn_cells(runs: Sequence[Seen]) -> list[str]:
    """kNN accuracy in percent of each run, empty where it has none; with its settings where the runs have several."""
    read = [run.knn for run in runs]
    told = protocols_apart([*dict.fromkeys(knn[1] for knn in read if knn)])
    return [f"{knn[0]:.2f} ({told[knn[1]]})".removesuffix(" ()") if knn else "" for knn in read]


def _seen(path: Path) -> Seen:
    state = read_run(path)
    try:
        points = [] if state.kind == "damaged" else log.read_points(path)
    except ConfigError:
        return Seen(path, "damaged", state, [])
    if is_locked(path):
        return Seen(path, "running", state, points)
    has_failed = state.kind != "finished" and read_failure(path) is not None
    return Seen(path, "failed" if has_failed else WORDS[state.kind], state, points)
