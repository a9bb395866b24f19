"""The claims of a table's YAML, expanded along its grid (format: `contrastive.report.table`)."""

from dataclasses import dataclass
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.rows import Preset, Row, check_keys, expand_rows

CLAIM_KEYS = {"better", "worse", "metric", "gap", "source"}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One row is better than another by more than `gap`, in the unit of the metric."""

    better: str
    worse: str
    metric: str
    gap: float
    source: str


def read_claims(spec: dict[str, Any], names: set[str]) -> list[Claim]:
    """The claims between rows whose names, after expansion, are among `names`: a preset may run fewer points.

    Raises:
        ConfigError: an unknown key, a row or metric that the table does not have, or rows that share no point.
    """
    rows = expand_rows(spec, Preset())
    claims = [claim for node in spec.get("claims", []) for claim in _expand(node, rows, list(spec.get("metrics", [])))]
    return [claim for claim in claims if {claim.better, claim.worse} <= names]


def _expand(node: dict[str, Any], rows: list[Row], metrics: list[str]) -> list[Claim]:
    """One claim of the YAML at every point of the grid that both of its rows have."""
    check_keys(node, CLAIM_KEYS, f"claim {node.get('better')} > {node.get('worse')}")
    missing = sorted({"better", "worse", "metric", "source"} - node.keys())
    if missing:
        raise ConfigError(f"a claim of {node} lacks {missing[0]}: try {missing[0]}: ... in the table's YAML")
    if node["metric"] not in metrics:
        raise ConfigError(f"a claim names the metric {node['metric']}: try one of {', '.join(metrics)}")
    better, worse = (_rows_at_points(node[key], rows) for key in ("better", "worse"))
    pairs = [(b, w) for at, b in better.items() for other, w in worse.items() if at == other or None in (at, other)]
    if not pairs:
        raise ConfigError(
            f"the rows {node['better']} and {node['worse']} share no point: try their names with the point"
        )
    return [
        Claim(better=b, worse=w, metric=node["metric"], gap=float(node.get("gap", 0)), source=node["source"])
        for b, w in pairs
    ]


def _rows_at_points(name: str, rows: list[Row]) -> dict[str | None, str]:
    """{point: full name} of a row named without its point; {None: name} of one named with it, which suits any point."""
    run = [row for row in rows if row.words]
    if any(row.name == name for row in run):
        return {None: name}
    at_points: dict[str | None, str] = {row.point: row.name for row in run if row.name == f"{name}, {row.point}"}
    if not at_points:
        raise ConfigError(f"a claim names the row {name}: try one of {'; '.join(row.name for row in run)}")
    return at_points
