"""List every run below some folders: running, interrupted, done, failed or damaged.

    python -m contrastive runs outputs

An interrupted run goes on with the command that started it. Figures of finished runs: contrastive report.
"""

from collections.abc import Iterable
from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.errors import ConfigError
from contrastive.run.files import files_below, is_locked, read_failure
from contrastive.run.log import read_points
from contrastive.run.run import Run, read_run
from contrastive.text import as_typed, marked, show

WORDS = {"finished": "done", "resumable": "interrupted", "empty": "stopped early", "damaged": "damaged"}
COLORS = {
    "done": "green", "running": "blue", "interrupted": "yellow", "stopped early": "yellow", "failed": "red",
    "damaged": "red",
}  # fmt: skip


@answering
def main(words: list[str]) -> int:
    """Print a line for each run; returns the exit code."""
    parser = Parser("runs", __doc__)
    parser.add_argument(
        "folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER", help="default: outputs"
    )
    runs = [read_run(path) for path in run_directories(parser.parse_args(words).folders)]
    states = [state(run) for run in runs]
    for run, (word, epochs) in zip(runs, states, strict=True):
        show(f"{marked(f'{word:13}', COLORS[word])}  {epochs:>9}  {as_typed(run.path.resolve())}")
    counts = {word: sum(own == word for own, _ in states) for word in COLORS}
    print("\n" + ", ".join(f"{n} {word}" for word, n in counts.items() if n))
    return 0


def run_directories(folders: Iterable[Path]) -> list[Path]:
    """Every run below the folders, by path.

    Raises:
        ConfigError: there is none.
    """
    files = [file for folder in folders for file in files_below(folder, "config.yaml")]
    # other programs have a file of this name, too, such as wandb inside a run; only a run has both
    paths = sorted({file.parent for file in files if (file.parent / "environment.json").exists()})
    if not paths:
        raise ConfigError(f"no run under {', '.join(map(str, folders))}: try python train.py first")
    return paths


def state(run: Run) -> tuple[str, str]:
    """A run as it stands on the disk, in a word; and `12/40`, how far its log goes of how many epochs."""
    try:
        points = read_points(run.path)
    except ConfigError:
        points = None
    if run.kind == "damaged" or points is None:
        return "damaged", ""
    last, total = max((point["epoch"] for point in points), default=0), run.config.get("epochs", "")
    epochs = f"{total if run.kind == 'finished' else int(last)}/{total}"
    if is_locked(run.path):
        return "running", epochs
    has_failed = run.kind != "finished" and read_failure(run.path) is not None
    return "failed" if has_failed else WORDS[run.kind], epochs
