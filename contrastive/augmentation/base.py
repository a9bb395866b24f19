"""One operation on images, the augmentation that a training step calls, and the checks and draws of operations."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from contrastive.errors import SettingError, check_between

Parameters = dict[str, Tensor]  # every tensor (n, ...): row i belongs to image i
Side = int | Tensor  # height or width in pixels, of all images alike; or (n,) int64, of each


class Operation(ABC):
    """One random operation on a batch of images, each image with parameters of its own.

    Drawing and applying are separate, so that a test can compare with torchvision on the same parameters and several
    processes can draw for the whole batch. Subclass, write `draw` and `apply`, and name the class in a YAML.
    Constructors raise ConfigError for an argument out of range.
    """

    p: float = 1.0  # the probability that it changes an image; at 0 it is drawn, and not applied

    @abstractmethod
    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        """Draw the parameters of n images of height × width pixels, on the generator's device."""

    @abstractmethod
    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        """Transform images with their parameters; leave x itself unchanged.

        Args:
            x: (B, K, H, W) float32 in [0, 1], of K channels.
            parameters: one draw, B rows, on the device of x.

        Returns:
            (B, K, h, w) float32 in [0, 1], with (h, w) = `output_size(H, W)`.

        Shapes must not depend on values (no boolean indexing, no `.item()`): on a GPU the host would wait for the
        device, and torch.compile would break the graph.
        """

    def check_channels(self, n: int) -> None:  # noqa: B027  most operations treat all channels alike
        """Raise ConfigError if the operation has no meaning for images of n channels."""

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Size of the result for images of height × width pixels.

        Raises:
            ConfigError: the operation cannot work on images of this size.
        """
        return height, width


@runtime_checkable
class Augmentation(Protocol):
    """Map uint8 or uint16 images to float32 views in [0, 1]; `Compose` is one."""

    def draw(self, n: int, height: Side, width: Side, generator: Generator) -> dict[str, Parameters]:
        """Draw the parameters of n images, by name of the operation."""

    def apply(self, x: Tensor, parameters: dict[str, Parameters]) -> Tensor:
        """Map uint8 or uint16 (B, K, H, W) with B rows of parameters to float32 (B, K, h, w) in [0, 1]."""

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Size of the views of images of height × width pixels; ConfigError if the size is impossible."""


def check_probability(key: str, value: float) -> None:
    """Raise ConfigError unless value is a number in [0, 1]."""
    check_between(f"augmentation.ops.{key}", value, 0, 1, example=0.5)


def check_range(key: str, value: Sequence[float], *, most: float, example: str) -> tuple[float, float]:
    """Return value as (low, high); raise ConfigError unless 0 < low ≤ high ≤ most."""
    pair = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if len(pair) != 2 or not all(isinstance(v, int | float) for v in pair) or not 0 < pair[0] <= pair[1] <= most:
        bound = "above 0" if most == float("inf") else f"within (0, {most:g}]"
        raise SettingError(f"augmentation.ops.{key}", f"a range [low,high] {bound}", value, example)
    return pair


def uniform(n: int, low: float, high: float, generator: Generator) -> Tensor:
    """(n,) float32, uniform in [low, high)."""
    return torch.rand(n, generator=generator, device=generator.device) * (high - low) + low


def bernoulli(n: int, p: float, generator: Generator) -> Tensor:
    """(n,) bool, true with probability p."""
    return torch.rand(n, generator=generator, device=generator.device) < p


def separable(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """rows · x · columnsᵀ for every channel: x (B, C, H, W), rows (B, h, H), columns (B, w, W) → (B, C, h, w)."""
    b, c, height, width = x.shape
    x = torch.bmm(x.reshape(b, c * height, width), columns.mT).view(b, c, height, -1)
    return torch.matmul(rows[:, None], x)
