"""`check_loss`: the properties that every loss must have, checked on a loss you wrote."""

import copy
import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from contrastive.loss.base import Loss, SelfSupervisedLoss, SupervisedContrastiveLoss
from contrastive.pairs.tiles import Tiling
from contrastive.types import Split

CLASSES, BIASES, DIM = 3, 4, 6
IN_TILES = Tiling(max_dense_pairs=0, chunk_pairs=150, tile=5)  # no matrix is held, and a tile has five anchors


class LossFacts(NamedTuple):
    """What a loss may or may not have; None where its anchors are not compared by `Pairs`, or not by that alone.

    Args:
        shift_invariant: whether one constant added to all similarities of an anchor leaves its loss as it is.
        push: repulsion of a batch by its attraction, the curve `pairs/push_ratio`; 1 for whatever is shift invariant.
    """

    shift_invariant: bool | None = None
    push: float | None = None


def check_loss(loss: Loss) -> LossFacts:
    """Check the properties of a loss. `loss.exempt_from` names those that must not hold, each with a reason.

    The value does not depend on the order of images, the order of views or the scale of z; the gradient is right;
    float32 agrees with float64; value and gradient are finite at every temperature, in float32 and under bfloat16
    autocast, for two images, one class only and all classes different; tiles give the same value as the whole matrix;
    the mean over slices of anchors is the value of the batch; and gradient descent on free embeddings lowers the loss.

    Args:
        loss: built, not yet prepared; it is copied.

    Returns:
        Whether it is shift invariant, and its push (docs/push.md): no loss must have either.

    Raises:
        AssertionError: naming the property that does not hold.
    """
    assert isinstance(loss, Loss), f"check_loss takes a loss that is built, not {loss!r}: try check_loss(MyLoss())"
    views = max(2, loss.min_views)
    z, label, bias = inputs(12, views)
    loss = prepared(loss, label, bias)
    value = loss(z, label, bias)

    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(1))
    _invariant(loss, "image order", value, loss(z[order], label[order], bias[order]))
    _invariant(loss, "view order", value, loss(z.flip(1), label, bias))
    _invariant(loss, "scale", value, loss(3 * z, label, bias))

    if "gradient" not in loss.exempt_from:
        free = z[:6].clone().requires_grad_()
        attached = loss(free, label[:6], bias[:6]).requires_grad
        assert attached, "the loss has no gradient: is there a .detach(), .item() or torch.no_grad() in it?"
        assert torch.autograd.gradcheck(lambda x: loss(x, label[:6], bias[:6]), (free,)), "the gradient is wrong"
    narrow = copy.deepcopy(loss).float()(z.float(), label, bias)
    torch.testing.assert_close(narrow.double(), value, rtol=1e-4, atol=1e-5, msg="float32 differs from float64")

    tiled = in_tiles(loss)(z, label, bias)
    message = "a large batch, in tiles, differs: is a relation not symmetric?"
    torch.testing.assert_close(tiled, value, rtol=1e-9, atol=1e-12, msg=message)
    parts = [loss(z, label, bias, slice(start, start + 4)) for start in range(0, len(z), 4)]
    message = "the mean over slices of anchors is not the value of the batch"
    torch.testing.assert_close(torch.stack(parts).mean(), value, rtol=1e-9, atol=1e-12, msg=message)
    _finite_everywhere(loss)
    if "descent" not in loss.exempt_from:
        _descends(loss, z, label, bias)
    return _facts(loss, z, label, bias)


def _facts(loss: Loss, z: Tensor, label: Tensor, bias: Tensor) -> LossFacts:
    if not isinstance(loss, SelfSupervisedLoss | SupervisedContrastiveLoss):
        return LossFacts()
    free = z.clone().requires_grad_()
    pairs, shifted = loss.pairs(free, label, bias)[0], loss.pairs(z, label, bias)[0]
    similarities, value = (pairs.logits, pairs.positive_logits), loss.per_anchor(pairs)
    slopes = torch.autograd.grad(value.sum(), similarities, retain_graph=True, materialize_grads=True)
    (direct,) = torch.autograd.grad(value.sum(), free, retain_graph=True)
    (through,) = torch.autograd.grad(similarities, free, slopes)
    if not torch.allclose(direct, through):
        return LossFacts()
    shifted._logits, shifted._positive_logits = (x.detach() + 0.5 for x in similarities)
    push = loss.diagnostics(z, label, bias).get("pairs/push_ratio")
    is_invariant = torch.allclose(loss.per_anchor(shifted), value, rtol=1e-9)
    return LossFacts(is_invariant, None if push is None else round(push.item(), 9))


