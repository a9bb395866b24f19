"""A table's record as CSV and LaTeX."""

import csv
import io
from typing import Any

from contrastive.report.page import columns, figure, grid, heading, minutes, protocol, read_out

TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "ε": r"$\epsilon$", "τ": r"$\tau$",
}  # fmt: skip


def figures(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Every figure of the table: a dictionary for each row and metric, numbers unrounded, None where there is none."""
    lines = []
    for row in record["rows"]:
        devices = {record["environments"][run["environment"]]["device"] for run in row["runs"]}
        for metric in columns(record):
            cell = figure(record, row, metric)
            lines.append(
                {
                    "method": row["name"],
                    "metric": metric,
                    "mean": cell.mean,
                    "std": cell.std,
                    "n": len(cell.values),
                    "published": cell.published or None,
                    "difference": cell.difference,
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
    r"""A booktabs table; the document needs \usepackage{booktabs}."""
    head, *body = [[escape(cell) for cell in row] for row in grid(record)]
    rows = "\n".join(f"{' & '.join(row)} \\\\" for row in body)
    return "\n".join([
        r"\begin{table}",
        rf"\caption{{{escape(heading(record))}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"\toprule",
        f"{' & '.join(head)} \\\\",
        r"\midrule",
        rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ])  # fmt: skip


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    return "".join(TEX.get(letter, letter) for letter in text)
