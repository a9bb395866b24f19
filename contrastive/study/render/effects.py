"""The verdicts of a comparison as a table, lines of text and claims of a chart."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from statistics import mean
from typing import Any

from contrastive.report.grid import Column, Grid
from contrastive.report.judge import interval_text
from contrastive.study.compare.judge import compared, luck_of, paired_runs
from contrastive.study.compare.outcome import Record, plan_of
from contrastive.study.compare.plan import search_of
from contrastive.text import counted

HEAD = ("method", "against", "verdict")
GRADES = ("worse", "within", "better")


def metric_of(record: Record) -> str:
    """What the judged metric is called."""
    metric = plan_of(record).metric
    return str(record["metrics"].get(metric, metric))


def first_part(record: Record) -> Record:
    """The record on the first data set, of which the plan is common to all."""
    part: Record = next(iter(record["datasets"].values()))
    return part


def claims_of(record: Record) -> list[dict[str, Any]]:
    """What is said of each pair, over several data sets of all of them; none of a table that is no comparison."""
    own: list[dict[str, Any]] = record.get("comparison", record).get("judged", [])
    return own


def effects(record: Record) -> Grid:
    """The verdicts as a table; over data sets beside those on each."""
    if "datasets" in record:
        return _effects_over(record)
    claims = claims_of(record)

    def column(head: str, text: Callable[[Mapping[str, Any]], str], *keys: str) -> Column:
        return Column(head, [*map(text, claims)], {key: [claim[key] for claim in claims] for key in keys})

    def number(head: str, key: str, text: Callable[[float], str]) -> Column:
        return column(head, lambda claim: "" if claim[key] is None else text(claim[key]), key)

    return Grid([
        *(column(head, itemgetter(key), key) for head, key in zip(HEAD, ("name", "against", "verdict"), strict=True)),
        column("effect [interval]", interval_text, "effect", "low", "high"),
        *(number(grade, grade, lambda share: f"{100 * share:.0f} %") for grade in GRADES),
        number("p", "p", "{:.3f}".format), column("over", itemgetter("over"), "over"), number("n", "n", str),
        number("P", "p_better", "{:.2f}".format), number("seen", "seen", "{:+z.2f}".format),
        number("found", "found", "{:.2f}".format),
    ])  # fmt: skip


def _effects_over(record: Record) -> Grid:
    """Each pair on each data set and over all."""
    parts: Mapping[str, Record] = record["datasets"]
    rows = [["method", "against", "data set", "verdict", "effect [interval]"]]
    for i, over in enumerate(record["judged"]):
        said = [(name, part["comparison"]["judged"][i]) for name, part in parts.items()]
        for name, claim in [*said, (f"all {len(parts)} data sets", over)]:
            rows.append([claim["name"], claim["against"], name, claim["verdict"], interval_text(claim)])
    return Grid.of(rows)


def differences(record: Mapping[str, Any], claim: Mapping[str, Any]) -> list[float]:
    """The difference of a pair in each search, or with each seed of one search, with what more search may bring: the
    ticks of a forest plot."""
    plan, rows = plan_of(record), {row["name"]: row["runs"] for row in record["rows"]}
    each: list[dict[int, list[float]]] = [{}, {}]
    for own, name in zip(each, (claim["name"], claim["against"]), strict=True):
        gains = luck_of(record["comparison"]["searches"][name], 50).gains
        for run in rows[name]:
            place = search_of(run["seed"]) if plan.searches > 1 else run["seed"]
            own.setdefault(place, []).append(run["test"][plan.metric] + gains[search_of(run["seed"])])
    ours, theirs = each
    return [round(mean(ours[place]) - mean(theirs[place]), 2) for place in ours if place in theirs]


def forest_claims(record: Record) -> list[dict[str, Any]]:
    """The effects as claims, for their chart."""
    return [
        {"claim": f"{claim['name']} - {claim['against']}: {claim['verdict']}",
         "better": claim["name"], "worse": claim["against"], "metric": metric_of(record), "gap": 0,
         "published_effect": None, "source": "",
         **{key: claim[key] for key in ("effect", "low", "high", "n", "p", "verdict")},
         "each": differences(record, claim)}
        for claim in claims_of(record) if claim["low"] is not None
    ]  # fmt: skip


def forest(record: Record, width: int = 41) -> list[str]:
    """The effects as lines of text: o, with --- its interval, | is 0, the dots the margin; none without an interval."""
    claims, margin = [claim for claim in claims_of(record) if claim["low"] is not None], plan_of(record).margin
    if not claims:
        return []
    lines = [(f"{claim['name']} - {claim['against']}", claim) for claim in claims]
    far = max(margin, *(abs(claim[key]) for _, claim in lines for key in ("low", "high")))
    longest = max(len(name) for name, _ in lines)

    def at(x: float) -> int:
        return int(0.5 + (x / far + 1) / 2 * (width - 1))

    drawn = []
    for name, claim in lines:
        marks = dict.fromkeys(range(at(claim["low"]), at(claim["high"]) + 1), "-")
        marks |= {at(x): "." for x in (-margin, margin) if at(x) not in marks}
        marks |= {at(0): "|", at(claim["effect"]): "o"}
        bar = "".join(marks.get(place, " ") for place in range(width))
        drawn.append(f"{name:{longest}}  {bar}  {claim['verdict']}")
    return [*drawn, f"{'':{longest}}  {f'{-far:.1f}':{width // 2}}0{f'{far:+.1f}':>{width // 2}}"]


def alone_right(record: Mapping[str, Any]) -> list[str]:
    """How many test images only one of a pair is right about, a sentence for each pair whose runs tell."""
    rows, said = {row["name"]: row["runs"] for row in record["rows"]}, []
    for claim in claims_of(record):
        pairs = paired_runs(rows, claim["name"], claim["against"])
        if not pairs or (right := compared(pairs, plan_of(record).metric).right) is None:
            continue
        ours, theirs = (right[:, i] > right[:, 1 - i] for i in (0, 1))
        said.append(
            f"of {right.shape[2]:,} test images {claim['name']} alone is right about {ours.sum(1).mean():.1f} and "
            f"{claim['against']} alone about {theirs.sum(1).mean():.1f}, the mean of {counted(len(pairs), 'seed')}; "
            f"in every seed they alone are right about {ours.all(0).sum()} and {theirs.all(0).sum()}"
        )
    return said