def in_tiles(loss: Loss, tiling: Tiling = IN_TILES) -> Loss:
    """A copy of the loss that computes small batches as it computes large ones."""
    loss = copy.deepcopy(loss)
    for module in loss.modules():
        if isinstance(module, Loss):
            module.tiling = tiling
    return loss


def inputs(n: int, views: int) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings (n, views, DIM), float64; labels and biases (n,)."""
    z = torch.randn((n, views, DIM), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return z, torch.arange(n) % CLASSES, torch.arange(n) // 2 % BIASES


def prepared(loss: Loss, label: Tensor, bias: Tensor) -> Loss:
    """A copy of the loss in float64, prepared with these labels; z can be logits of DIM classes."""
    torch.manual_seed(0)
    loss = copy.deepcopy(loss)
    image = torch.zeros(len(label), 3, 1, 1, dtype=torch.uint8)
    features = torch.nn.functional.one_hot(bias).double()  # as of a model that reads nothing but the bias
    loss.prepare(Split(image, label, bias, features, mistaken=bias == 0), n_classes=DIM, dim=DIM)
    return loss.double()


def _invariant(loss: Loss, to: str, value: Tensor, other: Tensor) -> None:
    if to in loss.exempt_from:
        assert loss.exempt_from[to], f"the loss gives no reason for depending on the {to}"
        return
    torch.testing.assert_close(other, value, rtol=1e-9, atol=1e-12, msg=f"the loss depends on the {to}")


def _finite_everywhere(loss: Loss) -> None:
    for trial, n, autocast in itertools.product(_at_all_temperatures(loss), (2, 8), (False, True)):
        z, label, bias = inputs(n, max(2, loss.min_views))
        for labels in (label, torch.zeros_like(label), torch.arange(n) % DIM):
            for embeddings in (z, torch.ones_like(z) + 1e-3 * z):
                _finite(trial, embeddings.float(), labels, bias, autocast=autocast)


def _at_all_temperatures(loss: Loss) -> list[Loss]:
    """Copies in float32: one for each temperature; a single copy of a loss that has no temperature."""
    copies: list[Loss] = []
    for temperature in (0.005, 0.01, 0.07, 0.5):
        narrow = copy.deepcopy(loss).float()
        if not isinstance(narrow, SelfSupervisedLoss | SupervisedContrastiveLoss):
            return [narrow]
        narrow.temperature = temperature
        copies.append(narrow)
    return copies


def _finite(loss: Loss, z: Tensor, label: Tensor, bias: Tensor, *, autocast: bool) -> None:
    z.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        value = loss(z.bfloat16() if autocast else z, label, bias)
    (gradient,) = torch.autograd.grad(value, z, allow_unused=True)
    batch = f"for {len(z)} images, autocast {autocast}, temperature {vars(loss).get('temperature')}"
    assert value.dtype == torch.float32, f"the loss is {value.dtype} under autocast"
    assert value.isfinite(), f"the loss is {value} {batch}"
    assert gradient is None or gradient.isfinite().all(), f"the gradient is not finite {batch}"


def _descends(loss: Loss, z: Tensor, label: Tensor, bias: Tensor) -> None:
    free = z.clone().requires_grad_()
    optimizer = torch.optim.Adam([free], lr=0.01)
    first = loss(free, label, bias)
    for _ in range(50):
        optimizer.zero_grad()
        loss(free, label, bias).backward()
        optimizer.step()
    assert loss(free, label, bias) < first, "fifty steps of gradient descent did not lower the loss"
