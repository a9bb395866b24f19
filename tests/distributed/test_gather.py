"""gather=True under torch's own DistributedDataParallel: two and four processes against one on the whole batch."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch._dynamo  # so that forked processes have it already
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import contrastive
from contrastive.errors import ConfigError
from contrastive.experiment.make import make
from contrastive.gathering import gather, shard_of
from contrastive.testing.loss import inputs, prepared
from tests.helpers import TERMS

pytestmark = [pytest.mark.slow, pytest.mark.skipif(torch.cuda.is_available(), reason="forked processes inherit no GPU")]
N, D = 12, 6
TWO, QUEUE = {"across": "both"}, {"memory": 1, "memory_label": torch.arange(7) % 4 - 1}
IDS = {"ids": torch.tensor([3, 4, 3, -1, 8, 1, 2, 3, -1, 5, 6, 7]), "memory_ids": torch.arange(7), "memory": 1}
CALLS: list[tuple[str, dict[str, Any]]] = [
    *((f"{group}/{name}", {}) for group, name in TERMS),
    *((f"loss/{name}", TWO) for name in ("nt_xent", "debiased_pos", "sigmoid", "supcon", "dhel", "barlow")),
    *((f"loss/{name}", {**TWO, "keys": 1}) for name in ("nt_xent", "hard_negative")),
    *((f"loss/{name}", QUEUE) for name in ("combination", "soft_supcon")),
    *((f"loss/{name}", {"across": "first", **IDS}) for name in ("nt_xent", "sigmoid")),
]


class Model(nn.Module):
    """A network and the loss of its projections, which may have parameters of its own."""

    def __init__(self, loss: contrastive.Loss) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.loss, self.net = loss, nn.Linear(6, D).double()

    def forward(self, x: Tensor, *rest: Any, **arguments: Any) -> Tensor:
        return self.loss(self.net(x), *rest, **arguments)


def step(name: str, call: dict[str, Any], *, group: Any = None) -> tuple[Any, ...]:
    """Value and gradients of one batch, however many processes share it, each through its own backward pass."""
    part, x, label, bias = shard_of(group).of(N), *inputs(N, 2)
    rng = torch.Generator().manual_seed(3)
    arguments: dict[str, Any] = dict(call)
    if "memory" in call:
        arguments["memory"] = torch.randn(7, D, generator=rng, dtype=torch.float64)
    if "keys" in call:
        arguments["keys"] = torch.randn(N, 2, D, generator=rng, dtype=torch.float64)[part]
    if "ids" in call:
        arguments["ids"] = call["ids"][part]
    model: nn.Module = Model(prepared(make(name), label, bias))
    if dist.is_initialized():
        model = DistributedDataParallel(model, find_unused_parameters=True)
    value = model(x[part], label[part], bias[part], gather=True if group is None else group, **arguments)
    value.backward()
    mean = gather(value.detach()[None], group).mean()
    return mean, [p.grad for p in model.parameters() if p.requires_grad]


def every_call() -> list[tuple[Any, ...]]:
    return [step(name, call) for name, call in CALLS]


@pytest.mark.parametrize("world", [pytest.param(2, marks=pytest.mark.smoke), 4])
def test_value_and_gradient_are_those_of_one_process(together: Callable[..., list[Any]], world: int) -> None:
    alone, shared = every_call(), together(every_call, world)
    for (name, call), (value, gradients), *found in zip(CALLS, alone, *shared, strict=True):
        assert gradients[0] is None or "logits" in name or gradients[0].abs().max() > 1e-9, name
        for their_value, theirs in found:
            message = f"{name} {[*call]}"
            torch.testing.assert_close(their_value, value, rtol=1e-12, atol=1e-13, msg=message)
            for mine, other in zip(gradients, theirs, strict=True):
                other = torch.zeros_like(mine) if other is None and mine is not None else other
                torch.testing.assert_close(other, mine, rtol=1e-10, atol=1e-13, msg=message)


def of_groups() -> list[tuple[Any, ...]]:
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    return [step("loss/debiased_pos", TWO, group=groups[dist.get_rank() // 2])]


def test_a_group_of_processes_is_a_batch_of_its_own(together: Callable[..., list[Any]]) -> None:
    alone = step("loss/debiased_pos", TWO)
    for (found,) in together(of_groups, 4):
        torch.testing.assert_close(found, alone)


def refused_and_set_once() -> tuple[str, str, Tensor, Tensor]:
    sentences = []
    z = torch.randn(3 + dist.get_rank(), 2, D)
    for arguments in ({}, {"anchors": slice(0, 2)}):
        with pytest.raises(ConfigError) as error:
            contrastive.NTXent()(z, gather=True, **arguments)
        sentences.append(str(error.value))
    loss = contrastive.NTXent()
    loss.gather = True
    z = inputs(N, 2)[0][shard_of().of(N)]
    return sentences[0], sentences[1], loss(z), contrastive.NTXent()(z, gather=True)


def test_unequal_batches_and_chosen_anchors_are_refused(together: Callable[..., list[Any]]) -> None:
    for sizes, anchors, once, each in together(refused_and_set_once):
        assert sizes.startswith("gather needs batches of equal size, and the processes have 3, 4: try drop_last=True")
        assert anchors == "gather=True chooses the anchors of each process: try it without anchors"
        assert once == each


def hard_negatives() -> tuple[Tensor, ...]:
    """Hard negatives that each process has found, gathered by the caller."""
    rng, part = torch.Generator().manual_seed(0), shard_of().of(N)
    z, hard = (torch.randn(N, *shape, generator=rng, dtype=torch.float64)[part] for shape in ((2, D), (D,)))
    z, hard = z.requires_grad_(), hard.requires_grad_()
    loss = contrastive.NTXent()(z, across="first", memory=contrastive.gather(hard), gather=True)
    gradients = torch.autograd.grad(loss, (z, hard))
    return gather(loss.detach()[None]).mean(), *(gather(g) / shard_of().world_size for g in gradients)


def test_hard_negatives_of_each_process(together: Callable[..., list[Any]]) -> None:
    alone = hard_negatives()
    for found in together(hard_negatives):
        torch.testing.assert_close(found, alone)


def compiled() -> list[list[Tensor]]:
    z, found = inputs(N, 2)[0][shard_of().of(N)].detach().requires_grad_(), []
    loss = partial(contrastive.NTXent(), gather=True, across="both")
    for term, is_one_graph in ((loss, False), (lambda x: gather(x).square().sum(), True)):
        torch.compiler.reset()
        for own in (torch.compile(term, backend="eager", fullgraph=is_one_graph), term):
            found.append([value := own(z), *torch.autograd.grad(value, z)])
    return found


def test_what_is_compiled_gathers(together: Callable[..., list[Any]]) -> None:
    for found in together(compiled):
        torch.testing.assert_close(found[::2], found[1::2])  # compiled and not
