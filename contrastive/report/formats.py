"""A table's record as CSV and LaTeX."""

import csv
import io
from typing import Any

from contrastive.report.page import cell, columns, grid, heading, minutes, protocol, read_out
from contrastive.report.verdicts import LEGEND, claims_grid

TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "ε": r"$\epsilon$", "τ": r"$\tau$",
    ">": "$>$", "<": "$<$",
}  # fmt: skip


def figures(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Every figure of the table: a dictionary for each row and metric, numbers unrounded, None where there is none."""
    lines = []
    for row in record["rows"]:
        devices = {record["environments"][run["environment"]]["device"] for run in row["runs"]}
        for metric in columns(record):
            value = cell(record, row, metric)
            lines.append(
                {
                    "method": row["name"],
                    "metric": metric,
                    "mean": value.mean,
                    "std": value.std,
                    "n": len(value.values),
                    "published": value.published or None,
                    "difference": value.difference,
                    "read_out": read_out(row) if metric.startswith("audit.reported") else None,
                    "source": row["source"] or None,
                    "protocol": "; ".join(f"{name}: {text}" for name, text in protocol(record, metric)),
                    "device": "; ".join(sorted(devices)) or None,
                    "minutes": minutes(row) or None,
                    "overrides": " ".join(row["overrides"]),
                }
            )
    return lines


def as_csv(record: dict[str, Any]) -> str:
    """One line for each row and metric."""
    lines, text = figures(record), io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def as_latex(record: dict[str, Any]) -> str:
    r"""Booktabs tables, the claims in one of their own; the document needs \usepackage{booktabs}."""
    claims = [_tabular(claims_grid(record), LEGEND, "llrrr" + "l" * 4)] if record["claims"] else []
    table = grid(record)
    return "\n".join([_tabular(table, heading(record), "l" + "r" * (len(table[0]) - 1)), *claims])


def _tabular(table: list[list[str]], caption: str, columns: str) -> str:
    return "\n".join([
        r"\begin{table}", rf"\caption{{{escape(caption)}}}", booktabs(table, columns), r"\end{table}",
    ])  # fmt: skip


def booktabs(table: list[list[str]], columns: str) -> str:
    """Cells of text, the head first, as a tabular; `columns` are its letters, as many as are needed are used."""
    head, *body = [[escape(cell) for cell in row] for row in table]
    return "\n".join([
        rf"\begin{{tabular}}{{{columns[: len(head)]}}}",
        r"\toprule",
        f"{' & '.join(head)} \\\\",
        r"\midrule",
        *(f"{' & '.join(row)} \\\\" for row in body),
        r"\bottomrule",
        r"\end{tabular}",
    ])  # fmt: skip


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    return "".join(TEX.get(letter, letter) for letter in text)
