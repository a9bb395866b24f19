"""List every run below some folders: running, interrupted, done, failed or damaged.

    contrastive runs [FOLDER ...]      default: outputs

An interrupted run goes on with the command that started it. Figures of finished runs: contrastive report.
"""

import shutil
import sys
from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.gallery.seen import knn_cells, runs_seen
from contrastive.text import as_typed, marked, show

COLORS = {
    "done": "green", "running": "blue", "interrupted": "yellow", "stopped early": "yellow", "failed": "red",
    "damaged": "red",
}  # fmt: skip


@answering
def main(words: list[str]) -> int:
    """Print a line for each run; returns the exit code."""
    parser = Parser("runs", __doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER")
    runs = runs_seen(parser.parse_args(words).folders)
    rows = [
        [run.kind, run.epochs, knn, as_typed(run.path.resolve())]
        for run, knn in zip(runs, knn_cells(runs), strict=True)
    ]
    print_rows([["state", "epochs", "kNN", "run"], *rows])
    counts = {word: sum(run.kind == word for run in runs) for word in COLORS}
    print("\n" + ", ".join(f"{n} {word}" for word, n in counts.items() if n))
    return 0


def print_rows(rows: list[list[str]]) -> None:
    """Aligned columns, the path last. On a terminal a path that is too long loses its middle; in a pipe nothing."""
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    room = shutil.get_terminal_size().columns - sum(widths) - 6 if sys.stdout.isatty() else None
    for state, epoch, figure, path in rows:
        line = f"{epoch:>{widths[1]}}  {figure:>{widths[2]}}  {shortened(path, room)}"
        show(f"{marked(f'{state:{widths[0]}}', COLORS.get(state, 'bold'))}  {line}")


def shortened(text: str, width: int | None) -> str:
    """The text with … for its middle where it is wider than the room."""
    if width is None or len(text) <= width or width < 3:
        return text
    tail = 2 * (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[-tail:]}"
