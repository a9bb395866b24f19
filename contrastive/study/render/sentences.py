"""What a comparison says of each pair, in one sentence."""

import math
import shlex
from collections.abc import Collection, Iterator, Mapping
from statistics import mean
from typing import Any

from contrastive.study.compare.outcome import AS_IT_COMES, Record, plan_of
from contrastive.study.compare.plan import Plan, folder_name, typed
from contrastive.study.compare.space import read_knob
from contrastive.study.render.effects import claims_of, first_part, metric_of
from contrastive.text import spread

EDGE, FAR = 0.05, 0.5  # of a range: at either end, and between choices


def sentences(record: Record) -> list[str]:
    """One sentence for each pair, on one data set with what was tried and failed, or over several."""
    if "datasets" in record:
        part = first_part(record)
        return [sentence_over(claim, plan_of(part), metric_of(part)) for claim in record["judged"]]
    n = record["comparison"].get("versions", 1)
    again = [f"one of {n} comparisons of these methods on these data"] if n > 1 else []
    said = []
    for claim in claims_of(record):
        of_pair = sentence(claim, plan_of(record), metric_of(record), untuned(record))
        odd = [text for name in (claim["name"], claim["against"]) for text in of_its_search(record, name)]
        said.append("; ".join([of_pair, *odd, *again]))
    return said


def of_its_search(record: Record, name: str) -> list[str]:
    """What a reader should know of the search of a method: points that broke down, settings at an edge or far apart,
    defaults that ended above what was chosen."""
    odd = (failed_points(record, name), *odd_choices(record, name), default_above(record, name))
    return [text for text in odd if text]


