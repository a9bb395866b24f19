"""What a page says of a comparison: the sentences, the effects, the chosen settings, what the search was worth."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from contrastive.bits import unpack
from contrastive.study.compare.judge import SEARCH_ACCURACY, SEARCH_DF, compared, paired_runs, search_sd
from contrastive.study.compare.plan import Plan, folder_name, plan_from_dict
from contrastive.study.compare.space import read_knob
from contrastive.study.compare.stages import SEEDS_OF_A_SALT, search_of
from contrastive.study.render.sentences import sentence
from contrastive.study.statistics import best_of
from contrastive.text import counted, format_grid, spreadsheet

LEGEND = (
    "effect: mean difference with its interval. All intervals of a comparison are right together in 95 % of cases, "
    "also where it is looked at on the way. better or worse: 0 is outside; equal: it lies within the margin. p: "
    "corrected in the same way. worse, within, better: how likely the method is worse by more than the margin, within "
    "it, better by more. P: the probability that a run of the one is ahead of a run of the other. found: the "
    "difference that so many rows find with 80 %."
)
GRADES = ("worse", "within", "better")
HEAD = ["method", "against", "verdict", "effect [interval]", *GRADES, "p", "over", "n", "P", "found"]


def verdicts(record: Mapping[str, Any]) -> str:
    """The sentences as a list, before everything else; empty for a table that is no comparison."""
    return "\n".join(f"- {text}" for text in sentences(record)) if "comparison" in record else ""


def sections(record: Mapping[str, Any]) -> list[str]:
    """The further parts of a Markdown page; none for a table that is no comparison."""
    if "comparison" not in record:
        return []
    settings = chosen(record)
    return [
        *([format_grid(effects(record)), LEGEND] if record["comparison"]["judged"] else []),
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
    rows = [HEAD]
    for claim in record["comparison"]["judged"]:
        rows.append([
            claim["name"], claim["against"], claim["verdict"], effect_text(claim), *grades(claim),
            "" if claim["p"] is None else f"{claim['p']:.3f}", claim["over"], str(claim["n"]),
            *("" if claim[key] is None else f"{claim[key]:.2f}" for key in ("p_better", "found")),
        ])  # fmt: skip
    return rows


def effect_text(claim: Mapping[str, Any]) -> str:
    """`+1.30 [+0.20, +2.40]`"""
    interval = "" if claim["low"] is None else f" [{claim['low']:+z.2f}, {claim['high']:+z.2f}]"
    return "-" if claim["effect"] is None else f"{claim['effect']:+z.2f}{interval}"


def grades(claim: Mapping[str, Any]) -> list[str]:
    """How likely each answer is, in percent."""
    return ["" if claim[key] is None else f"{100 * claim[key]:.0f} %" for key in GRADES]


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
    """A sentence for each knob whose finalists lie at one edge, for each loss with numbers that were not searched, for
    what more search would bring, and for each run that failed."""
    edges = [(name, read_knob(key, typed)) for name, key, typed in at_an_edge(record)]
    found = [f"{name}: {knob.name} is at an edge of its range, {knob.low:g} to {knob.high:g}; a wider one would be "
             "another comparison." for name, knob in edges]  # fmt: skip
    found += [f"not searched of {name}: {', '.join(f'{key}={value}' for key, value in own.items())}"
              for name, own in record["comparison"].get("left_alone", {}).items() if own]  # fmt: skip
    for name, searches in record["comparison"]["searches"].items():
        if told := [search["more"] for search in searches if search.get("more")]:
            gain, low, high = (mean(more[key] for more in told) for key in ("mean", "low", "high"))
            found.append(f"another such search would bring {name} {gain:.1f} points ({low:.1f} to {high:.1f}).")
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
    """What was run and how it was judged: a paragraph for the methods section of a paper."""
    return f"Protocol: {protocol_of_one(record)}"


def protocol_of_one(record: Mapping[str, Any]) -> str:
    """The same without its first word."""
    plan = plan_of(record)
    again = f"; the best {plan.finalists} got two more seeds" if plan.finalists else ""
    searched = (
        "Nothing was searched: verdicts are about these settings." if plan.budget == 1
        else f"Each method was searched {times(plan.searches)} with {plan.budget} points, the default settings among "
        f"them, judged by {plan.metric} on a tenth of the training images, which these runs did not train on{again}. "
        "No search run saw a test image."
    )  # fmt: skip
    seeds = f"{plan.seeds} fresh seeds, common to all methods{' and new for each search' if plan.searches > 1 else ''}"
    stop = f", after {plan.rows} of at most {plan.planned}" if plan.rows < plan.planned else ""
    several = f" The plan was changed and judged again {times(plan.looks - 1)}." if plan.looks > 1 else ""
    return (
        f"{searched} {seeds[0].upper()}{seeds[1:]}, trained on all training images{stop}; the test split was "
        f"read once.{several} {_variance_text(record)} Not covered: other training images, other networks, longer "
        "training."
    )


def times(n: int) -> str:
    """once, twice, 3 times"""
    return {1: "once", 2: "twice"}.get(n, f"{n} times")


def _variance_text(record: Mapping[str, Any]) -> str:
    """What the intervals allow for, and where the variance of the search is from."""
    plan, searches = plan_of(record), record["comparison"]["searches"]
    if not record["comparison"]["judged"]:
        return "One method alone has no verdict."
    over = "searches" if plan.searches > 1 else "seeds"
    with_images = any("images" in claim["over"] for claim in record["comparison"]["judged"])
    over += " and test images by two-way random effects" if with_images else ""
    text = f"Simultaneous 95 % intervals (Bonferroni over pairs) are over {over}"
    if plan.budget == 1:
        return f"{text}."
    told = all(search.get("more") for own in searches.values() for search in own)
    n_points = min(len(search["points"]) for own in searches.values() for search in own)
    of_records = f"{search_sd(n_points, SEARCH_ACCURACY):.2g} points at an accuracy of {SEARCH_ACCURACY:g} %"
    source = "what its model leaves to find" if told else of_records
    how = "moderated by" if plan.searches > 1 else "widened by"
    return f"{text}, {how} the variance of a search, {source} ({SEARCH_DF} degrees of freedom)."


def differences(record: Mapping[str, Any], claim: Mapping[str, Any]) -> list[float]:
    """The difference of a pair in each search, or with each seed of one search: the ticks of a forest plot."""
    plan, rows = plan_of(record), {row["name"]: row["runs"] for row in record["rows"]}
    each: list[dict[int, list[float]]] = [{}, {}]
    for own, name in zip(each, (claim["name"], claim["against"]), strict=True):
        for run in rows[name]:
            place = search_of(run["seed"]) if plan.searches > 1 else run["seed"] % SEEDS_OF_A_SALT
            own.setdefault(place, []).append(run["test"][plan.metric])
    ours, theirs = each
    return [round(mean(ours[place]) - mean(theirs[place]), 2) for place in ours if place in theirs]


def forest_claims(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The effects as claims, for their chart."""
    plan = plan_of(record)
    metric = record["metrics"].get(plan.metric, plan.metric)
    return [
        {"claim": f"{claim['name']} - {claim['against']}: {claim['verdict']}", "better": claim["name"],
         "worse": claim["against"], "metric": metric, "gap": 0, "published_effect": None, "source": "",
         **{key: claim[key] for key in ("effect", "low", "high", "n", "p", "verdict")},
         "each": differences(record, claim)}
        for claim in record["comparison"]["judged"] if claim["low"] is not None
    ]  # fmt: skip


