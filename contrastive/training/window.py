"""Means over the steps since the last log line, kept on the device until they are read."""

import math
import time
from typing import Any

import torch
from torch import Tensor

from contrastive.distributed.process import all_reduce_sum, world_size


class Window:
    """Loss and gradient norm of each step since the last log line.

    Args:
        views_per_step: images that go through the network in a step, for the throughput.
    """

    def __init__(self, views_per_step: int, device: torch.device) -> None:
        self.views_per_step, self.device = views_per_step, device
        self._reset()

    def _reset(self) -> None:
        self.total, self.since = torch.zeros(2, device=self.device), time.perf_counter()
        self.steps: list[Tensor] = []

    def add(self, loss: Tensor, grad_norm: Tensor) -> None:
        self.steps.append(torch.stack([loss, grad_norm]))
        self.total = self.total + self.steps[-1]

    def values(self) -> list[list[float]]:
        """[loss, gradient norm] of each step so far, the mean over processes; waits for the device."""
        if not self.steps:
            return []
        means: list[list[float]] = (all_reduce_sum(torch.stack(self.steps)) / world_size()).tolist()
        return means

    def close(self) -> dict[str, float]:
        """The means over steps and processes; starts the next window."""
        n = len(self.steps)
        loss, grad_norm = (all_reduce_sum(self.total) / (n * world_size())).tolist()
        views_per_s = n * self.views_per_step / (time.perf_counter() - self.since)
        self._reset()
        return {"train/loss": loss, "train/grad_norm": grad_norm, "time/views_per_s": views_per_s}

    def state(self) -> dict[str, Any]:
        """What `load` restores; the sum is stored because adding up in another order would round differently."""
        return {"total": self.total.cpu(), "steps": [step.cpu() for step in self.steps]}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self.total = state["total"].to(self.device)
        self.steps = [step.to(self.device) for step in state["steps"]]


def first_bad_step(values: list[list[float]], *, allow_infinite_gradient: bool) -> int | None:
    """The first step whose loss or gradient is not finite; None if there is none.

    Under fp16 an infinite gradient only means that the scaler skipped the step.
    """
    for i, (loss, grad_norm) in enumerate(values):
        if not math.isfinite(loss) or not (allow_infinite_gradient or math.isfinite(grad_norm)):
            return i
    return None
