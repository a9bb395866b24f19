"""What a page says of a comparison: the chosen settings, what the search was worth, the protocol."""

from dataclasses import replace
from statistics import mean
from typing import Any

from contrastive.study.compare.judge import SEARCH_ACCURACY, SEARCH_DF, doubt, search_sd
from contrastive.study.compare.outcome import Record, plan_of
from contrastive.study.compare.plan import auto_budget, typed
from contrastive.study.compare.space import read_knob
from contrastive.study.render.effects import effects, first_part
from contrastive.study.render.sentences import untuned
from contrastive.text import counted, format_grid

LEGEND = (
    "effect: mean difference of the methods at their best, with its interval. All intervals of a comparison are right "
    "together in 95 % of cases. better or worse: 0 is outside; equal: it lies within the margin; barely: it would be "
    "undecided if what is known of other searches counted half. p: corrected in the same way. worse, within, better: "
    "how likely the method is worse by more than the margin, within it, better by more. P: the probability that a run "
    "of the one is ahead of a run of the other. seen: the difference of the final runs. found: the difference that so "
    "many rows find with 80 %."
)
LEGEND_OVER = (
    "effect: mean difference with its interval; over the data sets it is what other data sets like these would give, a "
    "paired t-test whose rows are data sets. The intervals of one data set are right together in 95 % of cases, and so "
    "are those over the data sets. better or worse: 0 is outside; equal: it lies within the margin."
)


def sections(record: Record) -> list[str]:
    """The further parts of a Markdown page."""
    settings = chosen(record)
    return [
        *([effects(record).markdown(), legend(record)] if record["comparison"]["judged"] else []),
        *(["Settings chosen on held-out training images:", format_grid(settings)] if settings else []),
        "\n".join(f"- {text}" for text in notes(record)),
        protocol_text(record),
        f"Command: `{command(record)}`",
    ]


def legend(record: Record) -> str:
    """What the columns of the effects mean, and when the intervals hold."""
    return f"{LEGEND} {condition(record)}"


def condition(record: Record) -> str:
    """What the intervals of a comparison hold for, by its own points and searched settings."""
    plan, knobs = plan_of(record), [*record["comparison"]["knobs"].values()]
    if plan.budget == 1:
        return "The intervals are about these settings."
    most, enough = max(map(len, knobs)), auto_budget([[*own] for own in knobs])
    depth = f"{plan.budget} points for {counted(most, 'setting')}"
    if plan.budget < enough:
        return (
            f"These searches are shallow ({depth}, budget=auto takes {enough}): a method that works in a narrow range "
            "alone is then called worse too often."
        )
    return f"By simulation searches as deep as these ({depth}) miss a narrow optimum beside a wide lower one too often."


def command(record: Record) -> str:
    """What to type for this comparison."""
    if "datasets" not in record:
        return plan_of(record).command(record["comparison"]["folders"])
    plan, folders = plan_of(first_part(record)), first_part(record)["comparison"]["folders"]
    common = [word for word in plan.common if not word.startswith("dataset=")]
    return replace(plan, common=(*common, f"dataset={','.join(record['datasets'])}")).command(folders)


def minutes_of_search(record: Record) -> list[float]:
    """The minutes of each run of the searches, 0 of one that failed; none where nothing was searched."""
    if record["comparison"]["plan"]["budget"] == 1:
        return []
    searches = [search for own in record["comparison"]["searches"].values() for search in own]
    return [each or 0.0 for search in searches for point in search["points"] for each in point["minutes"]]


def chosen(record: Record) -> list[list[str]]:
    """The chosen settings of each method and search, the head first; empty where nothing was searched."""
    plan = plan_of(record)
    if plan.budget == 1:
        return []
    rows = [["method", *(["search"] if plan.searches > 1 else []), "settings", "tried"]]
    for name, searches in record["comparison"]["searches"].items():
        for i, search in enumerate(searches, start=1):
            point = search["chosen"]
            words = "none could be trained" if point is None else " ".join(typed(point)) or "as it comes"
            rows.append([name, *([str(i)] if plan.searches > 1 else []), words, str(len(search["points"]))])
    return rows


