"""The record of a comparison: the final runs as a table's, and every run of its searches."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contrastive.config.identity import flatten
from contrastive.files import write_text
from contrastive.run.figures import KNN, LINEAR
from contrastive.run.run import Run, read_run
from contrastive.schema import read_json
from contrastive.study.collect import finished_runs, record_of
from contrastive.study.compare.judge import judge_comparison, judge_datasets
from contrastive.study.compare.plan import Contestant, Plan, plan_from_dict
from contrastive.study.compare.propose import left_to_find
from contrastive.study.compare.seal import read_sealed
from contrastive.study.compare.stages import WORST, Contest
from contrastive.study.spec import Row

AS_IT_COMES = " as it comes"  # behind the name of a contestant with its default settings
LOOKS = "looks"  # beside the folder: [searches, seeds, metric, margin] of every judgement so far
METRICS = {KNN: "kNN", LINEAR: "linear probe"}


def final_rows(contest: Contest) -> list[tuple[Contestant, Row, list[Run]]]:
    """Each contestant with its final runs, then those of the default settings, once for all that share these."""
    plan = contest.plan
    rows = [
        (own, Row(name=own.name, overrides=(*own.fixed, *_chosen_words(contest, own))), _final_runs(contest, own))
        for own in plan.contestants
    ]
    rows += [
        (own, Row(name=f"{own.name}{AS_IT_COMES}", overrides=own.fixed), contest.final(own, 0, {}))
        for own in plan.contestants
        if contest.has_defaults(own)
    ]
    return rows


def comparison_record(contest: Contest) -> dict[str, Any]:
    """The record of a comparison whose runs are done, plain containers for JSON."""
    plan, rows = contest.plan, final_rows(contest)
    finished = [finished_runs(run.path for run in runs) for _, _, runs in rows]
    metrics = {metric: METRICS.get(metric, metric) for metric in shown_metrics(contest)}
    named = [(row, runs) for (_, row, _), runs in zip(rows, finished, strict=True)]
    record = record_of(contest.base.name, named, metrics)
    for (own, _, _), runs, made in zip(rows, finished, record["rows"], strict=True):
        for run, state in zip(made["runs"], runs.values(), strict=True):
            run["point"] = {knob.key: flatten(state.config).get(knob.key) for knob in contest.knobs[own.name]}
    record |= {
        "title": f"{_contestants(plan)} on {contest.dataset}",
        "comparison": {
            "plan": {**asdict(plan), "looks": number_of_looks(contest.base, plan)},
            "failed": {own.name: _n_failed(contest, own) for own in plan.contestants},
            "reasons": contest.failures,
            "knobs": {name: {knob.key: knob.typed for knob in own} for name, own in contest.knobs.items()},
            "left_alone": contest.left_alone, "folders": [_from_here(folder) for folder in contest.folders],
            "sealed": read_sealed(contest.base),
            "searches": {
                own.name: [_search(contest, own, i) for i in range(plan.searches)] for own in plan.contestants
            },
        },
    }  # fmt: skip
    record["comparison"]["judged"] = judged_again(record)
    return record


def judged_again(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The verdicts of a record, computed from its runs; those over data sets, from the verdicts on each."""
    if "datasets" in record:
        parts = [part["comparison"] for part in record["datasets"].values()]
        judged = judge_datasets(plan_from_dict(parts[0]["plan"]), [own["judged"] for own in parts], record["looks"])
    else:
        own = record["comparison"]
        rows = {row["name"]: row["runs"] for row in record["rows"]}
        judged = judge_comparison(plan_from_dict(own["plan"]), rows, own["failed"], own["searches"])
    return json.loads(json.dumps(judged))  # type: ignore[no-any-return]