def odd_choices(record: Record, name: str) -> Iterator[str]:
    """The settings that a method's searches chose in the outer twentieth of a range, by the median search, and those
    that several searches chose half of the range apart."""
    own = record["comparison"]
    for key, text in own["knobs"][name].items():
        knob, chosen = read_knob(key, text), [search["chosen"] or {} for search in own["searches"][name]]
        placed = sorted((place, point[key]) for point in chosen if (place := knob.place(point)) is not None)
        if placed and not EDGE < placed[len(placed) // 2][0] < 1 - EDGE:
            value, ends = placed[len(placed) // 2][1], f"{knob.low:g} to {knob.high:g}"
            yield f"{name} chose {key}={value}, where the range of {knob.name} ends ({ends})"
        elif placed and placed[-1][0] - placed[0][0] >= FAR:
            yield f"searches of {name} chose {key} far apart: {', '.join(value for _, value in placed)}"


def default_above(record: Record, name: str) -> str:
    """By how much a method with its default settings ended above what its first search chose, by the same seeds."""
    metric, rows = plan_of(record).metric, {row["name"]: row["runs"] for row in record["rows"]}
    chosen = {run["seed"]: run["test"][metric] for run in rows[name]}
    found = [run["test"][metric] - chosen[run["seed"]] for run in rows.get(f"{name}{AS_IT_COMES}", ())
             if run["seed"] in chosen]  # fmt: skip
    is_above = found and mean(found) > 0
    return f"{name} as it comes ended {_end(mean(found))} points above what its search chose" if is_above else ""


def failed_points(record: Mapping[str, Any], name: str) -> str:
    """How many points of a method's searches broke down, and of what; empty where none did."""
    points = [point for search in record["comparison"]["searches"][name] for point in search["points"]]
    n = sum(None in point["values"] for point in points)
    said = [reason for run, reason in record["comparison"]["reasons"].items()
            if run.split("/")[1] == folder_name(name) and "/point=" in run]  # fmt: skip
    return f"{name}: {n} of {len(points)} points failed ({', '.join(dict.fromkeys(said))})" if n else ""


def untuned(record: Mapping[str, Any]) -> list[str]:
    """The methods of which there was nothing to search, or nothing was."""
    searches = record["comparison"]["searches"]
    return [name for name, own in searches.items() if all(len(search["points"]) < 2 for search in own)]


def sentence(claim: Mapping[str, Any], plan: Plan, metric: str, untuned: Collection[str] = ()) -> str:
    """The verdict with its interval; undecided, with how likely each answer is, and what would decide.

    Args:
        claim: see `judge_comparison`.
        metric: as it is called.
        untuned: see there.
    """
    return f"{named(claim, plan)}: {_said(claim, plan, metric, untuned)}"


def named(claim: Mapping[str, Any], plan: Plan) -> str:
    """A method; nothing searched, its settings."""
    return f"{claim['name']}{' with these settings' if plan.budget == 1 else ''}"


def _said(claim: Mapping[str, Any], plan: Plan, metric: str, untuned: Collection[str]) -> str:
    against, verdict = claim["against"], claim["verdict"]
    if verdict == "failed":
        n = plan.searches * plan.seeds
        what = f"failed in {claim['failed']} of {n} final runs"
        return f"failed, {claim['broke']} {what if claim['failed'] else 'has no point that could be trained'}"
    if claim["same"]:
        return f"the same runs as {against}"
    if claim["low"] is None:
        why = "which differ by the same each time" if claim["n"] >= 3 else "too few for an interval"
        return f"undecided against {against}, {claim['effect']:+z.1f} points by {metric} over {claim['n']} rows, {why}"
    tuned = [name for name in (claim["name"], against) if name not in untuned]
    searched = "; nothing was searched" if plan.budget == 1 or not tuned else f"; tuned with {plan.budget} points each"
    if plan.budget > 1 and len(tuned) == 1:
        searched = f"; only {tuned[0]} was tuned, with {plan.budget} points"
    searched += _gains(claim)
    if verdict != "undecided":
        return f"{found(claim, plan, metric)}{searched}"
    return f"{found(claim, plan, metric)}: {graded(claim, plan)}{searched}{_advice(claim, plan)}"


def found(claim: Mapping[str, Any], plan: Plan, metric: str) -> str:
    """The verdict with its effect and interval."""
    against, verdict = claim["against"], claim["verdict"]
    if verdict in ("better", "worse"):
        low, high = sorted((abs(claim["low"]), abs(claim["high"])))
        what = f"{abs(claim['effect']):.1f} points {verdict} than {against} by {metric} ({_end(low)} to {_end(high)})"
        return f"{what}, barely" if claim["barely"] else what
    interval = f"({claim['effect']:+z.1f} points by {metric}, {_end(claim['low'], '+')} to {_end(claim['high'], '+')})"
    if verdict == "equal":
        return f"equal to {against} within {plan.margin:g} {interval}{', barely' if claim['barely'] else ''}"
    return f"undecided against {against} {interval}"


def _end(value: float, sign: str = "") -> str:
    """An end of an interval to one decimal; one that is not 0 is never printed as 0."""
    return f"{value:{sign}.1f}" if abs(value) >= 0.05 or not value else f"{value:{sign}.1g}"


def graded(claim: Mapping[str, Any], plan: Plan) -> str:
    """How likely each answer is."""
    worse, within, better = (f"{100 * claim[key]:.0f} %" for key in ("worse", "within", "better"))
    return f"{worse} worse by more than {plan.margin:g}, {within} within {plan.margin:g}, {better} better by more"


def _gains(claim: Mapping[str, Any]) -> str:
    """What the effect counts beside the final runs, where a reader would see it."""
    if abs(claim["effect"] - claim["seen"]) < 0.05:
        return ""
    brings = f"{claim['name']} {claim['gain']:.1f} and {claim['against']} {claim['gain_against']:.1f}"
    return f", the final runs differ by {claim['seen']:+z.1f} and more search may bring {brings}"


def _advice(claim: Mapping[str, Any], plan: Plan) -> str:
    """What it would take to decide."""
    needed = "More test images" if plan.budget == 1 else "A larger budget or more test images"
    if claim["decide"] is not None:
        what, n = ("seeds", claim["n"]) if plan.budget == 1 else ("such searches", plan.searches)
        needed = f"About {about(claim['decide'])} {what}"
        if about(claim["decide"]) <= n:
            return ""
    return f". {needed} would be needed to decide for sure"


def about(n: float) -> int:
    """n to one digit, upward: 18 is 20, 103 is 200."""
    unit: int = 10 ** (len(str(int(n))) - 1)
    return math.ceil(n / unit) * unit


def sentence_over(claim: Mapping[str, Any], plan: Plan, metric: str) -> str:
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


def tuned_text(record: Record) -> str:
    """What the search of an only contestant chose, and what its final runs are worth, beside its default settings."""
    plan, own = plan_of(record), record["comparison"]
    (contestant,), searches = plan.contestants, own["searches"][plan.contestants[0].name]
    chosen = ["none, for no point could be trained" if search["chosen"] is None
              else " ".join(typed(search["chosen"])) or "the default settings" for search in searches]  # fmt: skip
    worth = [f"{row['name']} {spread([run['test'][plan.metric] for run in row['runs']])}" for row in record["rows"]]
    lines = [
        f"{contestant.name}: chosen {'; '.join(chosen)}",
        f"{plan.metric} of {plan.seeds} final seeds: {', '.join(worth)}",
    ]
    if len(searches) == 1 and searches[0]["chosen"]:
        folders = [word for folder in own["folders"] for word in ("--config-dir", folder)]
        settings = [*folders, *plan.common, *contestant.words, *typed(searches[0]["chosen"])]
        lines.append(f"to train     {shlex.join(['python', 'train.py', *settings])}")
    return "\n".join(lines)
