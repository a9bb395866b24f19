"""What is said of a comparison over data sets: the verdicts over all, beside those on each."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from contrastive.report.grid import Grid
from contrastive.report.judge import interval_text
from contrastive.study.compare.outcome import Record, plan_of
from contrastive.study.compare.plan import Plan
from contrastive.study.render.comparison import times
from contrastive.study.render.effects import metric_of
from contrastive.study.render.sentences import about, found, graded, named
from contrastive.study.render.sentences import sentences as sentences_on_one

LEGEND = (
    "effect: mean difference with its interval; over the data sets it is what other data sets like these would give, a "
    "paired t-test whose rows are data sets. The intervals of one data set are right together in 95 % of cases, and so "
    "are those over the data sets. better or worse: 0 is outside; equal: it lies within the margin."
)


def first_part(record: Record) -> Record:
    """The record on the first data set, of which the plan is common to all."""
    part: Record = next(iter(record["datasets"].values()))
    return part


def sentences(record: Record) -> list[str]:
    """One sentence for each pair, on one data set or over several."""
    if "datasets" not in record:
        return sentences_on_one(record)
    part = first_part(record)
    return [sentence(claim, plan_of(part), metric_of(part)) for claim in record["judged"]]


def sentence(claim: Mapping[str, Any], plan: Plan, metric: str) -> str:
    """The verdict over the data sets; undecided, with how likely each answer is."""
    name, against, n = named(claim, plan), claim["against"], claim["n"]
    if claim["verdict"] == "failed":
        return f"{name}: failed, {' and '.join(claim['broke'])} failed on {claim['failed']} of {n} data sets"
    if claim["same"]:
        return f"{name}: the same runs as {against} on all data sets"
    if claim["low"] is None:
        return (
            f"{name}: undecided against {against}, {claim['effect']:+z.1f} points by {metric} on each of {n} data sets"
        )
    said = f"{name}: {found(claim, plan, metric)} over {n} data sets, ahead on {claim['ahead']}"
    if claim["verdict"] != "undecided":
        return said
    enough = claim["decide"]
    needed = f", about {about(enough)} decide for sure" if enough is not None and enough > n else ""
    power = f"{n} such data sets find a difference of {claim['found']:.1f} points in 80 %{needed}"
    return f"{said}: {graded(claim, plan)}. {power}"


def grid(record: Record) -> Grid:
    """Each pair on each data set and over all."""
    parts: Mapping[str, Record] = record["datasets"]
    rows = [["method", "against", "data set", "verdict", "effect [interval]"]]
    for i, over in enumerate(record["judged"]):
        said = [(name, part["comparison"]["judged"][i]) for name, part in parts.items()]
        for name, claim in [*said, (f"all {len(parts)} data sets", over)]:
            rows.append([claim["name"], claim["against"], name, claim["verdict"], interval_text(claim)])
    return Grid.of(rows)


def command(record: Record) -> str:
    """What to type for this comparison."""
    part = first_part(record)
    common = [word for word in plan_of(part).common if not word.startswith("dataset=")]
    plan = replace(plan_of(part), common=(*common, f"dataset={','.join(record['datasets'])}"))
    return plan.command(part["comparison"]["folders"])


def looks(record: Record) -> Sequence[str]:
    """How often it was judged, where that was more than once."""
    again = record["looks"] - 1
    return [f"Data sets or plan were changed and judged again {times(again)}."] if again else []


def markdown(record: Record) -> str:
    """The whole page."""
    said = "\n".join(f"- {text}" for text in sentences(record))
    return "\n\n".join([
        f"{record['title']}: test split, accuracies in percent.", said, grid(record).markdown(), LEGEND,
        *looks(record), f"Command: `{command(record)}`",
    ])  # fmt: skip
