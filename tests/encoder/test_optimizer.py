"""LARS against re-typed google-research/simclr; schedules by hand and against transcriptions of the published ones."""

import math

import pytest
import torch
from torch import nn

from contrastive.experiment.make import make
from tests.golden import u


@pytest.mark.parametrize(
    ("nesterov", "adapted", "variant"),
    [
        (False, True, "google-research/simclr LARSOptimizer, classic momentum (re-typed from TF)"),
        (True, True, "same, Nesterov"),
        (False, False, "same, no layer adaptation (bias/BN group), wd 0"),
    ],
)
def test_lars_goldens(golden, nesterov, adapted, variant):
    (case,) = [c for c in golden["extra"]["lars"] if c["variant"] == variant]
    i, j = torch.meshgrid(torch.arange(4), torch.arange(3), indexing="ij")
    shape = (4, 3) if adapted else (12,)  # a tensor of one dimension is neither decayed nor scaled
    w = nn.Parameter(u(400 + i, 1 + j).reshape(shape))
    optimizer = make("optimizer/lars", lr=case["lr"], nesterov=nesterov)([w])
    for s in range(1, case["steps"] + 1):
        w.grad = u(400 + i, 1 + j + 10 * s).reshape(shape)
        optimizer.step()
    assert w.norm().item() == pytest.approx(case["w_l2"], rel=1e-9)
    probe = (w.detach().reshape(4, 3) * torch.cos((i + 2 * j).double())).sum()
    assert probe.item() == pytest.approx(case["w_probe"], rel=1e-9)


def test_lars_on_zero_gradients_and_weights():
    w = nn.Parameter(torch.zeros(3, 2))
    v = nn.Parameter(torch.ones(3, 2))
    w.grad, v.grad = torch.ones(3, 2), torch.zeros(3, 2)
    make("optimizer/lars", weight_decay=0.0)([w, v]).step()
    assert torch.equal(w.detach(), -torch.ones(3, 2))
    assert torch.equal(v.detach(), torch.ones(3, 2))


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
