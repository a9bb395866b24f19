"""What a page says of a comparison: the sentences, the effects, the chosen settings, what the search was worth."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from contrastive.bits import unpack
from contrastive.study.compare.judge import sentence
from contrastive.study.compare.plan import Plan, folder_name, plan_from_dict
from contrastive.study.compare.space import read_knob
from contrastive.study.statistics import best_of
from contrastive.text import format_grid

LEGEND = (
    "effect: mean difference with its 95 % interval, of each pair alone. better, worse, equal: the corrected p (Holm,"
    " over both tests of every pair) is at most 0.05, so an interval without 0 may be undecided. P: the probability "
    "that a run of the one is ahead of a run of the other. found: the difference that so many rows find with 80 %."
)


def verdicts(record: Mapping[str, Any]) -> str:
    """The sentences as a list, before everything else; empty for a table that is no comparison."""
    return "\n".join(f"- {text}" for text in sentences(record)) if "comparison" in record else ""


def sections(record: Mapping[str, Any]) -> list[str]:
    """The further parts of a Markdown page; none for a table that is no comparison."""
    if "comparison" not in record:
        return []
    settings = chosen(record)
    return [
        format_grid(effects(record)),
        LEGEND,
        *(["Settings chosen on held-out training images:", format_grid(settings)] if settings else []),
        "\n".join(f"- {text}" for text in notes(record)),
        protocol_text(record),
        f"Command: `{command(record)}`",
    ]


def plan_of(record: Mapping[str, Any]) -> Plan:
    return plan_from_dict(record["comparison"]["plan"])


def command(record: Mapping[str, Any]) -> str:
    """What to type for this comparison."""
    return plan_of(record).command(record["comparison"].get("folders", ()))


def sentences(record: Mapping[str, Any]) -> list[str]:
    """One sentence for each pair, with what was tried and failed."""
    plan = plan_of(record)
    label = record["metrics"].get(plan.metric, plan.metric)
    return [
        "; ".join([sentence(claim, plan, label), *(text for name in (claim["name"], claim["against"])
                                                   if (text := failed_points(record, name)))])
        for claim in record["comparison"]["judged"]
    ]  # fmt: skip


def failed_points(record: Mapping[str, Any], name: str) -> str:
    """How many points of a method's searches broke down, and of what; empty where none did."""
    points = [point for search in record["comparison"]["searches"][name] for point in search["points"]]
    n = sum(None in point["values"] for point in points)
    said = [reason for run, reason in record["comparison"]["reasons"].items()
            if run.split("/")[1] == folder_name(name) and "/point=" in run]  # fmt: skip
    return f"{name}: {n} of {len(points)} points failed ({', '.join(dict.fromkeys(said))})" if n else ""


def runs_of_search(record: Mapping[str, Any]) -> tuple[int, float]:
    """How many runs the searches of a comparison have, and their minutes; an earlier version tells those of each
    point's first run, which stand for the others. (0, 0) of other tables, and of a search that is no run of its own."""
    own = record.get("comparison")
    if own is None or own["plan"]["budget"] == 1:
        return 0, 0.0
    points = [point for searches in own["searches"].values() for search in searches for point in search["points"]]
    minutes = 0.0
    for point in points:
        told = point["minutes"] if isinstance(point["minutes"], list) else [point["minutes"]] * len(point["values"])
        minutes += sum(each for each in told if each is not None)
    return sum(len(point["values"]) for point in points), minutes


def effects(record: Mapping[str, Any]) -> list[list[str]]:
    """The verdicts as cells, the head first."""
    head = ["method", "against", "verdict", "effect [95 % interval]", "over", "n", "p differs", "p equal", "P", "found"]
    rows = [head]
    for claim in record["comparison"]["judged"]:
        interval = "" if claim["low"] is None else f" [{claim['low']:+z.2f}, {claim['high']:+z.2f}]"
        rows.append([
            claim["name"], claim["against"], claim["verdict"],
            "-" if claim["effect"] is None else f"{claim['effect']:+z.2f}{interval}", claim["over"], str(claim["n"]),
            *("" if claim[key] is None else f"{claim[key]:.3f}" for key in ("p_differs", "p_equal")),
            *("" if claim[key] is None else f"{claim[key]:.2f}" for key in ("p_better", "found")),
        ])  # fmt: skip
    return rows


def chosen(record: Mapping[str, Any]) -> list[list[str]]:
    """The chosen settings of each method and search, the head first; empty where nothing was searched."""
    plan = plan_of(record)
    if plan.budget == 1:
        return []
    rows = [["method", *(["search"] if plan.searches > 1 else []), "settings", "tried"]]
    for name, searches in record["comparison"]["searches"].items():
        for i, search in enumerate(searches, start=1):
            point = search["chosen"]
            words = "none could be trained" if point is None else _words(point) or "as it comes"
            rows.append([name, *([str(i)] if plan.searches > 1 else []), words, str(len(search["points"]))])
    return rows


