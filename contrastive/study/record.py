"""The record of a comparison: the final runs as a table's, and every run of its searches, with the verdicts."""

from pathlib import Path
from typing import Any, NotRequired, TypedDict

from contrastive.report.record import Record, read_typed
from contrastive.study.compare.plan import Plan


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


class SearchRecord(TypedDict):
    """A search of a contestant; nothing is chosen where every point failed."""

    points: list[PointRecord]
    chosen: dict[str, str] | None
    more: dict[str, float] | None  # see `compare.search.left_to_find`


class ComparisonRecord(TypedDict):
    """What `study.compare.outcome` adds of contrastive compare."""

    plan: Plan
    failed: dict[str, int]
    reasons: dict[str, str]
    knobs: dict[str, dict[str, str]]
    searches: dict[str, list[SearchRecord]]
    judged: list[dict[str, Any]]  # see `compare.judge.judge_comparison`, by which they are computed again
    left_alone: dict[str, dict[str, Any]]
    folders: list[str]  # of --config-dir
    versions: NotRequired[int]  # comparisons of these names on these data that were judged, this one among them
    sealed: dict[str, Any]  # empty of the first comparisons, which told no hashes


class ComparedRecord(Record):
    """The JSON of a table, or of a comparison on one data set."""

    comparison: NotRequired[ComparisonRecord]


class DatasetsRecord(TypedDict):
    """The JSON of a comparison over data sets: the record on each, and what is said over all."""

    table: str
    title: str
    looks: int
    datasets: dict[str, ComparedRecord]
    judged: list[dict[str, Any]]


def read_compared(path: Path) -> dict[str, Any] | None:
    """The record of a table, or of a comparison on one data set or over several; None if the file holds something else.

    Raises:
        ConfigError: the file cannot be read, or the record lacks what is printed today.
    """
    return read_typed(
        path, {("table", "rows", "metrics"): ComparedRecord, ("table", "datasets", "judged"): DatasetsRecord}
    )
