"""The record of a table: its runs and their metrics, compact enough to be committed.

Every printed metric is computed from the record alone, so that it can be recomputed from the repository without the
runs. So are the curves, views and histograms of the page to look at.
"""

import base64
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from contrastive.config.identity import is_identity
from contrastive.run.files import RunState, run_state
from contrastive.run.kinds import Figures
from contrastive.schema import misfit
from contrastive.study.curves import MAX_POINTS, read_points, short, thin
from contrastive.study.frame import Frame
from contrastive.study.spec import Curves, Row, Table, folder_name, look_up, row_folder

ENVIRONMENT = ("commit", "dirty", "device", "precision", "threads", "python", "torch")
SETTINGS = ("epochs", "batch_size", "n_views")
MAX_OF_DIAGNOSTIC = 10  # points of a curve, of which a run has some twenty beside its metrics
DIAGNOSTICS = ("train/loss", "train/grad_norm", "pairs/", "debiasing/", "bias/")
USUAL = ("knn_top1", "linear_top1")  # test metrics that are kept whether or not the table shows them
N_BINS = 40  # of equal width, on [-1, 1]


class CurveRecord(TypedDict):
    """A curve at some of its epochs."""

    epoch: list[float]
    value: list[float]


class SettingsRecord(TypedDict):
    """What a heading tells of a run's settings, further ones among them."""

    epochs: str


class RunRecord(TypedDict):
    """A finished run; `environment` and `protocol` are numbers in the record's lists."""

    seed: int
    environment: int
    protocol: int
    data: str
    date: str
    minutes: float
    settings: SettingsRecord
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
    similarities: dict[str, list[float]]
    published_curves: dict[str, CurveRecord]


class ClaimRecord(TypedDict):
    """A claim of a table, see `spec.Claim`."""

    better: str
    worse: str
    metric: str
    gap: float
    source: str


class EnvironmentRecord(TypedDict):
    """Where runs were computed; None is what a run did not record."""

    commit: str | None
    dirty: bool | None
    device: str
    precision: str | None
    threads: int
    python: str | None
    torch: str


class PointRecord(TypedDict):
    """A point of a search with what its runs were worth on the held-out images, None of one that failed.

    `minutes` are those of each run; an earlier version tells those of the first. `default`: the values of the settings
    that are searched, where the point has no words.
    """

    point: dict[str, str]
    default: NotRequired[dict[str, Any]]
    values: list[float | None]
    minutes: list[float | None] | float | None
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
    more: NotRequired[MoreRecord | None]  # an earlier version does not tell


class ComparisonRecord(TypedDict):
    """What `study.compare.outcome` adds of contrastive compare."""

    plan: dict[str, Any]
    failed: dict[str, int]
    reasons: dict[str, str]
    knobs: dict[str, dict[str, str]]
    searches: dict[str, list[SearchRecord]]
    judged: list[dict[str, Any]]
    left_alone: NotRequired[dict[str, dict[str, Any]]]
    folders: NotRequired[list[str]]  # of --config-dir
    sealed: NotRequired[dict[str, Any]]


class Record(TypedDict):
    """The JSON of a table."""

    table: str
    preset: str
    title: str
    note: str
    extra: list[str]
    metrics: dict[str, str]
    claims: list[ClaimRecord]
    rows: list[RowRecord]
    environments: list[EnvironmentRecord]
    protocols: list[dict[str, str]]
    views: str | None
    comparison: NotRequired[ComparisonRecord]


@dataclass
class Shared:
    """What most runs of a record have in common, listed once; a run refers to it by number."""

    environments: list[dict[str, Any]] = field(default_factory=list)
    protocols: list[dict[str, str]] = field(default_factory=list)


