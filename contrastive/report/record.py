"""The record of finished runs, the JSON beside a page: their metrics and curves, compact enough to be committed.

Every printed metric is computed from the record alone, so that it can be recomputed from the repository without the
runs. So are the curves of the page to look at.
"""

import json
import lzma
import re
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from contrastive.bits import unpack
from contrastive.distributed.processor import processor_of
from contrastive.errors import ConfigError
from contrastive.schema import misfit

Figures = dict[str, float]  # {metric: value}
LARGEST = 1e15  # number that is read


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
    comparison: NotRequired[dict[str, Any]]  # see `study.record`


def read_record(path: Path) -> dict[str, Any] | None:
    """The record of a table or of a comparison; None if the file holds something else.

    Raises:
        ConfigError: the file cannot be read, or the record lacks what is printed today.
    """
    record = parsed(path)
    if not isinstance(record, dict) or not {"table", "rows", "metrics"} <= record.keys():
        return None
    check_whole(path, record_misfit(record))
    return record


def parsed(path: Path) -> Any:
    """The content of a JSON, which may be compressed.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        text = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_text()
        return json.loads(text, parse_constant=_number, parse_float=_number, parse_int=_number)
    except (OSError, ValueError, RecursionError, lzma.LZMAError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): try another copy of it") from error


def check_whole(path: Path, place: str | None) -> None:
    """Raise ConfigError for the place of a record that is not as it must be."""
    if place is not None:
        raise ConfigError(f"{path} is damaged or of an older version ({place}): try another copy of it")


def record_misfit(record: Any) -> str | None:
    """The first place of a JSON that is not as a `Record` has it, a name or number that its lists lack among them."""
    if (place := misfit(record, Record)) is not None:
        return place
    names = {row["name"] for row in record["rows"]}
    for claim in record["claims"]:
        if not ({claim["better"], claim["worse"]} <= names and claim["metric"] in record["metrics"]):
            return f"a claim on {claim['better']} and {claim['worse']}"
    for row in record["rows"]:
        for run in row["runs"]:
            for key in ("environment", "protocol"):
                if not 0 <= run[key] < len(record[f"{key}s"]):
                    return f"{key} {run[key]} of {row['name']}"
            if (place := run_misfit(run)) is not None:
                return f"{place} of {row['name']}, seed {run['seed']}"
        for key, curve in row["published_curves"].items():
            if not _is_curve(curve):
                return f"published curve {key} of {row['name']}"
    return None


def run_misfit(run: RunRecord) -> str | None:
    """What no run gives: a curve of other epochs than values, or of no epoch, and images that are none."""
    epochs = run["settings"].get("epochs", "")
    if not epochs.isdecimal() or (run["curves"] and int(epochs) == 0):
        return "epochs"
    if lacking := next((key for key, curve in run["curves"].items() if not _is_curve(curve)), None):
        return f"curve {lacking}"
    return "images" if not all(map(are_bits, run.get("correct", {}).values())) else None


def _is_curve(curve: CurveRecord) -> bool:
    return len(curve["epoch"]) == len(curve["value"]) > 0


def are_bits(text: str) -> bool:
    """Whether it tells which images are right, see `bits.pack`."""
    try:
        unpack(text)
    except (ValueError, OverflowError):
        return False
    return True


def _number(text: str) -> float:
    """A number of a JSON.

    Raises:
        ValueError: no run gives such a number.
    """
    value = int(text) if text.removeprefix("-").isdecimal() and len(text) < 20 else float(text)
    if not abs(value) <= LARGEST:
        raise ValueError(f"{text} is no figure")
    return value


def shown_metrics(record: dict[str, Any]) -> list[str]:
    """The metrics of the table; with other evaluators than usual also every other test metric that its runs have."""
    chosen = any(word.startswith("evaluator=") for word in record["extra"])
    runs = [run for row in record["rows"] for run in row["runs"]] if chosen else []
    return list(dict.fromkeys([*record["metrics"], *(key for run in runs for key in run["test"])]))


def correct_name(metric: str) -> str:
    """The name under which the images that an accuracy counts as right are recorded: `linear_top1`, also of
    `audit.linear.top1`."""
    return metric.removeprefix("audit.").replace(".", "_")


def device_of(record: dict[str, Any], run: dict[str, Any]) -> str:
    """The kind of processor that a run of a record trained on."""
    return processor_of(record["environments"][run["environment"]])


def is_best_test(row: dict[str, Any], metric: str) -> bool:
    """Whether a row's figures of a metric are those of the epoch that was best on the test split."""
    if metric.startswith("audit.reported"):
        return any("best_test" in run["audit"].get("reported", {}).get("read_out", "") for run in row["runs"])
    return "best_test" in metric


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
