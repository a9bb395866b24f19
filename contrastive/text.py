"""Numbers, tables, paths and bits as text, and the filter that foreign text passes before it is printed."""

import base64
import os
import re
import shlex
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

ANSI = {"bold": 1, "red": 31, "green": 32, "yellow": 33, "blue": 34}
# They stand for escape sequences until `show` prints them: by then `printable` has spelled out those of foreign text.
MARKS = {color: chr(0xE001 + i) for i, color in enumerate(ANSI)}  # letters of private use: no text has them
END = "\ue000"
MARKED = re.compile(f"([{END}-{chr(0xE000 + len(ANSI))}])")


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
    """Print lines that may hold foreign text, each as `printable` has it; what is `marked` in its color."""
    codes = {MARKS[color]: f"\x1b[{code}m" for color, code in ANSI.items()} | {END: "\x1b[0m"}
    is_dumb = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    is_colored = (file or sys.stdout).isatty() and not is_dumb

    def piece(text: str) -> str:
        return (codes[text] if is_colored else "") if text in codes else printable(text)

    lines = ["".join(map(piece, MARKED.split(line))) for line in text.split("\n")]
    print("\n".join(lines), file=file, end=end, flush=True)


def marked(text: str, color: str) -> str:
    """The text with marks for `show`, which prints it in a color, or bold, on a terminal."""
    return f"{MARKS[color]}{text}{END}"


def columns(rows: list[list[str]], *, colors: Mapping[tuple[int, int], str] | None = None, width: int = 0) -> str:
    """Aligned columns, the first to the left and numbers to the right.

    Args:
        rows: cells of text, the head first.
        colors: {(row, column): color} of cells, see `marked`.
        width: of the terminal; columns for which it has no room follow below, beside the first one. 0 = no limit.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    blocks: list[list[int]] = [[]]
    for j in range(1, len(widths)):
        if width and blocks[-1] and 2 + widths[0] + sum(3 + widths[k] for k in (*blocks[-1], j)) > width:
            blocks.append([])
        blocks[-1].append(j)

    def cell(i: int, j: int) -> str:
        text = rows[i][j].rjust(widths[j]) if j else rows[i][j].ljust(widths[j])
        return marked(text, colors[i, j]) if colors and (i, j) in colors else text

    return "\n\n".join(
        "\n".join("  " + "   ".join(cell(i, j) for j in (0, *block)) for i in range(len(rows))) for block in blocks
    )


def spread(values: list[float]) -> str:
    """`mean ± std (n)` with the sample standard deviation; no ± for a single value."""
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.2f} (1)"
    return f"{mean(values):.2f} ± {stdev(values):.2f} ({len(values)})"


def format_grid(rows: list[list[str]]) -> str:
    """A Markdown table, padded so that it also reads in a terminal; the first row is its head."""
    rows = [[printable(cell).replace("|", r"\|") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def counted(n: int, noun: str) -> str:
    """`1 epoch`, `1,000 epochs`, `2 batches`, `5 searches`."""
    return f"{n:,} {noun}{'' if n == 1 else 'es' if noun.endswith(('s', 'tch', 'rch', 'x')) else 's'}"


def listed(names: Sequence[object], most: int) -> str:
    """`a, b and 3 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(map(str, names[:most]))}{more}"


def clock(seconds: float) -> str:
    """`2 h 05 min`, `3 min 07 s`, `4.1 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def as_typed(path: Path) -> str:
    """The path as one would type it from here."""
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def pack_bits(bits: "ArrayLike") -> str:
    """Booleans (N,), one for each of many images, as `N:base64` of their compressed bits."""
    import numpy as np  # slow to import

    array = np.asarray(bits, dtype=bool)
    return f"{len(array)}:{base64.b64encode(zlib.compress(np.packbits(array).tobytes(), 9)).decode()}"


def unpack_bits(text: str) -> "NDArray[np.bool_]":
    """The booleans (N,) that `pack_bits` wrote."""
    import numpy as np

    count, _, packed = text.partition(":")
    raw = np.frombuffer(zlib.decompress(base64.b64decode(packed)), dtype=np.uint8)
    return np.unpackbits(raw, count=int(count)).astype(bool)
