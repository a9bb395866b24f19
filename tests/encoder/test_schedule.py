"""Learning rate schedules, at hand-computed epochs and against transcriptions of the published ones."""

import math

import pytest

from contrastive.experiment.make import make


def test_factors_by_hand():
    assert make("schedule/constant")(3.7, 10) == 1
    cosine = make("schedule/cosine", warmup_epochs=2, final=0.1)
    assert [cosine(e, 10) for e in (0, 1, 2)] == [0, 0.5, 1]
    assert cosine(6, 10) == pytest.approx(0.55)
    assert cosine(10, 10) == pytest.approx(0.1)
    step = make("schedule/step", milestones=[2, 4], gamma=0.1)
    assert [step(e, 10) for e in (0, 1.9, 2, 4)] == pytest.approx([1, 1, 0.1, 0.01])


def test_cosine_stays_at_its_end_also_where_the_warmup_is_longer_than_the_run():
    assert make("schedule/cosine", final=0.1)(15, 10) == pytest.approx(0.1)
    long = make("schedule/cosine", warmup_epochs=20, final=0.1, decay_from="start")
    assert [long(epoch, 10) for epoch in (0, 5, 10)] == pytest.approx([0, 0.025, 0.05])


@pytest.mark.parametrize("epochs", [100, 1000])
def test_cosine_equals_the_schedule_of_google_simclr(epochs):
    steps_per_epoch, warmup = 97, 10
    total, warm = epochs * steps_per_epoch, warmup * steps_per_epoch
    schedule = make("schedule/cosine", warmup_epochs=warmup)
    for step in range(0, total, 13):
        theirs = step / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))
        assert schedule(step / steps_per_epoch, epochs) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize(("epochs", "lr"), [(1000, 0.5), (500, 0.8)])
def test_cosine_equals_the_schedule_of_supcon(epochs, lr):
    floor, batches = lr * 0.1**3, 49
    schedule = make("schedule/cosine", warmup_epochs=10, warmup_from=0.01 / lr, final=1e-3, decay_from="start")

    def decayed(epoch):
        return floor + (lr - floor) * (1 + math.cos(math.pi * epoch / epochs)) / 2

    for batch in range(0, 10 * batches, 7):
        theirs = 0.01 + batch / (10 * batches) * (decayed(10) - 0.01)
        assert lr * schedule(batch / batches, epochs) == pytest.approx(theirs, abs=1e-12)
    for epoch in range(10, epochs + 1):  # theirs changes once an epoch: equal where epochs meet
        assert lr * schedule(epoch, epochs) == pytest.approx(decayed(epoch), abs=1e-12)
