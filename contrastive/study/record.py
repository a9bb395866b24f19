"""The record of a comparison: the final runs as a table's, and every run of its searches, with the verdicts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from contrastive.report.record import are_bits, check_whole, parsed, record_misfit
from contrastive.schema import misfit
from contrastive.study.compare.plan import Plan
from contrastive.study.compare.space import read_knob
from contrastive.verdict import VERDICTS


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
    """See `compare.search.left_to_find`."""

    mean: float
    low: float
    high: float


class SearchRecord(TypedDict):
    """A search of a contestant; nothing is chosen where every point failed."""

    points: list[PointRecord]
    chosen: dict[str, str] | None
    more: MoreRecord | None


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

    plan: Plan
    failed: dict[str, int]
    reasons: dict[str, str]
    knobs: dict[str, dict[str, str]]
    searches: dict[str, list[SearchRecord]]
    judged: list[JudgedRecord]
    left_alone: dict[str, dict[str, Any]]
    folders: list[str]  # of --config-dir
    sealed: dict[str, Any]  # empty of the first comparisons, which told no hashes


class DatasetsRecord(TypedDict):
    """The JSON of a comparison over data sets: the record on each, and what is said over all."""

    table: str
    title: str
    looks: int
    datasets: dict[str, dict[str, Any]]
    judged: list[OverRecord]


def read_compared(path: Path) -> dict[str, Any] | None:
    """The record of a table, or of a comparison on one data set or over several; None if the file holds something else.

    Raises:
        ConfigError: the file cannot be read, or the record lacks what is printed today.
    """
    record = parsed(path)
    if not isinstance(record, dict):
        return None
    if {"table", "rows", "metrics"} <= record.keys():
        check_whole(path, compared_misfit(record))
    elif {"table", "datasets", "judged"} <= record.keys():
        check_whole(path, over_misfit(record))
    else:
        return None
    return record


def compared_misfit(record: Any) -> str | None:
    """The first place of a JSON that is not as it must be, one of its comparison among them."""
    if (place := record_misfit(record)) is not None or "comparison" not in record:
        return place
    own: Any = record["comparison"]
    if (place := misfit(own, ComparisonRecord)) is not None:
        return f"comparison.{place}"
    metric = own["plan"]["metric"]
    lacking = [row["name"] for row in record["rows"] for run in row["runs"]
               if metric not in run["test"] or "point" not in run]  # fmt: skip
    return f"a run of {lacking[0]}" if lacking else comparison_misfit(own, {row["name"] for row in record["rows"]})


def over_misfit(record: Any) -> str | None:
    """The same of a comparison over data sets, on each of which the same pairs are judged."""
    if (place := misfit(record, DatasetsRecord)) is not None:
        return place
    parts = list(record["datasets"].values())
    if (place := next((found for part in parts if (found := compared_misfit(part)) is not None), None)) is not None:
        return place
    judged = [record["judged"], *(part.get("comparison", {}).get("judged", []) for part in parts)]
    pairs = [[(claim["name"], claim["against"]) for claim in own] for own in judged]
    return "judged" if len(parts) < 2 or any(own != pairs[0] for own in pairs) or not pairs[0] else None


def comparison_misfit(own: Mapping[str, Any], rows: set[str]) -> str | None:
    """The first contestant or pair whose parts are not all there."""
    names = [contestant["name"] for contestant in own["plan"]["contestants"]]
    for name in names:
        if not all(name in part for part in (rows, own["searches"], own["knobs"], own["failed"])):
            return f"contestant {name}"
        knobs = own["knobs"][name]
        if any(read_knob(key, typed).times not in ("", *knobs) for key, typed in knobs.items()):
            return f"knobs of {name}"
        for search in own["searches"][name]:
            for point in search["points"]:
                bits = point["correct"]
                if not point["values"] or (bits is not None and not are_bits(bits)):
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
