"""What is said of a comparison over data sets: the verdicts over all beside those on each."""

from collections.abc import Mapping, Sequence
from typing import Any

from contrastive.study.compare.plan import AUTO, Plan, plan_from_dict
from contrastive.study.render.comparison import GRADES, bars, effect_text, grades, protocol_of_one, times
from contrastive.study.render.sentences import about, found, graded
from contrastive.text import format_grid, spreadsheet

Record = Mapping[str, Any]
LEGEND = (
    "effect: mean difference with its interval; over the data sets it is what other data sets like these would give. "
    "The intervals of one data set are right together in 95 % of cases, and so are those over the data sets. better or "
    "worse: 0 is outside; equal: it lies within the margin. worse, within, better: how likely the method is worse by "
    "more than the margin, within it, better by more. found: the difference that n rows find with 80 %; over the data "
    "sets they are the rows."
)
HEAD = ["method", "against", "data set", "verdict", "effect [interval]", *GRADES, "p", "n", "found"]


def plan_of(record: Record) -> Plan:
    """The plan, as it is common to the data sets."""
    return plan_from_dict(next(iter(record["datasets"].values()))["comparison"]["plan"])


def command(record: Record) -> str:
    """What to type for this comparison."""
    parts = list(record["datasets"].values())
    plans = [plan_from_dict(part["comparison"]["plan"]) for part in parts]
    common = [word for word in plans[0].common if not word.startswith("dataset=")]
    typed = {"common": (*common, f"dataset={','.join(record['datasets'])}"), "hours": sum(plan.hours for plan in plans)}
    if typed["hours"]:
        typed["budget"] = AUTO
    first = parts[0]["comparison"]
    return plan_from_dict({**first["plan"], **typed}).command(first.get("folders", ()))


def sentences(record: Record) -> list[str]:
    """One for each pair: the verdict over the data sets with its interval."""
    return [_sentence(claim, record) for claim in record["judged"]]


def _sentence(claim: Mapping[str, Any], record: Record) -> str:
    plan, against, verdict = plan_of(record), claim["against"], claim["verdict"]
    metrics: Mapping[str, str] = next(iter(record["datasets"].values()))["metrics"]
    by, n = metrics.get(plan.metric, plan.metric), claim["n"]
    name = f"{claim['name']}{' with these settings' if plan.budget == 1 else ''}"
    over = f"over {n} data sets, ahead on {claim['ahead']}"
    if verdict == "failed":
        return f"{name}: failed, there are failed runs on {claim['failed']} of {n} data sets"
    if claim["same"]:
        return f"{name}: the same runs as {against} on all data sets"
    if claim["low"] is None:
        return f"{name}: undecided against {against}, {claim['effect']:+z.1f} points by {by} on each of {n} data sets"
    said = f"{name}: {found(claim, plan, by)} {over}"
    if verdict != "undecided":
        return said
    enough = claim["decide"]
    needed = f", about {about(enough)} decide for sure" if enough is not None and enough > n else ""
    power = f"{n} such data sets find a difference of {claim['found']:.1f} points in 80 %{needed}"
    return f"{said}: {graded(claim, plan)}. {power}"


def rows(record: Record) -> list[tuple[str, Mapping[str, Any]]]:
    """(data set, what is said of a pair there), pair after pair; the verdict over all data sets comes last of each."""
    parts = record["datasets"]
    said: list[tuple[str, Mapping[str, Any]]] = []
    for i, over in enumerate(record["judged"]):
        said += [(name, part["comparison"]["judged"][i]) for name, part in parts.items()]
        said.append((f"all {len(parts)} data sets", over))
    return said


def effects(record: Record) -> list[list[str]]:
    """The verdicts as cells, the head first."""
    return [HEAD] + [
        [claim["name"], claim["against"], where, claim["verdict"], effect_text(claim), *grades(claim),
         "" if claim["p"] is None else f"{claim['p']:.3f}", str(claim["n"]),
         "" if claim["found"] is None else f"{claim['found']:.2f}"]
        for where, claim in rows(record)
    ]  # fmt: skip


def effects_csv(record: Record) -> str:
    """The same as numbers."""
    import pandas as pd  # late: it takes a second

    keys = ["name", "against", "verdict", "effect", "low", "high", "p", *GRADES, "n"]
    lines = [{"data set": where, **{key: claim[key] for key in keys}} for where, claim in rows(record)]
    return spreadsheet(pd.DataFrame(lines), float_format="%.4f")


def forest(record: Record) -> list[str]:
    """The effects as lines of text, see `bars`: on each data set, and over all."""
    lines = [(f"{claim['name']} - {claim['against']}, {where}", claim) for where, claim in rows(record)]
    return bars(lines, plan_of(record).margin)


def forest_claims(record: Record) -> list[dict[str, Any]]:
    """The effects as claims, for their chart; that over the data sets has a tick for each."""
    return [
        {"claim": f"{where}: {claim['name']} - {claim['against']}: {claim['verdict']}", "better": claim["name"],
         "worse": claim["against"], "metric": plan_of(record).metric, "gap": 0, "published_effect": None, "source": "",
         **{key: claim[key] for key in ("effect", "low", "high", "n", "p", "verdict")}, "each": claim.get("each", [])}
        for where, claim in rows(record) if claim["low"] is not None
    ]  # fmt: skip


def notes(record: Record) -> list[str]:
    """What lies in the same folder and is not in the verdict, which a reader has to know."""
    return [f"not in this verdict, though it lies in the same folder: {name}" for name in record["left_out"]]


def protocol_text(record: Record) -> str:
    """What was run and how it was judged: a paragraph for the methods section of a paper."""
    searched = [protocol_of_one(part) for part in record["datasets"].values()]
    each = " ".join(f"{name}: {text}" for name, text in zip(record["datasets"], searched, strict=True))
    each = f"The same was done on each. {searched[0]}" if len(set(searched)) == 1 else each
    again = record["looks"] - 1
    several = f" Data sets or plan were changed and judged again {times(again)}." if again else ""
    return (
        f"Protocol: the methods were compared on {_listed(list(record['datasets']))}. {each} Over the data sets the "
        "mean difference has the interval of a paired t-test whose rows are data sets (simultaneous 95 %, Bonferroni "
        f"over pairs): it allows for other data sets like these.{several}"
    )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def markdown(record: Record) -> str:
    """The whole page."""
    parts = [
        f"{record['title']}: test split, accuracies in percent.",
        "\n".join(f"- {text}" for text in sentences(record)), format_grid(effects(record)), LEGEND,
        "\n".join(f"- {text}" for text in notes(record)), protocol_text(record), f"Command: `{command(record)}`",
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)


def section(record: Record, charts: Any) -> dict[str, Any]:
    """What the template of a page shows of it.

    Args:
        charts: the module that draws.
    """
    claims = forest_claims(record)
    return {
        "title": record["title"], "sentences": sentences(record), "effects": effects(record), "legend": LEGEND,
        "ticks": "each data set", "images": [],
        "forest": charts.claims_chart(claims) if claims else None, "notes": notes(record),
        "protocol": protocol_text(record), "command": command(record),
    }  # fmt: skip
