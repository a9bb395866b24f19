r"""Tables of LaTeX that fit a page; the document needs \usepackage{booktabs,adjustbox}."""

import re
from collections.abc import Sequence

PACKAGES = r"% needs \usepackage{booktabs,adjustbox}"
N_COLUMNS = 3  # of metrics, unless others are chosen: what fits on a page
TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "ε": r"$\epsilon$", "τ": r"$\tau$",
    ">": "$>$", "<": "$<$",
}  # fmt: skip


def latex(cells: list[list[str]], *, caption: str, label: str, best: Sequence[tuple[int, int]] = ()) -> str:
    """A table with its caption and label, shrunk if it is wider than a line or higher than a page.

    Args:
        cells: text, the head first.
        best: (row, column) of the cells set in bold, counted with the head.
    """
    lines = [
        [rf"\textbf{{{escape(text)}}}" if (i, j) in best else escape(text) for j, text in enumerate(row)]
        for i, row in enumerate(cells)
    ]
    head, *body = [f"{' & '.join(line)} \\\\" for line in lines]
    are_numbers = [any(re.match(r"[+-]?\d", cell) for cell in column[1:]) for column in zip(*cells, strict=True)]
    sides = "".join("r" if numbers else "l" for numbers in are_numbers[1:])
    return "\n".join([
        PACKAGES, r"\begin{table}", r"\centering", rf"\caption{{{escape(caption)}}}", rf"\label{{tab:{slug(label)}}}",
        r"\begin{adjustbox}{max width=\linewidth, max totalheight=0.9\textheight}",
        rf"\begin{{tabular}}{{l{sides}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule",
        r"\end{tabular}", r"\end{adjustbox}", r"\end{table}",
    ])  # fmt: skip


def escape(text: str) -> str:
    """Text as LaTeX prints it, a number below zero with a minus."""
    return re.sub(r"(?<![\w.-])-(?=\d)", "$-$", "".join(TEX.get(letter, letter) for letter in text))


def slug(text: str) -> str:
    """Text as part of a label."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
