"""loss.push of any contrastive loss; losses under torch.func, and their second derivatives: right, or an error."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from contrastive import NTXent
from contrastive.config.reference import option_files, target_of
from contrastive.config.targets import load_target
from contrastive.experiment.make import make
from contrastive.gathering import _Gather
from contrastive.loss.base import SelfSupervisedLoss, SupervisedContrastiveLoss
from contrastive.pairs import pairs
from contrastive.pairs.tiles import Tiling

LABEL, BIAS = torch.tensor([0, 1, 0, 2, 1, 2]), torch.tensor([0, 0, 1, 1, 2, 2])
PUSHED = [
    name for name in option_files("loss")
    if issubclass(load_target(target_of("loss", name)), SelfSupervisedLoss | SupervisedContrastiveLoss)
]  # fmt: skip
OPTIONS = {"soft_supcon": {"weights": [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]}}
TILES = Tiling(max_dense_pairs=1, chunk_pairs=30, tile=5)


def embeddings() -> Tensor:
    return torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()


def value(name: str, push: float) -> Callable[[Tensor], Tensor]:
    """The value of a fresh loss of a name."""
    loss = make(f"loss/{name}", push=push, **OPTIONS.get(name, {})).double()
    return lambda z: copy.deepcopy(loss)(z, LABEL, BIAS)


def gradient(f: Callable[[Tensor], Tensor], z: Tensor, **options: bool) -> Tensor:
    return torch.autograd.grad(f(z), z, **options)[0]


@pytest.mark.parametrize("name", PUSHED)
def test_push_of_every_loss_adds_to_its_gradient_in_proportion(name: str) -> None:
    """The value stays, and each unit of push adds the same gradient."""
    z = embeddings()
    values, gradients = zip(*((f(z), gradient(f, z)) for f in (value(name, push) for push in (1, 2, 4))), strict=True)
    step = gradients[1] - gradients[0]
    assert step.abs().max() > 1e-6
    torch.testing.assert_close(gradients[2] - gradients[0], 3 * step)
    assert values[0] == values[1] == values[2]


@pytest.mark.parametrize("name", PUSHED)
def test_torch_func_has_the_gradient_of_a_push(name: str) -> None:
    z, f = embeddings(), value(name, 4)
    torch.testing.assert_close(torch.func.grad(f)(z.detach()), gradient(f, z))
    both = torch.vmap(torch.func.grad(f))(torch.stack([z.detach(), z.detach().flip(0)]))
    torch.testing.assert_close(both[0], gradient(f, z))


def test_torch_func_has_the_gradient_of_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "default_tiling", lambda device: TILES)
    z, loss = embeddings(), NTXent(temperature=0.5)
    torch.testing.assert_close(torch.func.grad(loss)(z.detach()), gradient(loss, z))


@pytest.mark.parametrize("push", [4, 1])
@pytest.mark.parametrize("name", PUSHED)
def test_a_second_derivative_is_right_or_an_error(name: str, push: float, monkeypatch: pytest.MonkeyPatch) -> None:
    if push == 1:
        monkeypatch.setattr(pairs, "default_tiling", lambda device: TILES)
    z, f = embeddings(), value(name, push)
    u, w = torch.randn(2, *z.shape, generator=torch.Generator().manual_seed(1), dtype=z.dtype)
    try:
        second = torch.autograd.grad((gradient(f, z, create_graph=True) * w).sum(), z)[0]
    except RuntimeError as error:
        if "no second derivative" not in str(error):
            raise
        return
    ahead, behind = (gradient(f, (z + step * u).detach().requires_grad_()) for step in (1e-5, -1e-5))
    torch.testing.assert_close((second * u).sum(), ((ahead - behind) * w).sum() / 2e-5, rtol=1e-4, atol=1e-6)


def test_a_second_derivative_across_processes_is_an_error(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        z = embeddings()
        first = gradient(lambda z: _Gather.apply(z, None).pow(3).sum(), z, create_graph=True)
        torch.testing.assert_close(first, 3 * z**2)
        with pytest.raises(RuntimeError, match="no second derivative"):
            torch.autograd.grad(first.sum(), z)
    finally:
        dist.destroy_process_group()