def notes(record: Record) -> list[str]:
    """A sentence for each loss with numbers that were not searched, for what more search would bring, and for each run
    that failed; over data sets how often they were judged."""
    if "datasets" in record:
        again = record["looks"] - 1
        return [f"Data sets or plan were changed and judged again {times(again)}."] if again else []
    found = [f"not searched of {name}: {', '.join(typed(own))}"
              for name, own in record["comparison"]["left_alone"].items() if own]  # fmt: skip
    for name, searches in record["comparison"]["searches"].items():
        if told := [search["more"] for search in searches if search["more"]]:
            gain, low, high = (mean(more[key] for more in told) for key in ("mean", "low", "high"))
            told_of = f"{gain:.1f} points ({low:.1f} to {high:.1f}) above the chosen ones"
            found.append(f"{name}: by its model the best settings are {told_of}.")
    return found + [f"failed: {run}: {reason}" for run, reason in record["comparison"]["reasons"].items()]


def protocol_text(record: Record) -> str:
    """What was run and how it was judged: a paragraph for the methods section of a paper."""
    plan = plan_of(record)
    searched = (
        "Nothing was searched: verdicts are about these settings." if plan.budget == 1
        else f"Each method was searched {times(plan.searches)} with {plan.budget} points, the default settings among "
        f"them, judged by {plan.metric} on images that no run of it trained on: a tenth of the training images, or the "
        f"data's own validation images; the best 2 got two more seeds. No search run saw a test image."
    )  # fmt: skip
    if plan.budget > 1 and (alone := untuned(record)):
        searched += f" Nothing was searched of {' and '.join(alone)}."
    seeds = f"{plan.seeds} fresh seeds, common to all methods{' and new for each search' if plan.searches > 1 else ''}"
    several = f" The plan was changed and judged again {times(plan.looks - 1)}." if plan.looks > 1 else ""
    if (n := record["comparison"].get("versions", 1)) > 1:
        several += f" It is one of {n} comparisons of these methods on these data."
    return (
        f"Protocol: {searched} {seeds[0].upper()}{seeds[1:]}, trained on all training images; the test split "
        f"chose nothing.{several} {_variance_text(record)} Not covered: other training images, other networks, longer "
        "training."
    )


def times(n: int) -> str:
    """once, twice, 3 times"""
    return {1: "once", 2: "twice"}.get(n, f"{n} times")


def _variance_text(record: Record) -> str:
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
    searched = [search for own in searches.values() for search in own if len(search["points"]) > 1]
    told = all(search["more"] for search in searched)
    n_points = min((len(search["points"]) for search in searched), default=0)
    of_records = f"{search_sd(n_points, SEARCH_ACCURACY):.2g} points at an accuracy of {SEARCH_ACCURACY:g} %"
    how = "moderated by" if plan.searches > 1 else "widened by"
    if not told:
        borrowed = f"the variance of a search, {of_records} ({SEARCH_DF} degrees of freedom)"
        return f"{text}, {how} {borrowed}. {condition(record)}"
    known_to = f"times {doubt(plan.searches, n_points):.2g} ({SEARCH_DF} degrees of freedom)"
    return (
        f"{text}. Effects count what more search may bring either method by a Gaussian process over the points of all "
        f"its searches, and intervals its standard deviation {known_to}. {condition(record)}"
    )


def knob_points(record: Record) -> list[dict[str, Any]]:
    """{method, knob, x, value, log} of every point of every search: the figure on held-out images against each knob."""
    own, found = record["comparison"], []
    for name, searches in own["searches"].items():
        for key, text in own["knobs"][name].items():
            knob = read_knob(key, text)
            for search in searches:
                for point in search["points"]:
                    value, place = point["values"][0], knob.place(point["point"])
                    if value is not None and place is not None:
                        found.append({"method": name, "knob": key, "x": float(point["point"][key]), "value": value,
                                      "log": knob.is_log})  # fmt: skip
    return found