def forest(record: Mapping[str, Any]) -> list[str]:
    """The effects as lines of text, see `bars`."""
    judged = record["comparison"]["judged"]
    return bars([(f"{claim['name']} - {claim['against']}", claim) for claim in judged], plan_of(record).margin)


def alone_right(record: Mapping[str, Any]) -> list[str]:
    """How many test images only one of a pair is right about, a sentence for each pair whose runs tell."""
    rows, said = {row["name"]: row["runs"] for row in record["rows"]}, []
    for claim in record["comparison"]["judged"]:
        pairs = paired_runs(rows, claim["name"], claim["against"])
        if (
            not pairs
            or (right := compared(pairs, claim["name"], claim["against"], plan_of(record).metric).right) is None
        ):
            continue
        ours, theirs = (right[:, i] > right[:, 1 - i] for i in (0, 1))
        said.append(
            f"of {right.shape[2]:,} test images {claim['name']} alone is right about {ours.sum(1).mean():.1f} and "
            f"{claim['against']} alone about {theirs.sum(1).mean():.1f}, the mean of {counted(len(pairs), 'seed')}; "
            f"with every seed about {ours.all(0).sum()} and {theirs.all(0).sum()}"
        )
    return said


def bars(lines: Sequence[tuple[str, Mapping[str, Any]]], margin: float, width: int = 41) -> list[str]:
    """Effects as lines of text: o, with --- its interval, | is 0, the dots the margin; none without an interval.

    Args:
        lines: (name, what is said of a pair) of each.
    """
    lines = [(name, claim) for name, claim in lines if claim["low"] is not None]
    if not lines:
        return []
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


def effects_csv(record: Mapping[str, Any]) -> str:
    """A line for each pair: the verdict, the effect and its interval as numbers."""
    import pandas as pd  # late: it takes a second

    keys = ["name", "against", "verdict", "effect", "low", "high", "p", *GRADES, "p_better", "n", "over"]
    lines = [{key: claim[key] for key in keys} for claim in record["comparison"]["judged"]]
    return spreadsheet(pd.DataFrame(lines, columns=keys), float_format="%.4f")


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
