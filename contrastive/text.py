"""Numbers, tables and paths as text, and the filter that foreign text passes before it is printed."""

import os
import re
import shlex
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import pandas as pd

ANSI = {"bold": 1, "red": 31, "green": 32, "yellow": 33, "blue": 34}


def printable(text: object) -> str:
    r"""Text without anything that a terminal obeys: \x1b in place of an escape, \n of a new line, \xff of a stray byte.

    Names of metrics, settings, folders and files may come from strangers.
    """
    return "".join(letter if letter.isprintable() else _spelled(letter) for letter in str(text))


def _spelled(letter: str) -> str:
    """As repr spells it; a byte of a file's name that is no text, a lone surrogate in Python, as that byte."""
    code = ord(letter)
    return rf"\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else repr(letter)[1:-1]


def show(text: str, *, file: TextIO | None = None, end: str = "\n") -> None:
    """Print lines that may hold foreign text, each as `printable` has it."""
    print("\n".join(map(printable, text.split("\n"))), file=file, end=end, flush=True)


def colored(text: str, color: str) -> str:
    """The text in a color, or bold, where standard output is a terminal and NO_COLOR is not set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{ANSI[color]}m{text}\x1b[0m"


def spread(values: list[float]) -> str:
    """`mean ± std (n)` with the sample standard deviation; no ± for a single value."""
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.2f} (1)"
    return f"{mean(values):.2f} ± {stdev(values):.2f} ({len(values)})"


def format_grid(rows: list[list[str]]) -> str:
    """A Markdown table, padded so that it also reads in a terminal; the first row is its head."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def counted(n: int, noun: str) -> str:
    """`1 epoch`, `1,000 epochs`, `2 batches`."""
    return f"{n:,} {noun}{'' if n == 1 else 'es' if noun.endswith(('s', 'tch', 'x')) else 's'}"


def spreadsheet(table: "pd.DataFrame", *, float_format: str | None = None) -> str:
    """A CSV whose cells no spreadsheet computes: an apostrophe leads what begins as a formula and is no number."""
    table = table.apply(lambda column: column.map(_inert)).rename(columns=_inert)
    return str(table.to_csv(index=False, float_format=float_format))


def _inert(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and re.match(r"[=+@\t\r-](?![\d.]+(e[+-]?\d+)?$)[\s\S]", cell) else cell


def clock(seconds: float) -> str:
    """`2 h 05 min`, `3 min 07 s`, `4.1 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def as_typed(path: Path) -> str:
    """The path as one would type it from here."""
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
