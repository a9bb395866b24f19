r"""A table as columns of text and numbers, from which text, Markdown, LaTeX and CSV are written; pages show its cells.

LaTeX needs \usepackage{booktabs,adjustbox} in the document.
"""

import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from contrastive.text import columns, format_grid

if TYPE_CHECKING:
    import pandas as pd

PACKAGES = r"% needs \usepackage{booktabs,adjustbox}"
N_COLUMNS = 3  # of metrics in LaTeX, unless others are chosen: what fits on a page
TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "ε": r"$\epsilon$", "τ": r"$\tau$",
    ">": "$>$", "<": "$<$",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: its heading.
        cells: as text.
        numbers: the columns of a CSV in its place, {heading: cells}; none = the text.
        best: the rows, from 0, of cells that are set in bold.
    """

    head: str
    cells: Sequence[str]
    numbers: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    best: Sequence[int] = ()


@dataclass(frozen=True)
class Grid:
    """A table; its first column names the rows."""

    columns: Sequence[Column]

    @classmethod
    def of(cls, cells: Sequence[Sequence[str]]) -> "Grid":
        """A table of text, the head first."""
        return cls([Column(head, own) for head, *own in zip(*cells, strict=True)])

    @property
    def cells(self) -> list[list[str]]:
        """Rows of text, the head first."""
        own = zip(*(column.cells for column in self.columns), strict=True)
        return [[column.head for column in self.columns], *map(list, own)]

    @property
    def best(self) -> list[tuple[int, int]]:
        """(row, column) of the cells set in bold, counted with the head."""
        return [(i + 1, j) for j, column in enumerate(self.columns) for i in column.best]

    def terminal(self) -> str:
        """Columns that fit a terminal, the best cells bold; a Markdown table in a pipe."""
        if not sys.stdout.isatty():
            return format_grid(self.cells)
        return columns(self.cells, colors=dict.fromkeys(self.best, "bold"), width=shutil.get_terminal_size().columns)

    def markdown(self) -> str:
        """A Markdown table, the best cells bold."""
        return format_grid(self._marked("**{}**".format))

    def latex(self, *, caption: str, label: str) -> str:
        """A table with its caption and label, shrunk if it is wider than a line or higher than a page."""
        bold = r"\textbf{{{}}}".format
        head, *body = [rf"{' & '.join(line)} \\" for line in self._marked(bold, [map(escape, r) for r in self.cells])]
        are_numbers = [any(re.match(r"[+-]?\d", cell) for cell in column.cells) for column in self.columns]
        sides = "".join("r" if numbers else "l" for numbers in are_numbers[1:])
        return "\n".join([
            PACKAGES, r"\begin{table}", r"\centering", rf"\caption{{{escape(caption)}}}",
            rf"\label{{tab:{slug(label)}}}",
            r"\begin{adjustbox}{max width=\linewidth, max totalheight=0.9\textheight}",
            rf"\begin{{tabular}}{{l{sides}}}", r"\toprule", head, r"\midrule", *body, r"\bottomrule",
            r"\end{tabular}", r"\end{adjustbox}", r"\end{table}",
        ])  # fmt: skip

    def numbers(self) -> "pd.DataFrame":
        """What a CSV holds."""
        import pandas as pd  # late: it takes half a second

        return pd.DataFrame({
            head: cells for column in self.columns
            for head, cells in (column.numbers or {column.head: column.cells}).items()
        })  # fmt: skip

    def _marked(self, bold: Any, cells: Iterable[Iterable[str]] | None = None) -> list[list[str]]:
        rows = enumerate(self.cells if cells is None else cells)
        return [[bold(text) if (i, j) in self.best else text for j, text in enumerate(row)] for i, row in rows]


def as_csv(*grids: Grid) -> str:
    """One CSV of tables, one below the other."""
    import pandas as pd

    return str(pd.concat([grid.numbers() for grid in grids]).to_csv(index=False, float_format="%.4f"))


def escape(text: str) -> str:
    """Text as LaTeX prints it, a number below zero with a minus."""
    return re.sub(r"(?<![\w.-])-(?=\d)", "$-$", "".join(TEX.get(letter, letter) for letter in text))


def slug(text: str) -> str:
    """Text as part of a label."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
