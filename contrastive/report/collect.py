"""Collect finished runs into a record."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contrastive.config.identity import is_identity
from contrastive.distributed.hardware import of_sessions
from contrastive.report.curves import MAX_POINTS, read_points, thin
from contrastive.report.frame import Frame
from contrastive.report.record import correct_name
from contrastive.run.figures import KNN, LINEAR
from contrastive.run.run import Run, read_run

ENVIRONMENT = ("commit", "dirty", "package", "device", "processor", "precision", "threads", "python", "torch")
SETTINGS = ("epochs", "batch_size", "n_views")
OTHER_PAIRS = ("noise_frac", "blur_frac")  # told where they are not 0
MAX_OF_DIAGNOSTIC = 10  # points of a curve, of which a run has some twenty beside its metrics
DIAGNOSTICS = ("train/loss", "train/grad_norm", "pairs/", "debiasing/", "bias/")


def section_record(section: Frame, metrics: list[str]) -> dict[str, Any]:
    """The runs of a dataset as a table: its metrics are those of all runs of a seed, and of later evaluations."""
    section = section.by_name()
    shown, shared = section.shown(), section.shared()
    states = {name: {paths[0]: read_run(paths[0]) for paths in own["paths"]} for name, own in section.rows.items()}
    record = runs_record(states, metrics)
    for (name, own), entry in zip(section.rows.items(), record["rows"], strict=True):
        settings = own["settings"].iloc[0]
        entry["name"] = shown[name]
        entry["overrides"] = [f"{key}={settings[key]}" for key in section.differing if key in settings]
        for run, line in zip(entry["runs"], own.to_dict("records"), strict=True):
            known = {metric: round(line[metric], 4) for metric in section.metrics if line[metric] == line[metric]}
            run["test"] = {metric: value for metric, value in known.items() if metric in metrics}
            run["val"] = {m.removeprefix("val/"): value for m, value in known.items() if m.startswith("val/")}
    note = f"In every row: {' '.join(shared)}." if shared else ""
    return {**record, "title": f"Finished runs: {section.table['dataset'].iloc[0]}", "note": note}


def runs_record(rows: Mapping[str, Mapping[Path, Run]], metrics: Sequence[str]) -> dict[str, Any]:
    """The record of finished runs: {row: its runs, which differ in their seeds}."""
    return record_of("runs", [(name, (), runs) for name, runs in rows.items()], {metric: metric for metric in metrics})


def record_of(
    name: str, rows: Sequence[tuple[str, Sequence[str], Mapping[Path, Run]]], metrics: Mapping[str, str]
) -> dict[str, Any]:
    """The record of finished runs; their environments and protocols, which most runs share, are listed once, and a run
    refers to them by number.

    Args:
        rows: name, what train.py gets for it, and its runs.
    """
    unpublished = {"point": "", "published": {}, "source": "", "published_curves": {}}
    made: list[dict[str, Any]] = [
        {"name": row, "overrides": list(overrides), **unpublished,
         "runs": [run_record(path, run, list(metrics)) for path, run in runs.items()]}
        for row, overrides, runs in rows
    ]  # fmt: skip
    shared: dict[str, list[Any]] = {"environment": [], "protocol": []}
    for run in (run for row in made for run in row["runs"]):
        for key, known in shared.items():
            if run[key] not in known:
                known.append(run[key])
            run[key] = known.index(run[key])
    return {
        "table": name, "preset": "paper", "title": "Finished runs", "note": "", "extra": [], "metrics": dict(metrics),
        "claims": [], "rows": made, "environments": shared["environment"], "protocols": shared["protocol"],
    }  # fmt: skip


def finished_runs(paths: Iterable[Path]) -> dict[Path, Run]:
    """Those of the runs that are finished, in their order."""
    states = {path: read_run(path) for path in paths}
    return {path: state for path, state in states.items() if state.kind == "finished"}


def run_record(path: Path, run: Run, metrics: Sequence[str]) -> dict[str, Any]:
    """One finished run."""
    names = {correct_name(metric) for metric in metrics}
    return {
        "seed": run.config["seed"],
        "environment": {key: run.environment.get(key) for key in ENVIRONMENT}
        | {key: of_sessions(run.environment, key) or None for key in ("package", "processor", "precision", "torch")},
        "protocol": run.result["protocol"],
        "data": run.environment["data"][:16],
        "date": run.result["time"].get("finished", "")[:10],
        "minutes": round(run.result["time"]["seconds"] / 60, 2),
        "settings": settings_in_words(run.config),
        **{key: _rounded(run.result[key]) for key in ("test", "val", "audit")},
        "correct": {key: bits for key, bits in run.result.get("correct", {}).items() if key in names},
        "weights": run.result.get("weights", {}).get("encoder.safetensors"),
        "curves": thinned_curves(path, metrics),
    }


def settings_in_words(config: dict[str, Any]) -> dict[str, str]:
    """What a heading tells of a run's configuration: {setting: value in words}."""
    words = {key: component_in_words(config[key], key) for key in ("dataset", "encoder", "optimizer")}
    return words | {key: str(config[key]) for key in (*SETTINGS, *(key for key in OTHER_PAIRS if config.get(key)))}


def component_in_words(node: dict[str, Any], key: str) -> str:
    """A component as `ResNet depth=18 width=64`; settings that change no result are left out."""
    names = [name for name in node if not name.startswith("_") and is_identity(f"{key}.{name}")]
    options = [f"{name}={node[name]}" for name in names if not isinstance(node[name], dict | list | None)]
    return " ".join([str(node["_target_"]).rpartition(".")[2], *options])


def _rounded(value: Any) -> Any:
    """Numbers to four decimals: tables print two. Lists are left out: biased data may have hundreds of groups."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items() if not isinstance(item, list)}
    return round(value, 4) if isinstance(value, float) else value


def thinned_curves(run: Path, metrics: Sequence[str]) -> dict[str, dict[str, list[float]]]:
    """{logged name: {epoch: [...], value: [...]}}: at most 20 points of a metric and 10 of a diagnostic.

    Args:
        metrics: columns of a table; `knn_top1` is logged as test/knn_top1, `audit.linear.top1` as audit/linear/top1.
    """
    points = read_points(run)
    wanted = {logged_name(metric) for metric in [*metrics, KNN, LINEAR]}
    curves = {}
    for name in dict.fromkeys(key for point in points for key in point):
        pairs = [(point["epoch"], point[name]) for point in points if math.isfinite(point.get(name, math.nan))]
        if len(pairs) > 1 and (name in wanted or name.startswith(DIAGNOSTICS)):
            curves[name] = thin(pairs, MAX_POINTS if name in wanted else MAX_OF_DIAGNOSTIC)
    return curves


def logged_name(metric: str) -> str:
    """The name in metrics.jsonl of a table's metric."""
    return metric.replace(".", "/") if "." in metric else f"test/{metric}"
