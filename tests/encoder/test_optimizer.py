"""LARS against re-typed google-research/simclr, and on degenerate tensors."""

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
    assert (w.detach().reshape(4, 3) * torch.cos((i + 2 * j).double())).sum().item() == pytest.approx(
        case["w_probe"], rel=1e-9
    )


def test_lars_on_zero_gradients_and_weights():
    w = nn.Parameter(torch.zeros(3, 2))
    v = nn.Parameter(torch.ones(3, 2))
    optimizer = make("optimizer/lars", weight_decay=0.0)([w, v])
    w.grad, v.grad = torch.ones(3, 2), torch.zeros(3, 2)
    optimizer.step()
    assert torch.equal(w.detach(), -torch.ones(3, 2))
    assert torch.equal(v.detach(), torch.ones(3, 2))
