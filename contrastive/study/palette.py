"""One color and one marker for each method, the same in every figure, chart and table."""

import re
from collections.abc import Sequence

# Okabe & Ito 2008, told apart by color-blind readers; then darker and paler ones for more methods (Tol 2021)
COLORS = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31", "#882255", "#999999",
    "#332288", "#117733", "#44AA99", "#DDCC77", "#CC6677", "#AA4499", "#661100", "#6699CC", "#B8960C", "#555555",
]  # fmt: skip
MARKERS = "osD^vP*X<>"
# what the name of a row says of its method; the first that is found decides
METHODS = {
    r"nt[-_]xent.*(push|repulsion|factor)|push\S* nt[-_]xent|repulsive": "#56B4E9",
    r"debiased[_ ]pos.*(without it|push 1|without self)|balanced": "#CC79A7",
    r"debiased[_ ]neg": "#E69F00",
    r"debiased[_ ]pos": "#009E73",
    r"nt[-_]xent|simclr": "#0072B2",
    r"combination": "#882255",
    r"hard_negative": "#D55E00",
    r"decoupled": "#999999",
    r"dhel": "#332288",
    r"kcl": "#117733",
    r"rince": "#44AA99",
    r"sigmoid": "#AA4499",
    r"fnc": "#DDCC77",
    r"glofnd": "#B8960C",
    r"sogclr": "#661100",
    r"spectral": "#6699CC",
    r"vicreg": "#555555",
    r"barlow": "#8C6D31",
    r"fairkl|eps[-_]sup": "#D55E00",
    r"supcon": "#009E73",
    r"\bend\b": "#E69F00",
    r"\bbc\b|bias_contrastive|softcon": "#0072B2",
    r"\bbb\b|bias_balanced": "#CC79A7",
    r"\bce\b|cross[-_ ]entropy|vanilla": "#000000",
    r"\blnl\b": "#8C6D31",
}


def colors_of(names: Sequence[str]) -> dict[str, str]:
    """{name: its color}. A method has its own, further rows of it shades of that, other methods what is left.

    More names than colors repeat them.
    """
    own = {
        name: next((c for text, c in METHODS.items() if re.search(text, name, re.IGNORECASE)), None) for name in names
    }
    chosen: dict[str, str] = {}
    for name, color in own.items():
        free = [shade for shade in shades(color) if shade not in chosen.values()] if color else []
        if free:
            chosen[name] = free[0]
    left = [color for color in COLORS if color not in own.values()] or COLORS
    others = [name for name in own if name not in chosen]
    chosen |= {name: left[i % len(left)] for i, name in enumerate(others)}
    return {name: chosen[name] for name in own}


def shades(color: str) -> list[str]:
    """The color, a darker and a paler one."""
    parts = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    darker, paler = [part // 2 for part in parts], [(part + 255) // 2 for part in parts]
    return [color, *("#" + "".join(f"{part:02X}" for part in own) for own in (darker, paler))]


def marker_of(color: str) -> str:
    """Matplotlib's marker of a color, by which print without color tells methods, and rows of one, apart."""
    base, shade = next((i, shades(c).index(color)) for i, c in enumerate(COLORS) if color in shades(c))
    return MARKERS[(base + 3 * shade) % len(MARKERS)]