def notes(record: Mapping[str, Any]) -> list[str]:
    """A sentence for each knob whose finalists lie at one edge, for each loss with numbers that were not searched, and
    for each run that failed."""
    edges = [(name, read_knob(key, typed)) for name, key, typed in at_an_edge(record)]
    found = [f"{name}: {knob.name} is at an edge of its range, {knob.low:g} to {knob.high:g}; a wider one would be "
             "another comparison." for name, knob in edges]  # fmt: skip
    found += [f"not searched of {name}: {', '.join(f'{key}={value}' for key, value in own.items())}"
              for name, own in record["comparison"].get("left_alone", {}).items() if own]  # fmt: skip
    return found + [f"failed: {run}: {reason}" for run, reason in record["comparison"]["reasons"].items()]


def at_an_edge(record: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(method, knob, range) where both finalists of a search lie in the same outer fifth."""
    own, edges = record["comparison"], []
    for name, searches in own["searches"].items():
        for key, typed in own["knobs"][name].items():
            knob = read_knob(key, typed)
            for search in searches:
                last = [point["point"] for point in search["points"] if len(point["values"]) > 1]
                places = [knob.place(point) for point in last if key in point]
                known = [place for place in places if place is not None]
                if len(known) >= 2 and len(known) == len(last) and (max(known) <= 0.2 or min(known) >= 0.8):
                    edges.append((name, key, typed))
    return list(dict.fromkeys(edges))


def protocol_text(record: Mapping[str, Any]) -> str:
    """What was run, in words."""
    plan = plan_of(record)
    runs = f"{plan.budget} points for each method, the default settings among them"
    again = f", the best {plan.finalists} with two more seeds" if plan.finalists else ""
    times = f"{plan.searches} searches, each with" if plan.searches > 1 else "one search with"
    looks = f" This is look {plan.looks}: the level is 0.05 / {plan.looks}." if plan.looks > 1 else ""
    about = (
        "Verdicts are about the methods." if plan.is_of_methods
        else "Verdicts are about these settings." if plan.budget == 1
        else "Verdicts are about the methods, but so few searches give wide intervals, which cover 92 %."
        if plan.searches > 1
        else "Verdicts are about the chosen settings: another search would choose others."
    )  # fmt: skip
    final = f"{plan.seeds} final seeds for each method{' and search' if plan.searches > 1 else ''}"
    searched = (
        "nothing was searched, each method has the settings that the command gives it." if plan.budget == 1
        else f"{times} {runs}{again}, chosen by {plan.metric} on a tenth of the training images, which its runs do not "
        "train on; no search run saw a test image."
    )  # fmt: skip
    return (
        f"Protocol: {searched} {final}, on all training images. {about}{looks} Not covered: other training images, "
        "other networks, longer training."
    )


def knob_points(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """{method, knob, x, value, log} of every point of every search: the figure on held-out images against each knob."""
    own, found = record["comparison"], []
    for name, searches in own["searches"].items():
        for key, typed in own["knobs"][name].items():
            knob = read_knob(key, typed)
            for search in searches:
                for point in search["points"]:
                    value = point["values"][0]
                    if value is not None and key in point["point"] and not knob.choices:
                        found.append({"method": name, "knob": key, "x": float(point["point"][key]), "value": value,
                                      "log": knob.is_log})  # fmt: skip
    return found


def best_of_curves(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """{method, n, value}: what the best of n points is worth on one half of the held-out images, chosen on the other.

    Both halves take both parts. A run that failed is worth nothing; nothing is drawn of a method with a run that does
    not tell its images.
    """
    curves = []
    for name, searches in record["comparison"]["searches"].items():
        if any(p["correct"] is None and p["values"][0] is not None for search in searches for p in search["points"]):
            continue
        halves = [_halves(search["points"]) for search in searches]
        least = min((len(own) for own in halves), default=0)
        for n in range(1, least + 1):
            values = [mean([best_of([a for a, _ in own], n, by=[b for _, b in own]),
                            best_of([b for _, b in own], n, by=[a for a, _ in own])]) for own in halves]  # fmt: skip
            curves.append({"method": name, "n": n, "value": round(mean(values), 2)})
    return curves


def _halves(points: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """The accuracy of each point on the even and on the odd held-out images."""
    found = []
    for point in points:
        if point["correct"] is None:
            found.append((0.0, 0.0))
            continue
        right = unpack(point["correct"])
        found.append((100 * float(right[::2].mean()), 100 * float(right[1::2].mean())))
    return found


def _words(point: Mapping[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in point.items())
