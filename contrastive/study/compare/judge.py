"""The verdicts of a comparison: effects with intervals over seeds or searches and over test images.

See docs/compare.md. With one search the rows of the two-way test are seeds, and a verdict is about the settings that
the search chose. With several the rows are searches, each the mean of its seeds, and a verdict is about the methods.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from contrastive.bits import unpack
from contrastive.errors import ConfigError
from contrastive.study.compare.plan import Plan
from contrastive.study.compare.stages import SEEDS_OF_A_SALT, search_of
from contrastive.study.record import correct_name
from contrastive.study.spec import look_up
from contrastive.study.statistics import (
    Estimate,
    effect_found,
    holm,
    image_floor,
    least_error,
    paired_estimate,
    probability_better,
    rows_that_decide,
    two_way_estimate,
)
from contrastive.text import counted

LEVEL = 0.05
SEARCH_SD = 1.0  # points by which another search moves effects: median of docs/results/push_searched and its noise
# Medians of 149 pairs of rows in docs/results: the points by which another seed moves a difference, and the spread of
# the difference on one image, of a single run and of the mean of all, as shares of the binomial sqrt(a (1 - a)).
SEED_SD = 0.9
SHARE_OF_A_RUN, SHARE_OF_ALL = 0.9, 0.25
ROWS_FOR_A_FLOOR = 5  # from fewer the floor of the images is a guess
NUMBERS = ("effect", "low", "high", "p_differs", "p_equal", "p_better", "sd", "floor", "found")

Rows = Mapping[str, Sequence[Mapping[str, Any]]]  # the final runs of each contestant, as a record has them


def judge_comparison(plan: Plan, rows: Rows, failed: Mapping[str, int]) -> list[dict[str, Any]]:
    """A verdict for each pair of opponents.

    Returns:
        {name, against, verdict, effect, low, high, p_differs and p_equal (corrected), p_better: the probability that a
        run of one is ahead of a run of the other, n: rows, over, same: whether weights and judged images are, decide:
        rows that always decide, found: the effect that these rows find with 80 %}.

    Args:
        failed: final runs of each contestant that failed.

    Raises:
        ConfigError: a run has no such metric.
    """
    judged = [_effect(plan, rows, name, against) for name, against in plan.opponents]
    tested = [claim for claim in judged if claim["p_differs"] is not None]
    # Of the two null hypotheses of a pair, no difference and one of at least the margin, one at most is true: so no
    # more are true than there are pairs (Shaffer 1986).
    both = [claim[key] for claim in tested for key in ("p_differs", "p_equal")]
    # in the order of `both`: differs and equal of one pair after the other
    corrected = iter(holm(both, most=len(tested)))
    for claim in tested:
        claim["p_differs"], claim["p_equal"] = next(corrected), next(corrected)
    for claim in judged:
        n_failed = max(failed.get(claim["name"], 0), failed.get(claim["against"], 0))
        claim["failed"] = n_failed
        if n_failed or claim["effect"] is None:  # the one that broke down
            claim["broke"] = max((claim["against"], claim["name"]), key=lambda own: (failed.get(own, 0), not rows[own]))
        claim["verdict"] = _verdict(claim, level=LEVEL / plan.looks)
        claim |= {key: round(x, 4) for key in NUMBERS if isinstance(x := claim[key], float)}
    return judged


def _verdict(claim: Mapping[str, Any], *, level: float) -> str:
    if claim["failed"] or claim["effect"] is None:
        return "failed"
    if claim["p_differs"] is None:
        return "the same runs" if claim["same"] else "undecided"
    if claim["p_differs"] <= level:
        return "better" if claim["effect"] > 0 else "worse"
    return "equal" if claim["p_equal"] <= level else "undecided"


def _effect(plan: Plan, rows: Rows, name: str, against: str) -> dict[str, Any]:
    """The difference of two contestants over their common final seeds; a salt adds the same to each seed."""
    ours, theirs = ({run["seed"] % SEEDS_OF_A_SALT: run for run in rows[key]} for key in (name, against))
    common = sorted(ours.keys() & theirs.keys())
    pairs = [(ours[place], theirs[place]) for place in common]
    claim: dict[str, Any] = {
        "name": name, "against": against, "n": 0, "over": "", "effect": None, "low": None, "high": None,
        "p_differs": None, "p_equal": None, "p_better": None, "sd": None, "floor": 0.0, "decide": None, "found": None,
        "images": None, "same": False,
    }  # fmt: skip
    if not pairs:
        return claim
    values = np.array([[_value(name, a, plan.metric), _value(against, b, plan.metric)] for a, b in pairs])
    searches = np.array(list(map(search_of, common)))
    claim["effect"] = float((values[:, 0] - values[:, 1]).mean())
    claim["p_better"] = _probability(values, searches)
    bits = _bits(pairs, plan.metric)
    weights = all(a.get("weights") is not None and a["weights"] == b.get("weights") for a, b in pairs)
    claim["same"] = bits is not None and bool((bits[:, 0] == bits[:, 1]).all()) and weights
    each = 100 * (bits[:, 0] - bits[:, 1]) if bits is not None else (values[:, 0] - values[:, 1])[:, None]
    if plan.searches > 1:
        each = np.stack([each[searches == search].mean(0) for search in np.unique(searches)])
    claim["n"] = len(each)
    claim["over"] = ("searches" if plan.searches > 1 else "seeds") + (", images" if bits is not None else "")
    if len(each) < 3 or claim["same"]:
        return claim
    estimate: Estimate = two_way_estimate(each) if bits is not None else paired_estimate(each[:, 0].tolist())
    claim["sd"] = float(each.mean(1).std(ddof=1))
    claim["floor"] = image_floor(each) if bits is not None else 0.0
    claim["images"] = each.shape[1] if bits is not None else None
    claim["effect"] = estimate.effect
    claim["low"], claim["high"], _ = estimate.interval()
    claim |= {"p_differs": estimate.differs(), "p_equal": estimate.equal(plan.margin)}
    if estimate.error:
        claim["decide"] = rows_that_decide(claim["sd"], claim["floor"], plan.margin)
        claim["found"] = effect_found(claim["sd"], claim["floor"], len(each))
    return claim


def _value(name: str, run: Mapping[str, Any], metric: str) -> float:
    value = look_up(dict(run), metric)
    if value is None:
        known = ", ".join(run["test"]) or "no figures at all"
        raise ConfigError(f"{name}, seed {run['seed']}, has no {metric}, it has {known}: try another metric")
    return value


def _bits(pairs: Sequence[tuple[Any, Any]], metric: str) -> NDArray[np.float64] | None:
    """(pairs, 2, images), which images were right; None where a run does not tell."""
    texts = [[run.get("correct", {}).get(correct_name(metric)) for run in pair] for pair in pairs]
    if any(text is None for pair in texts for text in pair):
        return None
    rights = [[unpack(text) for text in pair] for pair in texts]
    if len({len(right) for pair in rights for right in pair}) > 1:
        return None
    return np.array(rights, dtype=float)


def _probability(values: NDArray[np.float64], searches: NDArray[np.int64]) -> float:
    """The probability that a run of the one is ahead of a run of the other, of the same search."""
    return mean(
        probability_better(values[searches == search, 0].tolist(), values[searches == search, 1].tolist())
        for search in np.unique(searches)
    )


def planned_difference(plan: Plan, n_images: int, accuracy: float = 50.0) -> float:
    """The smallest difference that a plan finds with 80 %, from the spread of the runs in docs/results.

    Args:
        n_images: of the test split.
        accuracy: about where the contestants are, in percent; 50 is the hardest.
    """
    of_an_image = math.sqrt(accuracy * (100 - accuracy) / n_images)
    sd = math.hypot(SEED_SD, SHARE_OF_A_RUN * of_an_image)
    floor = max(SHARE_OF_ALL * of_an_image, least_error(n_images))
    if plan.searches < 3:
        return effect_found(sd, floor, plan.seeds)
    return effect_found(math.hypot(SEARCH_SD, sd / math.sqrt(plan.seeds)), floor, plan.searches)


def power_text(plan: Plan, n_images: int, accuracy: float | None) -> str:
    """What a plan can find, and what that rests on.

    Args:
        accuracy: about that of the runs so far; None = none is done.
    """
    about = "methods" if plan.searches > 1 else "these settings" if plan.budget == 1 else "the chosen settings"
    at = "an unknown accuracy, so of 50 %" if accuracy is None else f"an accuracy of {accuracy:.0f} %"
    points = planned_difference(plan, n_images, 50.0 if accuracy is None else accuracy)
    return (
        f"detects a difference of {points:.1f} points between {about} with 80 % power, on {n_images:,} test images at "
        f"{at}, if runs spread as those in docs/results"
    )


def sentence(claim: Mapping[str, Any], plan: Plan, metric: str) -> str:
    """What a comparison says of a contestant, in one sentence."""
    name, against = f"{claim['name']}{_scope(plan)}", claim["against"]
    if claim["verdict"] == "failed":
        n = plan.searches * plan.seeds
        what = (
            f"failed in {claim['failed']} of {n} final runs"
            if claim["failed"]
            else "has no point that could be trained"
        )
        return f"{name}: undecided against {against}: {claim['broke']} {what}"
    if claim["verdict"] == "the same runs":
        return f"{name}: the same runs as {against}"
    if claim["low"] is None:
        why = "which differ by the same each time" if claim["n"] >= 3 else "too few for an interval"
        points = f"{claim['effect']:+z.1f} points by {metric} over {claim['n']} rows"
        return f"{name}: undecided against {against}, {points}, {why}"
    low, high = sorted((abs(claim["low"]), abs(claim["high"])))
    if claim["verdict"] in ("better", "worse"):
        size = f"{abs(claim['effect']):.1f} points {claim['verdict']}"
        text = f"{size} than {against} by {metric} ({low:.1f} to {high:.1f})"
    else:
        interval = f"{claim['effect']:+z.1f} points by {metric}, {claim['low']:+z.1f} to {claim['high']:+z.1f}"
        is_equal = claim["verdict"] == "equal"
        text = f"equal to {against} within {plan.margin:g}" if is_equal else f"undecided against {against}"
        text += f" ({interval}{_correction(claim, plan)})"
    if plan.budget == 1:
        text += "; nothing was searched"
    elif plan.searches == 1:
        text += f"; another search moves such effects by about {SEARCH_SD:g}"
    return f"{name}: {text}{_advice(claim, plan)}"


def _scope(plan: Plan) -> str:
    """What a verdict is about, behind the name of a contestant; nothing where it is the method."""
    if plan.searches == 1:
        return " with these settings"
    return "" if plan.is_of_methods else f" in these {plan.searches} searches"


def _correction(claim: Mapping[str, Any], plan: Plan) -> str:
    """Why nothing is decided although the interval excludes 0 or lies inside of the margin."""
    low, high = claim["low"], claim["high"]
    is_inside = -plan.margin < low and high < plan.margin
    if claim["verdict"] != "undecided" or (low <= 0 <= high and not is_inside):
        return ""
    looks = f" and {plan.looks} looks" if plan.looks > 1 else ""
    return f", uncorrected; the verdict is corrected for {counted(len(plan.opponents), 'pair')}{looks}"


def _advice(claim: Mapping[str, Any], plan: Plan) -> str:
    """What it would take to decide, where nothing is decided."""
    if claim["verdict"] != "undecided":
        return ""
    if claim["decide"] is not None:
        n = _about(claim["decide"])
        what = "searches" if plan.searches > 1 else "seeds"
        return f". About {n} {what} would be needed to decide for sure" if n > claim["n"] else ""
    if not claim["images"] or claim["n"] < ROWS_FOR_A_FLOOR or 3.92 * claim["floor"] < plan.margin:
        return ""
    least = claim["images"] * (3.92 * claim["floor"] / plan.margin) ** 2
    return (
        f". No number of runs is sure to decide on these {claim['images']:,} test images; "
        f"some {_about(least):,} images could"
    )


def _about(n: float) -> int:
    """n to one digit, upward: 18 is 20, 103 is 200."""
    unit: int = 10 ** (len(str(int(n))) - 1)
    return math.ceil(n / unit) * unit