def table_record(table: Table, base: Path, *, leave_out: Collection[Path] = ()) -> dict[str, Any]:
    """The record of the table's finished runs under `base`, plain containers for JSON.

    Args:
        leave_out: directories of runs that are not the table's, such as those with other settings.
    """
    shared = Shared()
    runs = {row.name: finished_runs(row, table, base, leave_out) for row in table.rows}
    rows = [
        row_record(row, runs[row.name], list(table.metrics), shared, curves=table.curves.get(row.name))
        for row in table.rows
    ]
    return {
        "table": table.name,
        "preset": table.preset,
        "title": table.title,
        "note": table.note,
        "extra": list(table.changes),
        "metrics": table.metrics,
        "claims": [asdict(claim) for claim in table.claims],
        "rows": rows,
        "environments": shared.environments,
        "protocols": shared.protocols,
        "views": views_as_png(next((path for own in runs.values() for path in own), base)),
    }


def finished_runs(row: Row, table: Table, base: Path, leave_out: Collection[Path]) -> dict[Path, RunState]:
    """The row's finished runs in the order of the seeds."""
    paths = [row_folder(row, base) / f"seed={seed}" for seed in table.seeds] if row.overrides else []
    states = {path: run_state(path) for path in paths if path not in leave_out}
    return {path: state for path, state in states.items() if state.kind == "finished"}


def row_record(
    row: Row, runs: dict[Path, RunState], metrics: list[str], shared: Shared, *, curves: Curves | None = None
) -> dict[str, Any]:
    """One row with its finished runs; its histograms of similarities are those of the first, `curves` the published."""
    biased = [path for path, run in runs.items() if "similarity" in run.result["audit"]]
    return {
        "name": row.name,
        "folder": folder_name(row.name),
        "point": row.point,
        "overrides": list(row.overrides),
        "published": row.published,
        "source": row.source,
        "runs": [run_record(path, run, metrics, shared) for path, run in runs.items()],
        "similarities": similarity_histograms(biased[0]) if biased else {},
        "published_curves": {
            logged_name(metric): thin(list(enumerate(curve["values"], start=curve["from"])))
            for metric, curve in (curves or {}).items()
        },
    }


def run_record(path: Path, run: RunState, metrics: list[str], shared: Shared) -> dict[str, Any]:
    """One finished run; its environment and protocol join the shared lists unless they are there."""
    names = {correct_name(metric) for metric in metrics}
    return {
        "seed": run.config["seed"],
        "environment": _number({key: run.environment.get(key) for key in ENVIRONMENT}, shared.environments),
        "protocol": _number(run.result["protocol"], shared.protocols),
        "data": run.environment["data"][:16],
        "date": run.result["time"].get("finished", "")[:10],
        "minutes": round(run.result["time"]["seconds"] / 60, 2),
        "settings": settings_in_words(run.config),
        **{key: _rounded(run.result[key]) for key in ("test", "val", "audit")},
        "correct": {key: bits for key, bits in run.result.get("correct", {}).items() if key in names},
        "weights": run.result.get("weights", {}).get("encoder.safetensors"),
        "curves": thinned_curves(path, metrics),
    }


def record_frame(record: dict[str, Any]) -> Frame:
    """The runs of a record as a frame: a line for each row and seed, a column for each metric that the table shows."""
    import pandas as pd  # late: it takes half a second

    metrics = shown_metrics(record)
    lines = [
        {"dataset": "", "name": row["name"], "seed": run["seed"], "processor": device_of(record, run),
         "words": (row["name"],), "settings": run.get("settings", {}), "correct": run.get("correct", {})}
        | {metric: look_up(run, metric) for metric in metrics}
        for row in record["rows"] for run in row["runs"]
    ]  # fmt: skip
    columns = ["dataset", "name", "seed", "processor", "words", "settings", "correct", *metrics]
    return Frame(table=pd.DataFrame(lines, columns=columns).astype(dict.fromkeys(metrics, float)), metrics=metrics)


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
    return None


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
    return str(record["environments"][run["environment"]]["device"])


def is_best_test(row: dict[str, Any], metric: str) -> bool:
    """Whether a row's figures of a metric are those of the epoch that was best on the test split."""
    if metric.startswith("audit.reported"):
        return any("best_test" in run["audit"].get("reported", {}).get("read_out", "") for run in row["runs"])
    return "best_test" in metric


