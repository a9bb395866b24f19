"""How far another search moves the accuracy of a method, from the committed comparisons of several searches.

    python studies/verdicts/search_prior.py [studies]

The numbers stand in contrastive/study/compare/judge.py. Of each method, the variance of the means of its searches, less
what their seeds bring, is the variance of a search. Smyth's (2004) moments tell how much these variances differ between
methods beyond chance: infinitely many degrees of freedom mean not at all. The methods of one search share its held-out
images and most of its points, so the prior is worth no more than the searches behind it.
"""

import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import polygamma

from contrastive.study.compare.judge import SEARCH_POINTS
from contrastive.study.compare.plan import search_of
from contrastive.study.record import read_compared
from contrastive.study.render.files import record_files

STUDIES = Path(__file__).resolve().parents[1]


class SearchPrior(NamedTuple):
    """The standard deviation of a search in points, at a mean accuracy in percent and a number of points; the degrees
    of freedom by Smyth's moments, and those of the searches."""

    sd: float
    accuracy: float
    n_points: int
    moments_df: float
    searches_df: int


def search_prior(folder: Path, *, least: int = 2, most: int = SEARCH_POINTS) -> SearchPrior:
    """The prior of the records of a folder, of searches of `least` to `most` points."""
    variances, of_seeds, accuracies, n_points, df_of_each, searches_df = [], [], [], [], [], 0
    for path in record_files(folder):
        record = read_compared(path) or {}
        plan = record.get("comparison", {}).get("plan", {"searches": 1})
        if plan["searches"] < 3 or not least <= plan["budget"] <= most:
            continue
        searches_df += plan["searches"] - 1
        for row in (row for row in record["rows"] if row["name"] in record["comparison"]["searches"]):
            runs = [[run["test"][plan["metric"]] for run in row["runs"] if search_of(run["seed"]) == search]
                    for search in range(plan["searches"])]  # fmt: skip
            values = np.array(runs)  # (searches, seeds)
            df_of_each.append(len(values) - 1)
            variances.append(values.mean(1).var(ddof=1))
            of_seeds.append(values.var(axis=1, ddof=1).mean() / values.shape[1])
            accuracies.append(values.mean())
            n_points.append(plan["budget"])
    sd = math.sqrt(np.mean(variances) - np.mean(of_seeds))
    by_chance = np.mean([polygamma(1, df / 2) for df in df_of_each])
    beyond = float(np.log(variances).var(ddof=1) - by_chance)
    return SearchPrior(sd, float(np.mean(accuracies)), min(n_points), _moments_df(beyond), searches_df)


def _moments_df(spread: float) -> float:
    """The degrees of freedom whose trigamma(df / 2) is the spread of logarithms of variances."""
    if spread <= 0:
        return math.inf
    low, high = 1e-3, 1e6
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if polygamma(1, middle / 2) > spread else (low, middle)
    return low


if __name__ == "__main__":
    print(search_prior(Path(sys.argv[1]) if len(sys.argv) > 1 else STUDIES))
