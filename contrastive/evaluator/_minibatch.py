"""A linear layer trained by minibatches on augmented images, as published probes are."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contrastive.augmentation.base import Augmentation
from contrastive.errors import ConfigError
from contrastive.evaluator._progress import progress
from contrastive.evaluator.base import FeatureSets
from contrastive.seeding import generator

MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


def linear_layer(dim: int, n_classes: int, *, rng: torch.Generator, device: torch.device) -> nn.Linear:
    """A linear layer with torch's initialization (uniform in ± 1/√dim) drawn from a CPU generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, dim, n_classes, device=device)
    bound = dim**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=rng))
    return layer


def train_linear(
    features: FeatureSets,
    *,
    augmentation: Augmentation | None,
    optimizer: MakeOptimizer,
    lr_factor: Callable[[int], float],
    epochs: int,
    batch_size: int,
    name: str,
) -> Iterator[Tensor]:
    """Train on augmented images of the bank; after each epoch yield the scores (N, C) of the test images.

    Args:
        augmentation: None = the one of the run. lr_factor: epoch (from 0) → factor on the learning rate.
        name: of the evaluator, for the error message.

    Raises:
        ConfigError: there are no images to augment.
    """
    if features.augmented is None:
        raise ConfigError(f"evaluator.{name} augments the training images and got features alone: try evaluator=linear")
    device = features.test.h.device
    rng = generator("cpu", "linear layer")
    layer = linear_layer(features.test.h.shape[1], features.n_classes, rng=rng, device=device)
    update = optimizer(list(layer.parameters()))
    base = [group["lr"] for group in update.param_groups]
    with progress(epochs, name, unit="epoch") as bar:
        for epoch in range(epochs):
            for group, lr in zip(update.param_groups, base, strict=True):
                group["lr"] = lr * lr_factor(epoch)
            train = features.augmented(epoch, augmentation)
            order = torch.randperm(len(train.h), generator=generator("cpu", "probe order", epoch)).to(device)
            for index in order.split(batch_size):
                update.zero_grad()
                F.cross_entropy(layer(train.h[index]), train.label[index]).backward()
                update.step()
            bar.update()
            with torch.no_grad():
                yield layer(features.test.h)


def check_probe(name: str, *, epochs: int, batch_size: int, lr: float) -> None:
    """Raise ConfigError for settings of the evaluator `name` that are out of range."""
    for key, value, least, example in (("epochs", epochs, 1, 100), ("batch_size", batch_size, 1, 512)):
        if not value >= least:
            raise ConfigError(
                f"evaluator.{name}.{key} must be at least {least}, got {value}: try evaluator.{name}.{key}={example}"
            )
    if not 0 < lr < float("inf"):
        raise ConfigError(f"evaluator.{name}.lr must be above 0, got {lr}: try evaluator.{name}.lr=1e-3")
