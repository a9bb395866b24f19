"""Order of the training images in an epoch."""

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.types import Split

MAX_RATIO = 10.0  # a rare image is drawn at most so many times as often as the most common


class Sampler:
    """`sampler(generator)` → (N,) int64, the indices of one epoch in order.

    Args:
        name: `uniform` shuffles. `bias_balanced` draws with replacement with weights 1 / p(b|y), clipped at ten times
            the smallest (Hong & Yang 2021), and needs bias labels.

    Raises:
        ConfigError: bias labels are missing.
    """

    def __init__(self, split: Split, name: str) -> None:
        if name == "bias_balanced" and (split.bias is None or not (split.bias >= 0).all()):
            raise ConfigError(
                "sampler=bias_balanced needs bias labels of every training image, the data lacks them: "
                "try dataset=biased_digits"
            )
        self.n = len(split)
        self.weight = bias_balanced_weights(split) if name == "bias_balanced" else None

    def __call__(self, generator: torch.Generator) -> Tensor:
        if self.weight is None:
            return torch.randperm(self.n, generator=generator)
        return torch.multinomial(self.weight, self.n, replacement=True, generator=generator)


def bias_balanced_weights(split: Split) -> Tensor:
    """(N,) weights 1 / p(b|y), none above ten times the smallest."""
    assert split.bias is not None
    label, bias = split.label.cpu(), split.bias.cpu()
    count = torch.zeros(int(label.max()) + 1, int(bias.max()) + 1, dtype=torch.float64)
    count.index_put_((label, bias), torch.ones((), dtype=torch.float64), accumulate=True)
    weight = count.sum(1)[label] / count[label, bias]
    return weight.clamp(max=MAX_RATIO * weight.min())
