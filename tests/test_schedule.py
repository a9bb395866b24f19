"""Learning rate schedules, at hand-computed epochs."""

import pytest

from contrastive.program.make import make


def test_factors_by_hand():
    assert make("schedule/constant")(3.7, 10) == 1
    cosine = make("schedule/cosine", warmup_epochs=2, final=0.1)
    assert [cosine(e, 10) for e in (0, 1, 2)] == [0, 0.5, 1]
    assert cosine(6, 10) == pytest.approx(0.55)
    assert cosine(10, 10) == pytest.approx(0.1)
    step = make("schedule/step", milestones=[2, 4], gamma=0.1)
    assert [step(e, 10) for e in (0, 1.9, 2, 4)] == pytest.approx([1, 1, 0.1, 0.01])