def settings_in_words(config: dict[str, Any]) -> dict[str, str]:
    """What a heading tells of a run's configuration: {setting: value in words}."""
    words = {key: component_in_words(config[key], key) for key in ("dataset", "encoder", "optimizer")}
    return words | {key: str(config[key]) for key in SETTINGS}


def component_in_words(node: dict[str, Any], key: str) -> str:
    """A component as `ResNet depth=18 width=64`; settings that change no result are left out."""
    options = [
        f"{name}={value}"
        for name, value in node.items()
        if not name.startswith("_") and not isinstance(value, dict | list) and is_identity(f"{key}.{name}")
        if value is not None
    ]
    return " ".join([str(node["_target_"]).rpartition(".")[2], *options])


def _number(item: dict[str, Any], items: list[dict[str, Any]]) -> int:
    if item not in items:
        items.append(item)
    return items.index(item)


def _rounded(value: Any) -> Any:
    """Numbers to four decimals: tables print two. Lists are left out: biased data may have hundreds of groups."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items() if not isinstance(item, list)}
    return round(value, 4) if isinstance(value, float) else value


def thinned_curves(run: Path, metrics: list[str]) -> dict[str, dict[str, list[float]]]:
    """{logged name: {epoch: [...], value: [...]}}: at most 20 points of a metric and 10 of a diagnostic.

    Args:
        metrics: columns of a table; `knn_top1` is logged as test/knn_top1, `audit.linear.top1` as audit/linear/top1.
    """
    points = read_points(run)
    wanted = {logged_name(metric) for metric in [*metrics, *USUAL]}
    curves = {}
    for name in dict.fromkeys(key for point in points for key in point):
        pairs = [(point["epoch"], point[name]) for point in points if name in point]
        if len(pairs) > 1 and (name in wanted or name.startswith(DIAGNOSTICS)):
            curves[name] = thin(pairs, MAX_POINTS if name in wanted else MAX_OF_DIAGNOSTIC)
    return curves


def logged_name(metric: str) -> str:
    """The name in metrics.jsonl of a table's metric."""
    return metric.replace(".", "/") if "." in metric else f"test/{metric}"


def views_as_png(run: Path) -> str | None:
    """The views of the first batch as a PNG in base64; None if the run has none."""
    events = _read_events(run)
    if events is None or "views" not in events.Tags()["images"]:
        return None
    return base64.b64encode(events.Images("views")[-1].encoded_image_string).decode()


def similarity_histograms(run: Path) -> dict[str, list[float]]:
    """{kind of pair: percent of its pairs in each of 40 bins of cosine similarity on [-1, 1]}, after training."""
    events = _read_events(run)
    if events is None:
        return {}
    from tensorboard.util.tensor_util import make_ndarray  # late: slow to import

    from contrastive.run.tensorboard import OTHERS  # late: it imports torch

    prefix = f"{OTHERS['similarity']}/"

    tags = [tag for tag in events.Tags()["tensors"] if tag.startswith(prefix)]
    return {
        tag.removeprefix(prefix): equal_bins(make_ndarray(events.Tensors(tag)[-1].tensor_proto).tolist())
        for tag in tags
    }


def equal_bins(bins: list[list[float]]) -> list[float]:
    """TensorBoard's histogram, rows of (lower edge, upper edge, count), as percent in 40 bins on [-1, 1].

    Each of its bins is taken to be filled evenly.
    """
    shares, total = [0.0] * N_BINS, sum(count for *_, count in bins)
    for lower, upper, count in bins:
        width = max(upper - lower, 1e-9)
        for i in range(N_BINS):
            left, right = 2 * i / N_BINS - 1, 2 * (i + 1) / N_BINS - 1
            overlap = max(0.0, min(right, lower + width) - max(left, lower))
            shares[i] += 100 * count / total * overlap / width
    return [short(share) for share in shares]


def _read_events(run: Path) -> Any:
    """TensorBoard's reader of the run's newest images and histograms; None if the run has no events."""
    if not list(run.glob("events.*")):
        return None
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # late: slow to import

    kinds = ("images", "tensors")
    events = EventAccumulator(str(run), size_guidance=dict.fromkeys(kinds, 1))  # the newest of each; 0 keeps all
    events.Reload()
    return events
