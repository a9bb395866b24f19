"""The record of a table, the JSON beside its page: its runs and their metrics, compact enough to be committed.

Every printed metric is computed from the record alone, so that it can be recomputed from the repository without the
runs. So are the curves of the page to look at.
"""

import json
import lzma
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from contrastive.bits import unpack
from contrastive.distributed.processor import processor_of
from contrastive.errors import ConfigError
from contrastive.schema import misfit
from contrastive.verdict import VERDICTS

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
    folder: str
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


class PointRecord(TypedDict):
    """A point of a search with what its runs were worth on the held-out images, None of one that failed.

    `minutes` are those of each run. `default`: the values of the settings that are searched, where the point has no
    words.
    """

    point: dict[str, str]
    default: NotRequired[dict[str, Any]]
    values: list[float | None]
    minutes: list[float | None]
    correct: str | None


class MoreRecord(TypedDict):
    """What another such search could still bring, in points: the mean and 90 % range of its model."""

    mean: float
    low: float
    high: float


class SearchRecord(TypedDict):
    """A search of a contestant; nothing is chosen where every point failed."""

    points: list[PointRecord]
    chosen: dict[str, str] | None
    more: MoreRecord | None  # None where there is no model


class ContestantRecord(TypedDict):
    """See `compare.plan.Contestant`."""

    name: str
    words: list[str]
    ranges: dict[str, str]


class PlanRecord(TypedDict):
    """See `compare.plan.Plan`."""

    contestants: list[ContestantRecord]
    common: list[str]
    ranges: dict[str, str]
    budget: int
    seeds: int
    searches: int
    metric: str
    margin: float
    looks: int
    level: float


class JudgedRecord(TypedDict):
    """What is said of a pair, see `compare.judge.judge_comparison`."""

    name: str
    against: str
    verdict: str
    n: int
    over: str
    effect: float | None
    low: float | None
    high: float | None
    p: float | None
    worse: float | None
    within: float | None
    better: float | None
    p_better: float | None
    gain: float
    gain_against: float
    floor: float
    decide: int | None
    found: float | None
    images: int | None
    same: bool
    failed: int
    broke: NotRequired[str | list[str]]


class OverRecord(JudgedRecord):
    """The same over data sets: the effect on each, and on how many it is above 0."""

    each: list[float | None]
    ahead: int


class ComparisonRecord(TypedDict):
    """What `study.compare.outcome` adds of contrastive compare."""

    plan: PlanRecord
    failed: dict[str, int]
    reasons: dict[str, str]
    knobs: dict[str, dict[str, str]]
    searches: dict[str, list[SearchRecord]]
    judged: list[JudgedRecord]
    left_alone: dict[str, dict[str, Any]]
    folders: list[str]  # of --config-dir
    sealed: dict[str, Any]  # empty of the first comparisons, which told no hashes


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
    comparison: NotRequired[ComparisonRecord]


class DatasetsRecord(TypedDict):
    """The JSON of a comparison over data sets: the record on each, and what is said over all."""

    table: str
    title: str
    looks: int
    datasets: dict[str, dict[str, Any]]
    judged: list[OverRecord]


def read_record(path: Path) -> dict[str, Any] | None:
    """The record of a table, or of a comparison over data sets; None if the file holds something else.

    Raises:
        ConfigError: the file cannot be read, or the record lacks what is printed today.
    """
    try:
        text = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_text()
        record = json.loads(text, parse_constant=_number, parse_float=_number, parse_int=_number)
    except (OSError, ValueError, RecursionError, lzma.LZMAError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): try another copy of it") from error
    if not isinstance(record, dict):
        return None
    if {"table", "rows", "metrics"} <= record.keys():
        place = record_misfit(record)
    elif {"table", "datasets", "judged"} <= record.keys():
        place = over_misfit(record)
    else:
        return None
    if place is not None:
        is_compared = {"datasets", "comparison"}.intersection(record)
        again = f"try make reproduce-table TABLE={record['table']}, which runs nothing again"
        remedy = "try it with the version that made it" if is_compared else again
        raise ConfigError(f"{path} is damaged or of an older version ({place}): {remedy}")
    return record


def over_misfit(record: Any) -> str | None:
    """The same of a comparison over data sets, on each of which the same pairs are judged."""
    if (place := misfit(record, DatasetsRecord)) is not None:
        return place
    parts = list(record["datasets"].values())
    if (place := next((found for part in parts if (found := record_misfit(part)) is not None), None)) is not None:
        return place
    judged = [record["judged"], *(part.get("comparison", {}).get("judged", []) for part in parts)]
    pairs = [[(claim["name"], claim["against"]) for claim in own] for own in judged]
    return "judged" if len(parts) < 2 or any(own != pairs[0] for own in pairs) or not pairs[0] else None


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
    if "comparison" not in record:
        return None
    lacking = [row["name"] for row in record["rows"] for run in row["runs"]
               if record["comparison"]["plan"]["metric"] not in run["test"]]  # fmt: skip
    return f"a figure of {lacking[0]}" if lacking else comparison_misfit(record["comparison"], names)


def run_misfit(run: RunRecord) -> str | None:
    """What no run gives: a curve of other epochs than values, or of no epoch, and images that are none."""
    epochs = run["settings"].get("epochs", "")
    if not epochs.isdecimal() or (run["curves"] and int(epochs) == 0):
        return "epochs"
    if lacking := next((key for key, curve in run["curves"].items() if not _is_curve(curve)), None):
        return f"curve {lacking}"
    return "images" if not all(map(_are_bits, run.get("correct", {}).values())) else None


def _is_curve(curve: CurveRecord) -> bool:
    return len(curve["epoch"]) == len(curve["value"]) > 0


def comparison_misfit(own: ComparisonRecord, rows: set[str]) -> str | None:
    """The first contestant or pair whose parts are not all there."""
    names = [contestant["name"] for contestant in own["plan"]["contestants"]]
    for name in names:
        if not all(name in part for part in (rows, own["searches"], own["knobs"], own["failed"])):
            return f"contestant {name}"
        for search in own["searches"][name]:
            for point in search["points"]:
                bits = point["correct"]
                if not point["values"] or (bits is not None and not _are_bits(bits)):
                    return f"points of {name}"
    for claim in own["judged"]:
        numbers = [claim[key] for key in ("effect", "low", "high", "p", "worse", "within", "better", "found")]
        is_open = (
            claim["verdict"] == "failed" or claim["same"] or (claim["verdict"], claim["low"]) == ("undecided", None)
        )
        known = {claim["name"], claim["against"]} <= {*names} and claim["verdict"] in VERDICTS
        if not known or (None in numbers and not is_open):
            return f"verdict on {claim['name']}"
    return None


def _are_bits(text: str) -> bool:
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
