"""A color and a marker for each row of a figure, chart or table, in the order of the rows."""

from collections.abc import Sequence

# Okabe & Ito 2008, told apart by color-blind readers; then darker and paler ones for more rows (Tol 2021)
COLORS = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31", "#882255", "#999999",
    "#332288", "#117733", "#44AA99", "#DDCC77", "#CC6677", "#AA4499", "#661100", "#6699CC", "#B8960C", "#555555",
]  # fmt: skip
MARKERS = "osD^vP*X<>"


def colors_of(names: Sequence[str]) -> dict[str, str]:
    """{name: its color}, which further rows at the end leave as it is; more names than colors repeat them."""
    return {name: COLORS[i % len(COLORS)] for i, name in enumerate(dict.fromkeys(names))}


def marker_of(color: str) -> str:
    """Matplotlib's marker of a color, by which print without color tells rows apart."""
    return MARKERS[COLORS.index(color) % len(MARKERS)]
