"""Loss and gradient norm of each step since the last log line, and the stop where training has broken down."""

import math
import time
from typing import Any

import torch
from torch import Tensor, nn

from contrastive.distributed.process import all_reduce_sum, world_size
from contrastive.errors import ConfigError
from contrastive.run.directory import RunDirectory
from contrastive.training.loader import Loader
from contrastive.training.step import StepOutput

ADVICE = "try a lower optimizer.lr with another hydra.run.dir=PATH, or precision=fp32"


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

    def check(
        self, run: RunDirectory, loader: Loader, *, epoch: int, done: int, output: StepOutput, fp16: bool
    ) -> None:
        """Stop at the first step whose loss or gradient is not finite; waits for the device.

        Args:
            epoch, done: batches of this epoch, from 0, so far. output: of the last one.
            fp16: with a loss scaler, for which an infinite gradient only means that it skips the step.

        Raises:
            ConfigError: there is such a step; failure.json describes it.
        """
        if not self.steps:
            return
        values = (all_reduce_sum(torch.stack(self.steps)) / world_size()).tolist()
        for i, (loss, grad_norm) in enumerate(values):
            if not math.isfinite(loss) or not (fp16 or math.isfinite(grad_norm)):
                batch = done - len(values) + i
                _stop(run, loader, epoch=epoch, batch=batch, values=values[: i + 1], output=output)

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


def _stop(
    run: RunDirectory, loader: Loader, *, epoch: int, batch: int, values: list[list[float]], output: StepOutput
) -> None:
    """Write failure.json and raise.

    Args:
        epoch, batch: the step at fault, from 0. values: [loss, gradient norm] of the steps up to it, from the last
            log line on. output: of the newest step, which comes after the one at fault or is it.
    """
    index = loader.indices(epoch, batch)
    loss, grad_norm = values[-1]
    run.fail({
        "epoch": epoch + 1,
        "batch": batch + 1,
        "step": epoch * len(loader) + batch + 1,
        "loss": [str(value) for value, _ in values],
        "grad_norm": [str(value) for _, value in values],
        "indices": index.tolist(),
        "labels": loader.split.label[index].tolist(),
        "images": statistics(loader.split.image[index]),
        "embeddings_of_the_newest_step": {name: statistics(value) for name, value in output.main.outputs.items()},
        "try": ADVICE,
    })  # fmt: skip
    what, value = ("gradient", grad_norm) if math.isfinite(loss) else ("loss", loss)
    raise ConfigError(
        f"the {what} became {value} in epoch {epoch + 1}, batch {batch + 1}; the last checkpoint is kept and "
        f"{run.path / 'failure.json'} describes the batch: {ADVICE}"
    )


def check_weights(run: RunDirectory, modules: dict[str, nn.Module], *, step: int) -> None:
    """Raise ConfigError, after writing failure.json, if a parameter is not finite: it must not reach a checkpoint."""
    named = {f"{key}.{name}": value for key, module in modules.items() for name, value in module.named_parameters()}
    broken = [name for name, value in named.items() if not bool(torch.isfinite(value).all())]
    if broken:
        run.fail({"step": step, "weights": broken, "try": ADVICE})
        raise ConfigError(
            f"{len(broken)} weights, {broken[0]} first, are no longer finite after step {step}; the last checkpoint is "
            f"kept: {ADVICE}"
        )


def statistics(x: Tensor) -> dict[str, str | int]:
    """Minimum, mean and maximum of the finite entries as text, and how many are not finite."""
    x = x.detach().float().flatten()
    finite = x[torch.isfinite(x)]
    values = {name: f"{getattr(finite, name)().item():.6g}" for name in ("min", "mean", "max")} if len(finite) else {}
    return {**values, "entries": len(x), "not_finite": len(x) - len(finite)}
