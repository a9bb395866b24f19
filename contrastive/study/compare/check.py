"""What must hold of the record of a comparison before its verdicts are said, and whenever it is verified: all searches
and runs are there, each once, each with its own settings, sealed."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from contrastive.bits import unpack
from contrastive.distributed.processor import pair_of
from contrastive.run.run import Run
from contrastive.study.compare.outcome import AS_IT_COMES
from contrastive.study.compare.plan import Contestant, plan_from_dict
from contrastive.study.compare.propose import left_to_find
from contrastive.study.compare.space import is_same, read_knob
from contrastive.study.compare.stages import Contest
from contrastive.study.record import correct_name

NEAR = 0.006  # in points: figures of a record are rounded
OF_A_MODEL = 0.2  # in points: another version of scikit-learn fits a little otherwise
Record = Mapping[str, Any]


def faults(record: Record, *, unsealed: bool = False) -> list[str]:
    """What the record of a comparison, on one data set or over several, lacks or contradicts, a few words each.

    Args:
        unsealed: also take records of earlier versions, which have no hashes of code, settings and data.
    """
    if "datasets" in record:
        return [*_faults_over(record["datasets"], unsealed=unsealed)]
    own, plan = record["comparison"], plan_from_dict(record["comparison"]["plan"])
    names = [contestant.name for contestant in plan.contestants]
    rows = {row["name"]: row for row in record["rows"]}
    missing = [name for name in names if name not in rows or len(own["searches"].get(name, ())) != plan.searches]
    if missing or (plan.budget > 1 and not any(name.endswith(AS_IT_COMES) for name in rows)):
        return [f"{name} is not whole" for name in missing or ["the row of default settings"]]
    if strangers := rows.keys() - {*names, *(f"{name}{AS_IT_COMES}" for name in names)}:
        return [f"{min(strangers)} is no contestant"]
    knobs = {name: [read_knob(key, typed) for key, typed in ranges.items()] for name, ranges in own["knobs"].items()}
    contest = Contest(plan=plan, knobs=knobs, base=Path())
    made_of = (own.get("sealed") or {}).get("made_of")
    found = [] if made_of or unsealed else ["hashes of code, settings and data are missing"]
    if made_of and not record["table"].endswith(f"-{plan.digest(made_of)}-{plan.metric}"):
        found.append("its plan, code or settings are not those that its name has the hash of")
    found += [*_alike(record), *_images(record)]
    for contestant in plan.contestants:
        for i, search in enumerate(own["searches"][contestant.name] if plan.budget > 1 else []):
            said = _search(contest, contestant, i, search, is_told=bool(made_of))
            found += [f"{contestant.name}, search {i + 1}: {text}" for text in said]
        found += _finals(record, contest, contestant, rows)
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
    own = record["comparison"]
    metric, name = own["plan"]["metric"], correct_name(own["plan"]["metric"])
    runs = [
        (run["test"].get(metric), run.get("correct", {}).get(name)) for row in record["rows"] for run in row["runs"]
    ]
    points = [(point["values"][0], point["correct"]) for searches in own["searches"].values() for search in searches
              for point in search["points"] if point["values"][0] is not None]  # fmt: skip
    for kind, told in (("final runs", runs), ("points", points)):
        if 0 < (n := sum(bits is None for _, bits in told)) < len(told):
            yield f"{n} of {len(told)} {kind} do not tell their images"
        n = sum(value is not None and bits is not None and abs(100 * float(unpack(bits).mean()) - value) > NEAR
                for value, bits in told)  # fmt: skip
        if n:
            yield f"figures of {n} {kind} are not those of their images"


def _search(contest: Contest, own: Contestant, i: int, search: Record, *, is_told: bool) -> Iterator[str]:
    """Points that are missing or others, and what was chosen of none of them."""
    points = search["points"]
    first = contest.first_points(own, i)
    n = contest.plan.budget if contest.knobs[own.name] else 1
    if len(points) != n or [point["point"] for point in points[: len(first)]] != first:
        yield "points are missing, or other ones than are searched"
        return
    last = [point for point in points if len(point["values"]) == 3]
    able = [point for point in points if point["values"][0] is not None]
    if len(last) != min(contest.plan.finalists, len(able)):
        yield "the finalists are not two points, with three seeds each"
        return
    worth = [mean(point["values"]) for point in last if None not in point["values"]]
    best = [point for point in last if None not in point["values"] and mean(point["values"]) >= max(worth) - NEAR]
    chosen = next((point for point in best or last or able if point["point"] == search["chosen"]), None)
    if chosen is None and (able or search["chosen"] is not None):
        yield "the chosen settings are not its best"
    elif chosen is not None and is_told:
        settings = chosen["point"] or chosen.get("default", {})
        more, told = left_to_find(contest.knobs[own.name], points, settings) or {}, search.get("more") or {}
        if more.keys() != told.keys() or any(abs(more[key] - told[key]) > OF_A_MODEL for key in more):
            yield "what more search could bring does not follow from its points"


def _finals(record: Record, contest: Contest, own: Contestant, rows: Mapping[str, Record]) -> Iterator[str]:
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
    if (default := rows.get(f"{own.name}{AS_IT_COMES}")) is not None:
        yield from _row(default, [(run, {}) for run in contest.final(own, 0, {})], said["reasons"])


def _row(row: Record, wanted: Sequence[tuple[Run, Mapping[str, str]]], reasons: Record) -> Iterator[str]:
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
        told = run.get("point", points[run["seed"]])
        chosen = points[run["seed"]].items()  # of a group, such as the optimizer, a run tells None
        if any(not is_same(told.get(key), typed) for key, typed in chosen if told.get(key, "") is not None):
            yield f"{row['name']}, seed {run['seed']}: other settings than were chosen"
