"""LARS, the optimizer of SimCLR for large batches."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from contrastive.errors import check_above, check_at_least, check_between


class LARS(Optimizer):
    """SGD that scales each step by the norm of its tensor (You et al. 2017, as in google-research/simclr).

        g ← g + weight_decay w,  r = η |w| / |g| (1 if either is 0),  v ← momentum v + lr r g,  w ← w - v

    Biases and norm parameters (tensors of one dimension or less) are neither decayed nor scaled: r = 1. With nesterov
    the step is momentum v + lr r g. Norms stay on the device, so no step waits for the host.

    Args:
        params: parameters.
        lr: at least 0.
        momentum: in [0, 1).
        weight_decay: at least 0.
        trust_coefficient: η > 0.

    Raises:
        ConfigError: an argument out of range.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        *,
        lr: float = 1.0,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        trust_coefficient: float = 1e-3,
        nesterov: bool = False,
    ) -> None:
        check_at_least("optimizer.lr", lr, 0, example=1.0)
        check_between("optimizer.momentum", momentum, 0, 1, exclude=(1,), example=0.9)
        check_at_least("optimizer.weight_decay", weight_decay, 0, example=1e-4)
        check_above("optimizer.trust_coefficient", trust_coefficient, 0, example=0.001)
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, {**defaults, "trust_coefficient": trust_coefficient})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            trained = [p for p in group["params"] if p.grad is not None]
            for adapt in (True, False):
                self._update([p for p in trained if (p.dim() > 1) == adapt], group, adapt=adapt)
        return loss

    def _update(self, params: list[Tensor], group: dict[str, Any], *, adapt: bool) -> None:
        if not params:
            return
        grads = [p.grad for p in params if p.grad is not None]
        for p in params:
            if "momentum_buffer" not in self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        velocity = [self.state[p]["momentum_buffer"] for p in params]
        if adapt:
            grads = list(torch._foreach_add(grads, params, alpha=group["weight_decay"]))
            w, g = (torch.stack(torch._foreach_norm(x)) for x in (params, grads))
            ratio = torch.where((w > 0) & (g > 0), group["trust_coefficient"] * w / g.clamp(min=1e-38), 1.0)
            grads = list(torch._foreach_mul(grads, list(ratio.unbind())))
        lr = group["lr"]
        if isinstance(lr, Tensor):  # it stays on the device: no step waits for the host
            grads, lr = list(torch._foreach_mul(grads, lr)), 1.0
        torch._foreach_mul_(velocity, group["momentum"])
        torch._foreach_add_(velocity, grads, alpha=lr)
        if group["nesterov"]:
            torch._foreach_add_(params, velocity, alpha=-group["momentum"])
            torch._foreach_add_(params, grads, alpha=-lr)
        else:
            torch._foreach_sub_(params, velocity)
