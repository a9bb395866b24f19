"""List every run below some folders: running, interrupted, done, failed or damaged.

    contrastive runs [FOLDER ...]      default: outputs

An interrupted run goes on with the command that started it. Figures of finished runs: contrastive report.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.errors import ConfigError
from contrastive.report.names import protocols_apart
from contrastive.report.runs import protocol_of
from contrastive.run.figures import KNN
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
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER")
    runs = [read_run(path) for path in run_directories(parser.parse_args(words).folders)]
    states = [state(run) for run in runs]
    rows = [
        [word, epochs, knn, as_typed(run.path.resolve())]
        for run, (word, epochs), knn in zip(runs, states, knn_cells(runs), strict=True)
    ]
    print_rows([["state", "epochs", "kNN", "run"], *rows])
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


def knn_cells(runs: Sequence[Run]) -> list[str]:
    """kNN accuracy in percent of each run, empty where it has none; with its settings where the runs have several."""
    values = [run.result.get("test", {}).get(KNN) for run in runs]
    read = [
        "" if value is None else protocol_of(KNN, run.config["evaluator"])
        for run, value in zip(runs, values, strict=True)
    ]
    told = {"": "", **protocols_apart([*dict.fromkeys(filter(None, read))])}
    cells = zip(values, read, strict=True)
    return ["" if value is None else f"{value:.2f} ({told[own]})".removesuffix(" ()") for value, own in cells]


def print_rows(rows: list[list[str]]) -> None:
    """Aligned columns, the path last."""
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for state, epoch, figure, path in rows:
        line = f"{epoch:>{widths[1]}}  {figure:>{widths[2]}}  {path}"
        show(f"{marked(f'{state:{widths[0]}}', COLORS.get(state, 'bold'))}  {line}")
