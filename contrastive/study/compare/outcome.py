"""The record of a comparison: the final runs as a table's, every run of its searches, and what these say."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

from contrastive.config.identity import flatten
from contrastive.files import read_json, write_text
from contrastive.report.collect import finished_runs, record_of
from contrastive.run.figures import KNN, LINEAR
from contrastive.run.files import read_failure, read_result
from contrastive.run.run import Run, read_run
from contrastive.study.compare.contest import Contest, Method, Searched, known_runs, searched
from contrastive.study.compare.judge import Claim, judge_comparison, judge_datasets
from contrastive.study.compare.plan import Contestant, Plan, typed
from contrastive.study.compare.seal import read_sealed
from contrastive.study.compare.search import Tried, left_to_find
from contrastive.study.compare.space import Knob

AS_IT_COMES = " as it comes"  # behind the name of a contestant with its default settings
LOOKS = "looks"  # beside the folder: [searches, seeds, metric, margin] of every judgement so far
METRICS = {KNN: "kNN", LINEAR: "linear probe"}
Record = Mapping[str, Any]


def plan_of(record: Record) -> Plan:
    """The plan of a comparison."""
    said = record["comparison"]["plan"]
    contestants = tuple(Contestant(**{**own, "words": tuple(own["words"])}) for own in said["contestants"])
    return Plan(**{**said, "contestants": contestants, "common": tuple(said["common"])})


def comparison_record(contest: Contest) -> dict[str, Any]:
    """The record of a comparison whose runs are done, plain containers for JSON."""
    plan = contest.plan
    states = {own.name: [searched(contest, own, i) for i in range(plan.searches)] for own in contest.methods}
    finals = {own.name: _final_runs(contest, own, states[own.name]) for own in contest.methods}
    rows = [(own, own.name, _chosen_words(states[own.name]), finals[own.name]) for own in contest.methods]
    rows += [(own, f"{own.name}{AS_IT_COMES}", [], contest.final(own, 0, {}))
             for own in contest.methods if own.name in plan.as_they_come]  # fmt: skip
    finished = [finished_runs(run.path for run in runs) for *_, runs in rows]
    known: dict[str, float] = next((state.result["test"] for runs in finished for state in runs.values()), {})
    metrics = {plan.metric: METRICS.get(plan.metric, plan.metric)}
    metrics |= {metric: name for metric, name in METRICS.items() if metric in known}  # without a verdict
    named = [(name, (*own.words, *chosen), runs)
             for (own, name, chosen, _), runs in zip(rows, finished, strict=True)]  # fmt: skip
    record = record_of(contest.base.name, named, metrics)
    for (own, *_), runs, made in zip(rows, finished, record["rows"], strict=True):
        for run, state in zip(made["runs"], runs.values(), strict=True):
            run["point"] = {knob.key: flatten(state.config).get(knob.key) for knob in own.knobs}
    broken = {run: reason for own in contest.methods for run in known_runs(contest, own)
              if (reason := read_failure(run.path)) is not None and read_result(run.path) is None}  # fmt: skip
    record |= {
        "title": f"{_contestants(plan)} on {contest.dataset}",
        "comparison": {
            "plan": {**asdict(plan), "looks": number_of_looks(contest.base, plan)},
            "failed": {name: sum(run in broken for run in runs) + _n_left_out(plan, states[name])
                       for name, runs in finals.items()},
            "reasons": {str(run.path.relative_to(contest.base)): reason for run, reason in broken.items()},
            "knobs": {own.name: {knob.key: knob.typed for knob in own.knobs} for own in contest.methods},
            "left_alone": {own.name: own.left_alone for own in contest.methods},
            "folders": [_from_here(folder) for folder in contest.folders],
            "sealed": read_sealed(contest.base),
            "versions": number_of_versions(contest.base, plan),
            "searches": {own.name: _searches(contest, own, states[own.name]) for own in contest.methods},
        },
    }  # fmt: skip
    record["comparison"]["judged"] = judged_again(record)
    return record


def judged_again(record: Record) -> list[Claim]:
    """The verdicts of a record, computed from its runs; those over data sets, from the verdicts on each."""
    if "datasets" in record:
        parts = list(record["datasets"].values())
        judged = judge_datasets(plan_of(parts[0]), [own["comparison"]["judged"] for own in parts], record["looks"])
    else:
        own, rows = record["comparison"], {row["name"]: row["runs"] for row in record["rows"]}
        judged = judge_comparison(plan_of(record), rows, own["failed"], own["searches"])
    return json.loads(json.dumps(judged))  # type: ignore[no-any-return]


def over_datasets(parts: Mapping[str, Record], base: Path) -> dict[str, Any]:
    """The record of a comparison over data sets, made of the finished record on each.

    Args:
        base: its folder would be; with the other ones of these methods beside it, it shares the level.
    """
    plan = plan_of(next(iter(parts.values())))
    record = {"table": base.name, "looks": number_of_looks(base, plan, sorted(parts)), "datasets": dict(parts)}
    return {**record, "title": f"{_contestants(plan)} over {len(parts)} data sets", "judged": judged_again(record)}


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


def number_of_versions(base: Path, plan: Plan) -> int:
    """How many comparisons of these names on these data were judged, this one among them: with other code, settings or
    ranges it is another one, and begins anew."""
    own, data = base.name.removesuffix(f"-{plan.metric}"), set(read_sealed(base)["data"].values())
    judged = [file.stem for file in (base.parent / LOOKS).glob(f"{own[: own.rindex('-')]}-????????.json")]
    on_these = [any(data & set(read_sealed(folder)["data"].values()) for folder in base.parent.glob(f"{name}-*"))
                for name in judged if name != own]  # fmt: skip
    return 1 + sum(on_these)


def more_of(knobs: Sequence[Knob], searches: Sequence[Record]) -> list[dict[str, float] | None]:
    """What more search could bring each search of a method of a record, see `left_to_find`; None of one that chose
    nothing."""
    able = [search for search in searches if search["points"] and search["chosen"] is not None]
    tried = [[Tried(_settings(point), [-inf if value is None else value for value in point["values"]])
              for point in search["points"]] for search in able]  # fmt: skip
    chosen = [next(_settings(point) for point in search["points"] if point["point"] == search["chosen"])
              for search in able]  # fmt: skip
    told = iter(left_to_find(knobs, tried, chosen) or ())
    return [next(told, None) if search in able else None for search in searches]


def _settings(point: Record) -> Mapping[str, Any]:
    """The values of what is searched at a point of a record; that of the default settings has no words."""
    found: Mapping[str, Any] = point["point"] or point.get("default", {})
    return found


def _searches(contest: Contest, own: Method, states: Sequence[Searched]) -> list[dict[str, Any]]:
    """Those of a contestant, with what more search could bring each."""
    found = [_search(contest, own, i, state) for i, state in enumerate(states)]
    return [{**one, "more": more} for one, more in zip(found, more_of(own.knobs, found), strict=True)]


def _search(contest: Contest, own: Method, search: int, state: Searched) -> dict[str, Any]:
    """Every point with the values of its runs on the held-out images, in percent, null for one that failed, with the
    minutes that each of them took, and which images the first was right about."""
    points = []
    for i, (point, tried) in enumerate(zip(state.points, state.tried, strict=True)):
        runs = contest.searched(own, search, i, point)[: len(tried.values)]
        results = [read_run(run.path).result for run in runs]
        points.append({
            "point": point,
            **({} if point else {"default": own.defaults}),
            "values": [None if value == -inf else round(value, 4) for value in tried.values],
            "minutes": [round(result["time"]["seconds"] / 60, 2) if result else None for result in results],
            "correct": results[0].get("correct", {}).get(contest.plan.metric),
        })  # fmt: skip
    return {"points": points, "chosen": state.chosen}


def _final_runs(contest: Contest, own: Method, states: Sequence[Searched]) -> list[Run]:
    """The final runs of a contestant in all searches."""
    chosen = [(i, state.chosen) for i, state in enumerate(states) if state.chosen is not None]
    return [run for i, point in chosen for run in contest.final(own, i, point)]


def _n_left_out(plan: Plan, states: Sequence[Searched]) -> int:
    """Final runs that searches without a point to train left out; of a single search there is no run at all."""
    return sum(state.chosen is None for state in states) * plan.seeds if plan.searches > 1 else 0


def _chosen_words(states: Sequence[Searched]) -> list[str]:
    """The settings that a contestant's only search chose; of several searches each has its own."""
    chosen = states[0].chosen if len(states) == 1 else None
    return typed(chosen or {})


def _contestants(plan: Plan) -> str:
    names = [own.name for own in plan.contestants]
    return " against ".join(names) if len(names) < 4 else f"{len(names)} methods"


def _from_here(folder: Path) -> str:
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
