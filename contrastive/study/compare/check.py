"""What must hold of the record of a comparison before its verdicts are said, and whenever it is verified: all searches
and runs are there, each once, each with its own settings, sealed."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from contrastive.distributed.hardware import pair_of
from contrastive.report.record import correct_name
from contrastive.run.run import Run
from contrastive.study.compare.contest import Contest, Method, Point
from contrastive.study.compare.outcome import AS_IT_COMES, Record, more_of, plan_of
from contrastive.study.compare.search import FINALISTS, first_points, n_points
from contrastive.study.compare.space import read_knob
from contrastive.text import unpack_bits

NEAR = 0.006  # in points: figures of a record are rounded
OF_A_MODEL = 0.2  # in points: another version of scikit-learn fits a little otherwise


def faults(record: Record, *, unsealed: bool = False) -> list[str]:
    """What the record of a comparison, on one data set or over several, lacks or contradicts, a few words each.

    Args:
        unsealed: also take records without hashes of code, settings and data, as the first ones were.
    """
    if "datasets" in record:
        return [*_faults_over(record["datasets"], unsealed=unsealed)]
    own, plan = record["comparison"], plan_of(record)
    rows = {row["name"]: row for row in record["rows"]}
    names = [contestant.name for contestant in plan.contestants]
    wanted = [*names, *(f"{name}{AS_IT_COMES}" for name in plan.as_they_come)]
    missing = [name for name in names if len(own["searches"][name]) != plan.searches]
    if missing := [*missing, *(name for name in wanted if name not in rows)]:
        return [f"{name} is not whole" for name in missing]
    if strangers := rows.keys() - wanted:
        return [f"{min(strangers)} is no contestant"]
    made_of = own["sealed"].get("made_of")
    found = [] if made_of or unsealed else ["hashes of code, settings and data are missing"]
    if made_of and not record["table"].endswith(f"-{plan.digest(made_of)}-{plan.metric}"):
        found.append("its plan, code or settings are not those that its name has the hash of")
    found += [*_alike(record), *_images(record)]
    knobs = {name: [read_knob(key, typed) for key, typed in ranges.items()] for name, ranges in own["knobs"].items()}
    methods = [Method(name=one.name, words=one.words, knobs=knobs[one.name]) for one in plan.contestants]
    contest = Contest(plan=plan, methods=methods, base=Path())
    for method in methods:
        for i, search in enumerate(own["searches"][method.name] if plan.budget > 1 else []):
            found += [f"{method.name}, search {i + 1}: {text}" for text in _search(contest, method, i, search)]
        if made_of and not found and plan.budget > 1:
            found += _more(method, own["searches"][method.name])
        found += _finals(record, contest, method, rows)
    return found


def _faults_over(parts: Mapping[str, Record], *, unsealed: bool) -> Iterator[str]:
    """Those of each data set, and where it was another comparison than on the others."""
    plans = {name: part["comparison"]["plan"] for name, part in parts.items()}
    told = {name: {**plan, "common": [word for word in plan["common"] if word != f"dataset={name}"], "looks": 0}
            for name, plan in plans.items()}  # fmt: skip
    for name, part in parts.items():
        yield from (f"{name}: {said}" for said in faults(part, unsealed=unsealed))
        if f"dataset={name}" not in plans[name]["common"] or told[name] != next(iter(told.values())):
            yield f"{name}: another data set or plan than its place says"


def _alike(record: Record) -> Iterator[str]:
    """Final runs of one seed are of one kind of machine, those with equal settings of the dataset of one data."""
    seen: dict[Any, Any] = {}
    for row in record["rows"]:
        for run in row["runs"]:
            kind = pair_of(record["environments"][run["environment"]])
            if seen.setdefault(run["seed"], kind) != kind:
                yield f"{row['name']}, seed {run['seed']}: made on another kind of machine than its pair"
            if seen.setdefault(run["settings"].get("dataset"), run["data"]) != run["data"]:
                yield f"{row['name']}, seed {run['seed']}: other data than another run has"


def _images(record: Record) -> Iterator[str]:
    """All final runs and points tell which images they were right about, or none does, and figures are their shares."""
    own, metric = record["comparison"], record["comparison"]["plan"]["metric"]
    runs = [(run["test"][metric], run.get("correct", {}).get(correct_name(metric)))
            for row in record["rows"] for run in row["runs"]]  # fmt: skip
    points = [(point["values"][0], point["correct"]) for searches in own["searches"].values() for search in searches
              for point in search["points"] if point["values"][0] is not None]  # fmt: skip
    for kind, told in (("final runs", runs), ("points", points)):
        known = [(value, bits) for value, bits in told if bits is not None]
        if 0 < len(known) < len(told):
            yield f"{len(told) - len(known)} of {len(told)} {kind} do not tell their images"
        if n := sum(abs(100 * float(unpack_bits(bits).mean()) - value) > NEAR for value, bits in known):
            yield f"figures of {n} {kind} are not those of their images"


def _search(contest: Contest, own: Method, i: int, search: Record) -> Iterator[str]:
    """Points that are missing or others, and what was chosen of none of them."""
    points, budget = search["points"], contest.plan.budget
    first = first_points(own.knobs, budget, draw=i)
    if len(points) != n_points(own.knobs, budget) or [point["point"] for point in points[: len(first)]] != first:
        yield "points are missing, or other ones than are searched"
        return
    last = [point for point in points if len(point["values"]) == 3]
    able = [point for point in points if point["values"][0] is not None]
    if len(last) != min(FINALISTS, len(able)):
        yield "the finalists are not two points, with three seeds each"
        return
    worth = [mean(point["values"]) for point in last if None not in point["values"]]
    best = [point for point in last if None not in point["values"] and mean(point["values"]) >= max(worth) - NEAR]
    if search["chosen"] not in ([point["point"] for point in best or last] or [None]):
        yield "the chosen settings are not its best"


def _more(own: Method, searches: Sequence[Record]) -> Iterator[str]:
    """Searches of which something else is left to find than follows from their points."""
    for i, (more, search) in enumerate(zip(more_of(own.knobs, searches), searches, strict=True), start=1):
        found, told = more or {}, search["more"] or {}
        if found.keys() != told.keys() or any(abs(found[key] - told[key]) > OF_A_MODEL for key in found):
            yield f"{own.name}, search {i}: what more search could bring does not follow from its points"


def _finals(record: Record, contest: Contest, own: Method, rows: Mapping[str, Record]) -> Iterator[str]:
    """Final runs that are missing, there twice, or of other settings than were chosen."""
    said, plan = record["comparison"], contest.plan
    chosen = [search["chosen"] for search in said["searches"][own.name]]
    wanted = [(run, point) for i, point in enumerate(chosen) if point is not None
              for run in contest.final(own, i, point)]  # fmt: skip
    broke = sum(str(run.path) in said["reasons"] for run, _ in wanted)
    empty = chosen.count(None) * plan.seeds if plan.searches > 1 else 0
    if said["failed"][own.name] != broke + empty:
        yield f"{own.name}: {said['failed'][own.name]} failed runs are counted, there are reasons for {broke}"
    yield from _row(rows[own.name], wanted, said["reasons"])
    if own.name in plan.as_they_come:
        defaults = [(run, Point()) for run in contest.final(own, 0, {})]
        yield from _row(rows[f"{own.name}{AS_IT_COMES}"], defaults, said["reasons"])


def _row(row: Record, wanted: Sequence[tuple[Run, Point]], reasons: Record) -> Iterator[str]:
    """The runs of a row against those that belong there, each with its chosen point."""
    points = {int(run.path.name.removeprefix("seed=")): point for run, point in wanted if str(run.path) not in reasons}
    seeds = [run["seed"] for run in row["runs"]]
    if sorted(seeds) != sorted(points):
        yield f"{row['name']}: the seeds of its final runs are {seeds}, and should be {sorted(points)}"
        return
    weights = [run["weights"] for run in row["runs"] if run.get("weights")]
    if len(set(weights)) < len(weights):
        yield f"{row['name']}: two of its runs have the same weights"
    for run in row["runs"]:
        told = [(run["point"].get(key, ""), typed) for key, typed in points[run["seed"]].items()]
        if any(value is not None and not _is_same(value, typed) for value, typed in told):  # None: of a group
            yield f"{row['name']}, seed {run['seed']}: other settings than were chosen"


def _is_same(value: Any, typed: str) -> bool:
    """Whether a setting has the value that was typed."""
    try:
        return float(value) == float(typed)
    except (TypeError, ValueError):
        return str(value).lower() == typed.lower()
