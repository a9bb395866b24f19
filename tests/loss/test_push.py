"""loss.push: the repulsion of any contrastive loss, multiplied; and the curve that shows it."""

import pytest
import torch
from torch import Tensor

from contrastive.config.reference import option_files, target_of
from contrastive.config.targets import load_target
from contrastive.experiment.make import make
from contrastive.loss.base import SelfSupervisedLoss, SupervisedContrastiveLoss

LABEL = torch.tensor([0, 1, 0, 2, 1, 2])
PUSHED = [
    name for name in option_files("loss")
    if issubclass(load_target(target_of("loss", name)), SelfSupervisedLoss | SupervisedContrastiveLoss)
]  # fmt: skip
OPTIONS = {"soft_supcon": {"weights": [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]}}


def embeddings() -> Tensor:
    return torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("name", PUSHED)
def test_push_of_every_loss_adds_to_its_gradient_in_proportion(name: str) -> None:
    """The value stays, and each unit of push adds the same gradient."""
    z, values = embeddings(), set()

    def at(push: float) -> Tensor:
        loss = make(f"loss/{name}", push=push, **OPTIONS.get(name, {})).double()
        value = loss(z, LABEL, torch.tensor([0, 0, 1, 1, 2, 2]))
        values.add(value.item())
        return torch.autograd.grad(value, z)[0]

    step = at(2) - at(1)
    assert step.abs().max() > 1e-6
    torch.testing.assert_close(at(4) - at(1), 3 * step)
    assert len(values) == 1


def test_a_curve_shows_the_push() -> None:
    curves = make("loss/nt_xent", push=4).diagnostics(embeddings(), None, None)
    assert curves["pairs/push_ratio"].item() == pytest.approx(4)
