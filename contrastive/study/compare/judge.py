"""The verdicts of a comparison: effects with intervals over searches or seeds, and over test images.

See docs/compare.md. A verdict is about methods at their best settings: the effect is the difference of the final runs,
and of what more search may still bring the one less what it may bring the other, by the models of their searches. With
several searches the rows of the two-way test are searches, each the mean of its seeds; with one they are seeds. What a
model is unsure of is common to all searches of a method, so that more of them do not take it out of the interval.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrastive.report.judge import MIN_SEEDS, Measured, Pairs, estimate, pairs_of
from contrastive.report.statistics import (
    Estimate,
    Prior,
    effect_found,
    image_floor,
    least_error,
    of_rows,
    paired_estimate,
    probability_better,
    rows_that_decide,
)
from contrastive.run.figures import verdict
from contrastive.study.compare.plan import Plan, search_of
from contrastive.study.compare.search import FEW

ALL = 0.05  # the level of all judgements together
# By how many points another search moves a method of this accuracy, and the degrees of freedom of that, measured on
# searches of 8 points: studies/verdicts/search_prior.py. It falls beyond 12 points: to 0.2 to 0.4 at 32 by simulation,
# and to 0.3 in three searches of five losses (studies/fair_search).
SEARCH_SD, SEARCH_ACCURACY, SEARCH_DF, SEARCH_POINTS = 0.9, 35.0, 8, 12
# Medians of 149 pairs of rows in studies/: the points by which another seed moves a difference, and the spread of
# the difference on one image, of a single run and of the mean of all, as shares of the binomial sqrt(a (1 - a)).
SEED_SD = 0.9
SHARE_OF_A_RUN, SHARE_OF_ALL = 0.9, 0.25
RANGE_IN_SDS = 3.29  # the length of a 90 % range of a normal distribution
# A model is less sure of what is left to find than it says, by so much after one search and after several of so many
# points: tables of studies/verdicts/search_simulation.py. What it says then of one, at an accuracy of SEARCH_ACCURACY.
UNSURE_OF_ONE, UNSURE, MODEL_POINTS, MODEL_SD = 2.6, 1.6, 24, 0.45
Claim = dict[str, Any]  # what is said of a pair

Rows = Mapping[str, Sequence[Mapping[str, Any]]]  # the final runs of each contestant, as a record has them
Searches = Mapping[str, Sequence[Mapping[str, Any]]]  # its searches, as a record has them


def judge_comparison(plan: Plan, rows: Rows, failed: Mapping[str, int], searches: Searches) -> list[dict[str, Any]]:
    """A verdict for each pair of opponents; none where there is one contestant.

    The intervals are simultaneous (Bonferroni) over the pairs and the looks, 95 % in all, so that the verdict is what
    the interval shows: without 0 in it better or worse, inside of the margin equal.

    Returns:
        {name, against, verdict, effect, low, high, p: corrected, worse, within, better: the probabilities that the
        method is worse by more than the margin, within it, or better by more, p_better: the probability that a run of
        one is ahead of a run of the other, n: rows, over, same: whether weights and judged images are, seen: the
        difference of the final runs alone, gain, gain_against: the points that more search may still bring either,
        unsure: the standard error of their difference, barely: whether the verdict would be another if what is known of
        other searches counted half, found: the effect that these rows find with 80 %, decide: rows of a next plan that
        always decide, None where no number does, floor, images, failed}.

    Args:
        failed: final runs of each contestant that failed.
    """
    judged = [_effect(plan, rows, searches, name, against) for name, against in plan.opponents]
    for claim in judged:
        claim["failed"] = max(failed.get(claim["name"], 0), failed.get(claim["against"], 0))
        if claim["failed"] or claim["effect"] is None:  # the one that broke down
            claim["broke"] = max((claim["against"], claim["name"]), key=lambda own: (failed.get(own, 0), not rows[own]))
    return [_concluded(claim, plan.margin) for claim in judged]


def judge_datasets(plan: Plan, judged: Sequence[Sequence[Mapping[str, Any]]], looks: int) -> list[Claim]:
    """A verdict for each pair over several data sets: what other data sets like these would give.

    A data set is one row of a paired t-test: how an effect differs between data sets is in its interval, and so are
    searches, seeds and test images, which differ with them. Signed ranks (Demšar 2006, JMLR 7) could find nothing at
    5 % with less than six data sets. A method that failed on one data set failed.

    Args:
        judged: what `judge_comparison` said of each.
        looks: how many such judgements there were, this one included.

    Returns:
        {name, against, verdict, effect, low, high, p, worse, within, better, gain, gain_against, found, decide: as
        `judge_comparison`, n: data sets, each: the effect on each, ahead: on how many it is above 0, same, failed: the
        number of data sets on which a method failed, broke: the methods that did}
    """
    return [_over_datasets(claims, plan, looks) for claims in zip(*judged, strict=True)]


def _over_datasets(claims: Sequence[Mapping[str, Any]], plan: Plan, looks: int) -> Claim:
    each = [claim["effect"] for claim in claims]
    known = [effect for effect in each if effect is not None]
    over: Claim = {
        **_unjudged(claims[0]["name"], claims[0]["against"]), "n": len(claims), "over": "data sets", "each": each,
        "ahead": sum(effect > 0 for effect in known), "same": all(claim["same"] for claim in claims),
        "failed": sum(claim["verdict"] == "failed" for claim in claims),
        "broke": list(dict.fromkeys(claim["broke"] for claim in claims if claim["verdict"] == "failed")),
        **{key: mean(claim[key] for claim in claims) for key in ("gain", "gain_against")},
    }  # fmt: skip
    if len(known) == len(each):
        found = paired_estimate(known)
        over["effect"] = found.effect
        if found.error:
            over |= _answers(found, level_of(plan, looks), plan.margin)
            sd = found.error * math.sqrt(len(each))
            over["decide"] = rows_that_decide(sd, 0.0, plan.margin, level=level_of(plan, looks + 1))
    return _concluded(over, plan.margin)


def _unjudged(name: str, against: str) -> Claim:
    """What is said of a pair without a run."""
    return {
        "name": name, "against": against, "n": 0, "over": "", "effect": None, "low": None, "high": None, "p": None,
        "worse": None, "within": None, "better": None, "p_better": None, "seen": None, "gain": 0.0, "gain_against": 0.0,
        "unsure": 0.0, "barely": False, "floor": 0.0, "decide": None, "found": None, "images": None, "same": False,
    }  # fmt: skip


def _concluded(claim: Claim, margin: float) -> Claim:
    """The claim with its verdict, what the interval shows, and its numbers to four decimals; the same runs are
    equal."""
    said = "equal" if claim["same"] else verdict(claim["low"], claim["high"], margin=margin)
    if claim["failed"] or claim["effect"] is None:
        said = "failed"
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in claim.items()} | {
        "verdict": said
    }


def level_of(plan: Plan, looks: int | None = None) -> float:
    """The level of each interval.

    Args:
        looks: of the last of so many judgements; None = those of the plan.
    """
    return plan.level / float(8 ** ((looks or plan.looks) - 1)) / max(1, len(plan.opponents))


def _effect(plan: Plan, rows: Rows, searches: Searches, name: str, against: str) -> dict[str, Any]:
    """The difference of two contestants over their common final seeds."""
    pairs = paired_runs(rows, name, against)
    claim = _unjudged(name, against)
    if not pairs:
        return claim
    values, bits = found = compared(pairs, plan.metric)
    places = np.array([search_of(run["seed"]) for run, _ in pairs])
    claim["effect"] = claim["seen"] = found.effect
    claim["p_better"] = _probability(values, places)
    weights = all(a.get("weights") is not None and a["weights"] == b.get("weights") for a, b in pairs)
    claim["same"] = bits is not None and bool((bits[:, 0] == bits[:, 1]).all()) and weights
    claim["images"] = bits.shape[2] if bits is not None else None
    claim["over"] = ("searches" if plan.searches > 1 else "seeds") + (", images" if bits is not None else "")
    claim["n"] = len(np.unique(places)) if plan.searches > 1 else len(pairs)
    if claim["n"] < (2 if plan.searches > 1 else MIN_SEEDS) or claim["same"]:
        return claim
    ours, theirs = (luck_of(searches.get(own, ()), value)
                    for own, value in zip((name, against), values.mean(0), strict=True))  # fmt: skip
    each = found.each + (ours.gains[places] - theirs.gains[places])[:, None]
    luck = Luck(ours.gains - theirs.gains, ours.of_search + theirs.of_search, ours.of_model + theirs.of_model)
    claim |= _judged(plan, each, places, luck)
    half_as_sure = _judged(plan, each, places, luck, prior_df=SEARCH_DF / 2)
    said = [verdict(of.get("low"), of.get("high"), margin=plan.margin) for of in (claim, half_as_sure)]
    gain, gain_against = (float(own.gains[np.unique(places)].mean()) for own in (ours, theirs))
    unsure = math.sqrt(luck.of_model)
    return claim | {"gain": gain, "gain_against": gain_against, "unsure": unsure, "barely": said[0] != said[1]}


def _judged(
    plan: Plan, each: NDArray[np.float64], places: NDArray[np.int64], luck: "Luck", prior_df: float = SEARCH_DF
) -> dict[str, Any]:
    """What the differences say.

    Args:
        each: (runs, images) of each pair of runs, in points; one column without images.
        places: (runs,) the search of each.
        luck: of both contestants.
        prior_df: degrees of freedom of what is known of other searches.
    """
    floor = image_floor(each) if each.shape[1] > 1 else 0.0
    found, sd, df = _estimate(each, places, luck, prior_df)
    if not found.error:
        return {"floor": floor}
    then, least = level_of(plan, plan.looks + 1), math.hypot(floor, math.sqrt(luck.of_model))
    enough = rows_that_decide(sd, least, plan.margin, level=then, prior_df=df)
    return {**_answers(found, level_of(plan), plan.margin), "floor": floor, "decide": enough}


def _answers(found: Estimate, level: float, margin: float) -> dict[str, float]:
    """The interval of an effect, its corrected p, how likely each answer is, and the effect that is found with 80 %.

    Args:
        level: of the interval.
    """
    half, tail = found.half(level), min(found.at_most(0), 1 - found.at_most(0))
    worse, at_most = found.at_most(-margin), found.at_most(margin)
    return {
        "effect": found.effect, "low": found.effect - half, "high": found.effect + half,
        "p": min(1.0, 2 * tail * ALL / level), "worse": worse, "within": at_most - worse, "better": 1 - at_most,
        "found": effect_found(found, level),
    }  # fmt: skip


def _estimate(
    each: NDArray[np.float64], places: NDArray[np.int64], luck: "Luck", prior_df: float
) -> tuple[Estimate, float, float]:
    """The estimate, and the standard deviation of a further row with the degrees of freedom beside those of the rows.

    A further row is a seed where nothing was searched, else a search.
    """
    known, means = np.unique(places), each.mean(1)
    within = [means[places == search] for search in known]
    of_seeds = sum(float(own.var(ddof=1)) for own in within if len(own) > 1) / len(within)
    if len(known) == 1:
        if not luck.of_search:
            return estimate(each), math.sqrt(of_seeds), 0
        widened = estimate(each).widened(max(luck.of_model, luck.of_search), prior_df)
        return widened, math.sqrt(luck.of_search + of_seeds / len(means)), prior_df
    prior = Prior(luck.of_search + of_seeds / min(map(len, within)), prior_df)
    rows = np.stack([each[places == search].mean(0) for search in known])
    variance, _ = prior.moderated(float(rows.mean(1).var(ddof=1)), len(rows) - 1)
    found = estimate(rows, prior)
    return found.widened(luck.of_model, prior_df) if luck.of_model else found, math.sqrt(variance), prior_df


class Luck(NamedTuple):
    """What a method owes to its searches.

    Attributes:
        gains: (searches,) the points that more search may still bring each.
        of_search: the variance of its accuracy from search to search, in points².
        of_model: the variance of the mean gain, which all searches have in common, in points².
    """

    gains: NDArray[np.float64]
    of_search: float
    of_model: float


def luck_of(searches: Sequence[Mapping[str, Any]], accuracy: float) -> Luck:
    """What the model of the searches says is left to find; where there is none, what the records say of a search.

    The spread of the records is that of logits, so that a search moves 95 % less than 36 %; it holds up to 12 points,
    and falls with their number beyond.

    Args:
        searches: of one contestant, as a record has them.
        accuracy: of its final runs, in percent.
    """
    told = {i: search["more"] for i, search in enumerate(searches) if search["more"]}
    gains = np.zeros(max(1, len(searches)))
    able = [search for search in searches if search.get("chosen", {}) is not None]
    n_points = min((len(search["points"]) for search in able), default=0)
    if told and len(told) == len(able):
        gains[[*told]] = [more["mean"] for more in told.values()]
        spreads = [((more["high"] - more["low"]) / RANGE_IN_SDS) ** 2 for more in told.values()]
        times = doubt(len(told), n_points)
        return Luck(gains, mean(spreads), mean((times * more["sd"]) ** 2 for more in told.values()))
    return Luck(gains, search_sd(n_points, accuracy) ** 2, 0.0)


def doubt(n_searches: int, n_points: int) -> float:
    """By how much the standard deviation that a model tells is multiplied: one search, or few points in each, may have
    missed what the model cannot know of."""
    return (UNSURE if n_searches > 1 else UNSURE_OF_ONE) * math.sqrt(max(1.0, MODEL_POINTS / n_points))


def search_sd(n_points: int, accuracy: float) -> float:
    """The points by which another search of so many points moves a method of this accuracy in percent."""
    if n_points < 2:  # nothing was searched
        return 0.0
    return SEARCH_SD * _slope(accuracy) * min(1.0, SEARCH_POINTS / n_points)


def _slope(accuracy: float) -> float:
    """Points at this accuracy for one at SEARCH_ACCURACY, of equal logits."""
    return accuracy * (100 - accuracy) / (SEARCH_ACCURACY * (100 - SEARCH_ACCURACY))


def paired_runs(rows: Rows, name: str, against: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The final runs of two contestants with common seeds."""
    ours, theirs = ({run["seed"]: run for run in rows[key]} for key in (name, against))
    return [(ours[place], theirs[place]) for place in sorted(ours.keys() & theirs.keys())]


