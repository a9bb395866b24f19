"""What a notebook shows of a result: a table and small curves, HTML that needs nothing else."""

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, EDGE = 220, 70, 4  # pixels of a curve, and of the margin in it


def table(rows: Sequence[Sequence[str]]) -> str:
    """Cells of text, the head first."""
    tags = ["th", *["td"] * (len(rows) - 1)]
    lines = ("".join(f"<{tag}>{escape(text)}</{tag}>" for text in row) for tag, row in zip(tags, rows, strict=True))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def curve(name: str, points: Sequence[tuple[float, float]]) -> str:
    """A line through points (x, y) without axes, above it its name with its first and last value."""
    x, y = zip(*points, strict=True)
    left, low = min(x), min(y)
    across, up = (WIDTH - 2 * EDGE) / ((max(x) - left) or 1), (HEIGHT - 2 * EDGE) / ((max(y) - low) or 1)
    corners = " ".join(
        f"{EDGE + across * (a - left):.1f},{HEIGHT - EDGE - up * (b - low):.1f}" for a, b in zip(x, y, strict=True)
    )
    line = f'<polyline points="{corners}" fill="none" stroke="#0072B2" stroke-width="2"/>'
    return (
        f'<figure style="display: inline-block; margin: 8px 16px 0 0">'
        f"<figcaption>{escape(name)}: {y[0]:.4g} → {y[-1]:.4g}</figcaption>"
        f'<svg width="{WIDTH}" height="{HEIGHT}">{line}</svg></figure>'
    )