def over_datasets(parts: Mapping[str, Mapping[str, Any]], base: Path) -> dict[str, Any]:
    """The record of a comparison over data sets, made of the finished record on each.

    Args:
        base: its folder would be; with the other ones of these methods beside it, it shares the level.
    """
    plan = plan_from_dict(next(iter(parts.values()))["comparison"]["plan"])
    record = {"table": base.name, "looks": number_of_looks(base, plan, sorted(parts)), "datasets": dict(parts)}
    return {**record, "title": f"{_contestants(plan)} over {len(parts)} data sets", "judged": judged_again(record)}


def _contestants(plan: Plan) -> str:
    names = [own.name for own in plan.contestants]
    return " against ".join(names) if len(names) < 4 else f"{len(names)} methods"


def shown_metrics(contest: Contest) -> list[str]:
    """The judged metric, then what else of kNN and linear probe the final runs have; without a verdict."""
    run = next((run for own in contest.plan.contestants for run in _final_runs(contest, own)), None)
    known = read_run(run.path).result.get("test", {}) if run else {}
    return list(dict.fromkeys([contest.plan.metric, *(metric for metric in METRICS if metric in known)]))


def _n_failed(contest: Contest, own: Contestant) -> int:
    """Final runs that failed, or that a search without a point to train left out."""
    plan = contest.plan
    empty = sum(contest.chosen(own, search) is None for search in range(plan.searches)) if plan.searches > 1 else 0
    broke = sum(contest.failure(run) is not None for run in _final_runs(contest, own))
    return broke + empty * plan.seeds


def _final_runs(contest: Contest, own: Contestant) -> list[Run]:
    """The final runs of a contestant in all searches."""
    runs = []
    for search in range(contest.plan.searches):
        if (chosen := contest.chosen(own, search)) is not None:
            runs += contest.final(own, search, chosen)
    return runs


def _chosen_words(contest: Contest, own: Contestant) -> list[str]:
    """The settings that a contestant's only search chose; of several searches each has its own."""
    chosen = contest.chosen(own, 0) if contest.plan.searches == 1 else None
    return [f"{key}={value}" for key, value in chosen.items()] if chosen else []


def _search(contest: Contest, own: Contestant, search: int) -> dict[str, Any]:
    """Every point with the values of its runs on the held-out images, in percent, null for one that failed, with the
    minutes that each of them took, and which images the first was right about."""
    tried, chosen = contest.tried(own, search) or [], contest.chosen(own, search)
    points = []
    for i, point in enumerate(tried):
        runs = contest.runs_of_point(own, search, i, point.point)[: len(point.values)]
        results = [read_run(run.path).result for run in runs]
        points.append({
            "point": point.point,
            **({} if point.point else {"default": contest.settings(own, {})}),
            "values": [None if value == WORST else round(value, 4) for value in point.values],
            "minutes": [round(result["time"]["seconds"] / 60, 2) if result else None for result in results],
            "correct": results[0].get("correct", {}).get(contest.plan.metric),
        })  # fmt: skip
    more = None if chosen is None else left_to_find(contest.knobs[own.name], points, contest.settings(own, chosen))
    return {"points": points, "chosen": chosen, **({} if more is None else {"more": more})}


def _from_here(folder: Path) -> str:
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)


def number_of_looks(base: Path, plan: Plan, datasets: Sequence[str] = (), *, keep: bool = True) -> int:
    """Which judgement of these contestants this is, counted from the first one. They share the level, also where each
    is by a metric of its own, which has a folder of its own, or over other data sets.

    Args:
        base: the folder of the comparison.
        keep: count it from now on; False = only say which it would be.
    """
    file = base.parent / LOOKS / f"{base.name.removesuffix(f'-{plan.metric}')}.json"
    looks: list[list[Any]] = read_json(file, list[list[Any]]) if file.exists() else []
    now = [plan.searches, plan.seeds, plan.metric, plan.margin, *datasets]
    if now not in looks:
        looks.append(now)
    if keep:
        file.parent.mkdir(exist_ok=True)
        write_text(file, json.dumps(looks))
    return 1 + looks.index(now)