def compared(pairs: Sequence[tuple[Any, Any]], metric: str) -> Pairs:
    """The figures of pairs of runs, and their images."""

    def measured(run: Mapping[str, Any]) -> Measured:
        return Measured(run["test"][metric], run.get("correct", {}).get(metric))

    return pairs_of([(measured(ours), measured(theirs)) for ours, theirs in pairs])


def _probability(values: NDArray[np.float64], searches: NDArray[np.int64]) -> float:
    """The probability that a run of the one is ahead of a run of the other, of the same search."""
    pairs = (values[searches == search].T.tolist() for search in np.unique(searches))
    return mean(probability_better(one, other) for one, other in pairs)


def planned_difference(plan: Plan, n_images: int, accuracy: float = 50.0) -> float:
    """The smallest difference that a plan finds with 80 %, from the spread of the runs and searches in studies/.

    Args:
        n_images: of the test split.
        accuracy: about where the contestants are, in percent; 50 is the hardest.
    """
    of_an_image = math.sqrt(accuracy * (100 - accuracy) / n_images)
    of_seeds = math.hypot(SEED_SD, SHARE_OF_A_RUN * of_an_image)
    floor = max(SHARE_OF_ALL * of_an_image, least_error(n_images))
    if plan.budget == 1:
        return effect_found(of_rows(of_seeds, floor, plan.seeds), level_of(plan))
    of_search = math.sqrt(2) * search_sd(plan.budget, accuracy)
    share = math.sqrt(MODEL_POINTS / (plan.budget * plan.searches))
    of_model = math.sqrt(2) * doubt(plan.searches, plan.budget) * MODEL_SD * _slope(accuracy) * share
    of_model = of_model if plan.budget >= FEW else of_search
    if plan.searches == 1:
        found = of_rows(of_seeds, floor, plan.seeds).widened(of_model**2, SEARCH_DF)
    else:
        of_row = math.hypot(of_search, of_seeds / math.sqrt(plan.seeds))
        found = of_rows(of_row, floor, plan.searches, SEARCH_DF).widened(of_model**2, SEARCH_DF)
    return effect_found(found, level_of(plan))
