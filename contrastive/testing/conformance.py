"""What every loss has to keep, checked on a loss one has written: `contrastive.testing.check_loss(loss)`."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from contrastive.loss.base import Loss
from contrastive.pairs import pairs, tiles
from contrastive.types import Split

CLASSES, BIASES, DIM = 3, 4, 6


def check_loss(loss: Loss) -> None:
    """Check that a loss keeps what every loss keeps.

    Order of images, order of views and scale of z do not matter, except where `loss.exempt_from` says so and
    why; its gradient is right; float32 agrees with float64; value and gradient are finite at every temperature, in
    float32 and under bfloat16 autocast, for two images, one class only and classes all different; it is the same in
    tiles; and descending it on free embeddings lowers it.

    Raises:
        AssertionError: with the name of what does not hold.
    """
    views = max(2, loss.min_views)
    z, label, bias = inputs(12, views)
    loss = prepared(loss, label, bias)
    value = loss(z, label, bias)
    assert value.shape == (), "the loss is not a scalar"

    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(1))
    _invariant(loss, "image order", value, loss(z[order], label[order], bias[order]))
    _invariant(loss, "view order", value, loss(z.flip(1), label, bias))
    _invariant(loss, "scale", value, loss(3 * z, label, bias))

    if "gradient" not in loss.exempt_from:
        free = z[:6].clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda x: loss(x, label[:6], bias[:6]), (free,)), "the gradient is wrong"
    narrow = copy.deepcopy(loss).float()(z.float(), label, bias)
    torch.testing.assert_close(narrow.double(), value, rtol=1e-4, atol=1e-5, msg="float32 differs from float64")

    with in_tiles():
        torch.testing.assert_close(
            loss(z, label, bias),
            value,
            rtol=1e-9,
            atol=1e-12,
            msg="a large batch, in tiles, differs: is a relation not symmetric?",
        )
    _finite_everywhere(loss)
    if "descent" not in loss.exempt_from:
        _descends(loss, z, label, bias)


@contextmanager
def in_tiles() -> Iterator[None]:
    """No batch is small enough to hold its matrix, and a tile has five anchors."""
    before = pairs.DENSE, tiles.SIDE
    pairs.DENSE, tiles.SIDE = 0, 5
    try:
        yield
    finally:
        pairs.DENSE, tiles.SIDE = before


def inputs(n: int, views: int) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings (n, views, DIM) float64, labels and biases (n,)."""
    z = torch.randn(n, views, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return z, torch.arange(n) % CLASSES, torch.arange(n) // 2 % BIASES


def prepared(loss: Loss, label: Tensor, bias: Tensor) -> Loss:
    """The loss in float64 with what it takes from training data; z stands for the logits where it reads those."""
    torch.manual_seed(0)
    loss = copy.deepcopy(loss)
    loss.prepare(Split(torch.zeros(len(label), 3, 1, 1, dtype=torch.uint8), label, bias), n_classes=DIM, dim=DIM)
    return loss.double()


def _invariant(loss: Loss, to: str, value: Tensor, other: Tensor) -> None:
    if to in loss.exempt_from:
        assert loss.exempt_from[to], f"the loss gives no reason for depending on the {to}"
        return
    torch.testing.assert_close(other, value, rtol=1e-9, atol=1e-12, msg=f"the loss depends on the {to}")


def _finite_everywhere(loss: Loss) -> None:
    temperatures = (0.005, 0.01, 0.07, 0.5) if hasattr(loss, "temperature") else (None,)
    views = max(2, loss.min_views)
    for temperature in temperatures:
        trial = copy.deepcopy(loss).float()
        if temperature is not None:
            setattr(trial, "temperature", temperature)  # noqa: B010  (only some losses have one)
        for n in (2, 8):
            z, label, bias = inputs(n, views)
            for labels in (label, torch.zeros_like(label), torch.arange(n) % DIM):
                for near in (z, torch.ones_like(z) + 1e-3 * z):
                    for autocast in (False, True):
                        free = near.float().requires_grad_()
                        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
                            value = trial(free.bfloat16() if autocast else free, labels, bias)
                        (gradient,) = torch.autograd.grad(value, free, allow_unused=True)
                        where = f"temperature {temperature}, {n} images, autocast {autocast}"
                        assert value.dtype == torch.float32, f"the loss is {value.dtype} under autocast"
                        assert value.isfinite(), f"the loss is {value} at {where}"
                        assert gradient is None or gradient.isfinite().all(), f"the gradient is not finite at {where}"


def _descends(loss: Loss, z: Tensor, label: Tensor, bias: Tensor) -> None:
    free = z.clone().requires_grad_()
    optimizer = torch.optim.Adam([free], lr=0.01)
    first = loss(free, label, bias)
    for _ in range(50):
        optimizer.zero_grad()
        loss(free, label, bias).backward()
        optimizer.step()
    assert loss(free, label, bias) < first, "fifty steps of gradient descent did not lower the loss"
