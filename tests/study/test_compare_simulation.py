"""How sure verdicts are, by made-up comparisons with a known truth; docs/compare.md has the whole table."""

import math
from dataclasses import replace

import numpy as np
import pytest

from contrastive.study.compare import judge
from studies.verdicts.compare_simulation import Cell, measured
from studies.verdicts.search_prior import search_prior
from tests.helpers import ROOT, further

SHALLOW = Cell(points=8, loses=0.9, moves=0.9, tells=False, images=300)


@pytest.mark.parametrize("cell", [
    Cell(images=300), *further(
        Cell(images=300, searches=2, seeds=3), Cell(images=40, accuracy=95.0),
        Cell(images=300, methods=4, searches=3, seeds=3), SHALLOW, replace(SHALLOW, searches=3, seeds=3),
    ),
], ids=str)  # fmt: skip
def test_intervals_cover_and_false_findings_are_rare(cell: Cell) -> None:
    """Of 160 intervals of a true coverage of 0.95 fewer than 144 cover in 0.4 % of such tests."""
    said = measured(cell, 80)
    assert said["covers"] >= 0.9
    assert said["false"] <= 0.125


def test_without_the_search_intervals_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they did when a verdict was about the settings that one search chose."""
    monkeypatch.setattr(judge, "search_sd", lambda *_: 0.0)
    said = measured(replace(SHALLOW, images=2000, seeds=8), 40)
    assert said["covers"] < 0.85


def test_the_prior_of_a_search_is_that_of_the_records() -> None:
    prior = search_prior(ROOT / "studies")
    assert (round(prior.sd, 1), round(prior.accuracy)) == (judge.SEARCH_SD, judge.SEARCH_ACCURACY)
    assert prior.n_points <= judge.SEARCH_POINTS
    assert min(prior.moments_df, prior.searches_df) == judge.SEARCH_DF
    assert prior.moments_df == math.inf
    assert np.isfinite(prior.sd)
