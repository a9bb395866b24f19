"""Numbers, tables and paths as text."""

import shlex
from pathlib import Path
from statistics import mean, stdev


def spread(values: list[float]) -> str:
    """`mean ± std (n)` with the sample standard deviation; no ± for a single value."""
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.2f} (1)"
    return f"{mean(values):.2f} ± {stdev(values):.2f} ({len(values)})"


def plain(text: str) -> str:
    """Text of others for a terminal: what is not printable, such as an escape code, is shown as \\x1b; lines stay."""
    return "".join(x if x.isprintable() or x in "\n\t" else x.encode("unicode_escape").decode() for x in text)


def format_grid(rows: list[list[str]]) -> str:
    """A Markdown table, padded so that it also reads in a terminal; the first row is its head."""
    rows = [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def counted(n: int, noun: str) -> str:
    """`1 epoch`, `1,000 epochs`, `2 batches`."""
    return f"{n:,} {noun}{'' if n == 1 else 'es' if noun.endswith(('s', 'ch', 'x')) else 's'}"


def clock(seconds: float) -> str:
    """`2 h 05 min`, `3 min 07 s`, `4.1 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def as_typed(path: Path) -> str:
    """The path as one would type it from here."""
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
