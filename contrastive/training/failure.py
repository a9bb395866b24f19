"""Training that broke down: the report of it, failure.json, and what to try."""

import math

import torch
from torch import Tensor, nn

from contrastive.errors import ConfigError
from contrastive.run.directory import RunDirectory
from contrastive.training.loader import Loader
from contrastive.training.step import StepOutput

ADVICE = "try a lower optimizer.lr with another hydra.run.dir=PATH, or precision=fp32"


def stop_at_bad_step(
    run: RunDirectory, loader: Loader, *, epoch: int, batch: int, values: list[list[float]], output: StepOutput
) -> None:
    """Write failure.json and raise.

    Args:
        epoch, batch: the step at fault, from 0. values: [loss, gradient norm] of the steps up to it, from the last
            log line on. output: of the newest step, which comes after the one at fault or is it.

    Raises:
        ConfigError: always, with what to try.
    """
    index = loader.indices(epoch, batch)
    image = loader.split.image[index].float()
    loss, grad_norm = values[-1]
    run.fail({
        "epoch": epoch + 1,
        "batch": batch + 1,
        "step": epoch * len(loader) + batch + 1,
        "loss": [str(value) for value, _ in values],
        "grad_norm": [str(value) for _, value in values],
        "indices": index.tolist(),
        "labels": loader.split.label[index].tolist(),
        "images": statistics(image),
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
