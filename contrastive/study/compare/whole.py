"""Whether the record of a comparison is whole: every search, seed and contestant, and what follows from the search.

A verdict recomputed from a record says nothing of the runs that somebody left out of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from contrastive.bits import unpack
from contrastive.distributed.processor import pair_of
from contrastive.study.compare.outcome import AS_IT_COMES, judged_again, over_title
from contrastive.study.compare.plan import Contestant, plan_from_dict
from contrastive.study.compare.propose import left_to_find
from contrastive.study.compare.space import is_same, read_knob
from contrastive.study.compare.stages import WORST, Contest, Tried
from contrastive.study.jobs import Run
from contrastive.study.record import correct_name
from contrastive.study.statistics import planned_looks

NEAR = 0.006  # in points: figures of a record are rounded
OF_A_MODEL = 0.2  # in points: another version of scikit-learn fits a little otherwise
Record = Mapping[str, Any]


def faults(record: Record) -> list[str]:
    """What the record of a comparison, on one data set or over several, lacks or contradicts, a few words each; none of
    a whole one."""
    return _faults_over(record) if "datasets" in record else _faults(record)


def _faults(record: Record) -> list[str]:
    own = record["comparison"]
    if missing := list(_missing(record)):
        return missing
    knobs = {name: [read_knob(key, typed) for key, typed in ranges.items()] for name, ranges in own["knobs"].items()}
    defaults = {name: searches[0]["points"][0].get("default", {}) if searches[0]["points"] else {}
                for name, searches in own["searches"].items()}  # fmt: skip
    contest = Contest(plan=plan_from_dict(own["plan"]), knobs=knobs, defaults=defaults, base=Path())
    found = [*_origin(record, contest), *_data(record), *_machines(record), *_images(record)]
    for contestant in contest.plan.contestants:
        for i, search in enumerate(own["searches"][contestant.name]):
            said = _search(contest, contestant, i, search, is_sealed=bool(own.get("sealed")))
            found += [f"{contestant.name}, search {i + 1}: {text}" for text in said]
        found += _finals(record, contest, contestant)
    return found


def _faults_over(record: Record) -> list[str]:
    parts = record["datasets"]
    found = [f"{name}: {said}" for name, part in parts.items() for said in _faults(part)]
    if found:
        return found
    plans = {name: part["comparison"]["plan"] for name, part in parts.items()}
    found += [f"{name}: its runs are of another data set" for name, plan in plans.items()
              if f"dataset={name}" not in plan["common"]]  # fmt: skip
    same = ("contestants", "finalists", "batch", "metric", "margin", "pairs", "ranges", "planned")
    told = {name: [{key: plan[key] for key in same}, [word for word in plan["common"] if word != f"dataset={name}"]]
            for name, plan in plans.items()}  # fmt: skip
    first = next(iter(told.values()))
    found += [f"{name}: another plan than on the others" for name, own in told.items() if own != first]
    if record["title"] != over_title(record):
        found.append(f"it is of {len(parts)} data sets, which its title contradicts")
    found += [f"{name}: the verdicts are not those of its runs" for name, part in parts.items()
              if part["comparison"]["judged"] != judged_again(part)]  # fmt: skip
    if not found and record["judged"] != judged_again(record):
        found.append("the verdicts over data sets are not those of the data sets")
    return found


def unchecked(record: Record) -> list[str]:
    """What cannot be checked of a record of an earlier version."""
    own, runs = record["comparison"], [run for row in record["rows"] for run in row["runs"]]
    is_told = own["plan"]["searches"] == 1 or all("point" in run for run in runs)
    return [*([] if own.get("sealed") else ["hashes of code and settings"]),
            *([] if is_told else ["settings of each final run"])]  # fmt: skip


def _missing(record: Record) -> Iterator[str]:
    """Contestants or searches that are not there, and rows of nobody."""
    own, rows = record["comparison"], {row["name"] for row in record["rows"]}
    names = [contestant["name"] for contestant in own["plan"]["contestants"]]
    for name in names:
        if name not in rows or not all(name in own[part] for part in ("searches", "knobs", "failed")):
            yield f"{name} is not there"
        elif (n := len(own["searches"][name])) != own["plan"]["searches"]:
            yield f"{name} has {n} of {own['plan']['searches']} searches"
    if own["plan"]["budget"] > 1 and not any(name.endswith(AS_IT_COMES) for name in rows):
        yield "the runs of the default settings are not there"
    yield from (f"{name} is no contestant" for name in rows - {*names, *(f"{name}{AS_IT_COMES}" for name in names)})


def _origin(record: Record, contest: Contest) -> Iterator[str]:
    """The name of a comparison ends in a hash of what it was made of; it stops at planned looks alone."""
    sealed = record["comparison"].get("sealed")
    plan = contest.plan
    if plan.planned and plan.rows not in planned_looks(plan.planned):
        yield f"it has {plan.rows} of {plan.planned} planned rows, where it is not looked at"
    if sealed and not record["table"].endswith(f"-{plan.digest(sealed['made_of'])}-{plan.metric}"):
        yield "its plan, code or settings are not those that its name has the hash of"


def _data(record: Record) -> Iterator[str]:
    """Final runs with the same settings of the dataset are of one data; the comparison began with some of them."""
    sealed = (record["comparison"].get("sealed") or {}).get("data", {}).values()
    seen: dict[str, str] = {}
    for row in record["rows"]:
        for run in row["runs"]:
            if seen.setdefault(run["settings"]["dataset"], run["data"]) != run["data"]:
                yield f"{row['name']}, seed {run['seed']}: other data than another run has"
    begun = any(known.startswith(data) for known in sealed for data in seen.values())  # a run has its first digits
    if sealed and seen and not begun:
        yield "its runs are of other data than it began with"


def _machines(record: Record) -> Iterator[str]:
    """Final runs are of the package that the comparison was sealed with, and those of one seed of one kind of machine,
    precision and version of torch."""
    package = ((record["comparison"].get("sealed") or {}).get("made_of") or {}).get("package")
    seen: dict[int, tuple[Any, ...]] = {}
    for row in record["rows"]:
        for run in row["runs"]:
            made, where = record["environments"][run["environment"]], f"{row['name']}, seed {run['seed']}"
            if package and (made.get("package") or package) != package:
                yield f"{where}: trained by other code of contrastive"
            if seen.setdefault(run["seed"], pair_of(made)) != pair_of(made):
                yield f"{where}: made on another kind of machine than the run that it is paired with"


def _images(record: Record) -> Iterator[str]:
    """All final runs tell which images they were right about, or none does."""
    metric = correct_name(record["comparison"]["plan"]["metric"])
    lacking = [metric not in run.get("correct", {}) for row in record["rows"] for run in row["runs"]]
    if any(lacking) and not all(lacking):
        yield f"{sum(lacking)} of {len(lacking)} final runs do not tell their images"


def _search(contest: Contest, own: Contestant, i: int, search: Record, *, is_sealed: bool) -> Iterator[str]:
    """Points that are missing or changed, and what does not follow from their figures: the choice, and what is left."""
    if contest.plan.budget == 1:  # records of earlier versions have a run of the default settings here
        if search["chosen"] != {}:
            yield "settings were chosen, and nothing was searched"
        return
    points = search["points"]
    first = contest.first_points(own, i)
    n = contest.plan.budget if contest.knobs[own.name] else 1
    if len(points) != n or [point["point"] for point in points[: len(first)]] != first:
        yield "points are missing, or other ones than are searched"
        return
    for j, point in enumerate(points, start=1):
        if not _is_share(point["values"][0], point.get("correct")):
            yield f"the figure of point {j} is not that of its images"
    tried = [Tried(point=point["point"], values=[WORST if value is None else value for value in point["values"]])
             for point in points]  # fmt: skip
    last = contest.finalists(own, tried)
    if any(len(point.values) != (3 if j in last else 1) for j, point in enumerate(tried)):
        yield "the finalists are not its best points, with three seeds each"
        return
    able = [(tried[j].point, tried[j].value) for j in last] or [
        (point.point, worth) for point, worth in zip(tried, contest.worth(own, tried), strict=True) if worth > WORST
    ]
    best = max((worth for _, worth in able), default=WORST)
    good = [point for point, worth in able if worth >= best - NEAR]
    if search["chosen"] not in good and (good or search["chosen"] is not None):
        yield "the chosen settings are not its best"
    elif is_sealed and search["chosen"] is not None:
        more = left_to_find(contest.knobs[own.name], points, contest.settings(own, search["chosen"])) or {}
        told = search.get("more") or {}
        if more.keys() != told.keys() or any(abs(more[key] - told[key]) > OF_A_MODEL for key in more):
            yield "what more search could bring does not follow from its points"


def _finals(record: Record, contest: Contest, own: Contestant) -> Iterator[str]:
    """Final runs that are missing, of other seeds, or of other settings than were chosen."""
    plan, said = contest.plan, record["comparison"]
    rows = {row["name"]: row for row in record["rows"]}
    chosen = [search["chosen"] for search in said["searches"][own.name]]
    words = {key: value for point in chosen if point is not None and plan.searches == 1 for key, value in point.items()}
    if rows[own.name]["overrides"] != [*own.fixed, *(f"{key}={value}" for key, value in words.items())]:
        yield f"{own.name}: its row has other settings than were chosen"
    wanted = [(run, point) for i, point in enumerate(chosen) if point is not None
              for run in contest.final(own, i, point)]  # fmt: skip
    broke = sum(str(run.path) in said["reasons"] for run, _ in wanted)
    empty = chosen.count(None) * plan.seeds if plan.searches > 1 else 0
    if said["failed"][own.name] != broke + empty:
        yield f"{own.name}: {said['failed'][own.name]} failed runs are counted, there are reasons for {broke}"
    yield from _row(rows[own.name], wanted, said["reasons"], plan.metric)
    if (default := rows.get(f"{own.name}{AS_IT_COMES}")) is not None:
        yield from _row(default, [(run, {}) for run in contest.final(own, 0, {})], said["reasons"], plan.metric)


def _row(row: Record, wanted: Sequence[tuple[Run, Mapping[str, str]]], reasons: Record, metric: str) -> Iterator[str]:
    """The runs of a row against those that belong there, each with its chosen point."""
    points = {_seed(run): point for run, point in wanted if str(run.path) not in reasons}
    seeds = [run["seed"] for run in row["runs"]]
    if sorted(seeds) != sorted(points):
        yield f"{row['name']}: the seeds of its final runs are {seeds}, and should be {sorted(points)}"
        return
    for run in row["runs"]:
        where = f"{row['name']}, seed {run['seed']}"
        told = run.get("point", points[run["seed"]])
        chosen = points[run["seed"]].items()  # of a group, such as the optimizer, a run tells None
        if any(not is_same(told.get(key), typed) for key, typed in chosen if told.get(key, "") is not None):
            yield f"{where}: other settings than were chosen"
        if metric not in run["test"]:
            yield f"{where}: no {metric}"
        elif not _is_share(run["test"][metric], run.get("correct", {}).get(correct_name(metric))):
            yield f"{where}: its figure is not that of its images"


def _seed(run: Run) -> int:
    return int(run.overrides[-1].removeprefix("seed="))


def _is_share(value: float | None, bits: str | None) -> bool:
    """Whether an accuracy is the share of the images that the run was right about; so is one without either."""
    return value is None or bits is None or abs(100 * float(unpack(bits).mean()) - value) <= NEAR
