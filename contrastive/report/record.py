"""The record of finished runs, the JSON beside a page: their metrics and curves, compact enough to be committed.

Every printed metric is computed from the record alone, so that it can be recomputed from the repository without the
runs. So are the curves of the page to look at.
"""

import json
import lzma
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from contrastive.errors import ConfigError
from contrastive.files import misfit

Figures = dict[str, float]  # {metric: value}


class CurveRecord(TypedDict):
    """A curve at some of its epochs."""

    epoch: list[float]
    value: list[float]


class RunRecord(TypedDict):
    """A finished run; `environment` and `protocol` are numbers in the record's lists."""

    seed: int
    environment: int
    protocol: int
    data: str
    date: str
    minutes: float
    settings: dict[str, str]  # what a heading tells of them
    test: Figures
    val: Figures
    audit: dict[str, Any]
    curves: dict[str, CurveRecord]
    correct: NotRequired[dict[str, str]]
    weights: NotRequired[str | None]  # a hash of the encoder
    point: NotRequired[dict[str, Any]]  # of a comparison: the values of what is searched


class RowRecord(TypedDict):
    """A row of a table with its finished runs."""

    name: str
    point: str
    overrides: list[str]
    published: dict[str, str]
    source: str
    runs: list[RunRecord]
    published_curves: dict[str, CurveRecord]


class Claim(TypedDict):
    """One row is better than another by more than `gap`, in the unit of the metric."""

    better: str
    worse: str
    metric: str
    gap: float
    source: str


class EnvironmentRecord(TypedDict):
    """Where runs were computed; None is what a run did not record."""

    commit: str | None
    dirty: bool | None
    package: NotRequired[str | None]
    device: str
    processor: NotRequired[str | None]
    precision: str | None
    threads: int
    python: str | None
    torch: str


class Record(TypedDict):
    """The JSON of a table."""

    table: str
    preset: str
    title: str
    note: str
    extra: list[str]
    metrics: dict[str, str]
    claims: list[Claim]
    rows: list[RowRecord]
    environments: list[EnvironmentRecord]
    protocols: list[dict[str, str]]


def read_record(path: Path) -> dict[str, Any] | None:
    """The record of a table or of a comparison on one data set; None if the file holds something else.

    Raises:
        ConfigError: the file cannot be read, or the record lacks what is printed today.
    """
    return read_typed(path, {("table", "rows", "metrics"): Record})


def read_typed(path: Path, kinds: Mapping[tuple[str, str, str], Any]) -> dict[str, Any] | None:
    """A JSON, which may be compressed, of one of these types; None if the file holds something else.

    Args:
        kinds: {keys by which a type is known: the type}.

    Raises:
        ConfigError: the file cannot be read, or is not of its type.
    """
    try:
        record = json.loads(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_text())
    except (OSError, ValueError, RecursionError, lzma.LZMAError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): try another copy of it") from error
    kind = next((own for keys, own in kinds.items() if isinstance(record, dict) and {*keys} <= record.keys()), None)
    if kind is None:
        return None
    if (place := misfit(record, kind)) is not None:
        raise ConfigError(f"{path} is damaged or of an older version ({place}): try another copy of it")
    return dict(record)


def shown_metrics(record: dict[str, Any]) -> list[str]:
    """The metrics of the table; with other evaluators than usual also every other test metric that its runs have."""
    chosen = any(word.startswith("evaluator=") for word in record["extra"])
    runs = [run for row in record["rows"] for run in row["runs"]] if chosen else []
    return list(dict.fromkeys([*record["metrics"], *(key for run in runs for key in run["test"])]))


def correct_name(metric: str) -> str:
    """The name under which the images that an accuracy counts as right are recorded: `linear_top1`, also of
    `audit.linear.top1`."""
    return metric.removeprefix("audit.").replace(".", "_")


def look_up(result: dict[str, Any], metric: str) -> float | None:
    """A dotted path into a result, or a name under its `test`; None when the run has no such figure, or no number."""
    if metric in result.get("test", {}):  # a report's own name, as of `knn_top1 (temperature=0.1)`
        return float(result["test"][metric])
    node: Any = result
    for key in (metric if "." in metric else f"test.{metric}").split("."):
        node = node.get(key) if isinstance(node, dict) else None
    return float(node) if misfit(node, float) is None else None


def as_json(record: dict[str, Any]) -> str:
    """Indented JSON with every list of numbers, and every curve, on one line."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    text = re.sub(r"\[[\d\s.,eE+-]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    return re.sub(r'\{\s+("epoch": \[[^\]]*\]),\s+("value": \[[^\]]*\])\s+\}', r"{\1, \2}", text) + "\n"
