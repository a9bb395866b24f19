"""An augmentation is an ordered set of named operations, such as SimCLR's."""

from collections.abc import Mapping
from typing import cast

from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, Side
from contrastive.augmentation.blur import GaussianBlur
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.augmentation.grayscale import Grayscale
from contrastive.augmentation.jitter import ColorJitter
from contrastive.errors import ConfigError
from contrastive.types import as_float


class Compose:
    """Apply operations one after the other: uint8 or uint16 (B, K, H, W) → float32 (B, K, h, w) in [0, 1].

    `augmentation(x, generator)` draws and applies; `draw` and `apply` are the two halves.

    Args:
        ops: operations by name, in the order of application. None removes a name that a YAML inherits; no operations
            at all means no augmentation.

    Raises:
        ConfigError: an entry is not an `Operation`.
    """

    def __init__(self, *, ops: Mapping[str, Operation | None]) -> None:
        for name, operation in ops.items():
            if not isinstance(operation, Operation | None):
                raise ConfigError(
                    f"augmentation.ops.{name} must be an operation with a _target_, got {operation!r}: try "
                    f"'+augmentation.ops.{name}={{_target_: contrastive.augmentation.solarize.Solarize}}'"
                )
        self.ops = {name: operation for name, operation in ops.items() if operation is not None}

    def __call__(self, x: Tensor, generator: Generator) -> Tensor:
        return self.apply(x, self.draw(len(x), x.shape[-2], x.shape[-1], generator))

    def draw(self, n: int, height: Side, width: Side, generator: Generator) -> dict[str, Parameters]:
        """Draw the parameters of every operation for n images of height × width pixels.

        Images of sizes of their own need a RandomResizedCrop with a `size` as the first operation.
        """
        parameters = {}
        height, width = cast(int, height), cast(int, width)  # tensors get no further than the first operation
        for name, operation in self.ops.items():
            parameters[name] = operation.draw(n, height, width, generator)
            height, width = operation.output_size(height, width)
        return parameters

    def apply(self, x: Tensor, parameters: dict[str, Parameters]) -> Tensor:
        """Apply every operation to uint8 or uint16 images with the parameters drawn for it."""
        x = as_float(x)
        for name, operation in self.ops.items():
            if operation.p > 0:
                x = operation.apply(x, parameters[name])
        return x

    def check_channels(self, n: int) -> None:
        """Raise ConfigError if an operation has no meaning for images of n channels."""
        for operation in self.ops.values():
            operation.check_channels(n)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Size of the views; ConfigError if an operation cannot work on images of the size that reaches it."""
        for operation in self.ops.values():
            height, width = operation.output_size(height, width)
        return height, width

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Compose) and list(self.ops.items()) == list(other.ops.items())

    __hash__ = None  # type: ignore[assignment]  # operations are mutable

    def __repr__(self) -> str:
        return f"Compose(ops={self.ops!r})"


def SimCLR(*, size: int | None = None, strength: float = 0.5, kernel_size: int = 3) -> Compose:
    """Random resized crop with flip, color jitter, grayscale and blur (Chen et al. 2020, appendix A).

    The defaults are configs/augmentation/simclr.yaml, for small images; the paper's ImageNet augmentation is
    `SimCLR(size=224, strength=1.0, kernel_size=23)`. For other numbers compose the operations.

    Args:
        size: side of a view in pixels; None = the side of the image.
        strength: color distortion s in [0, 1]: jitter of (0.8 s, 0.8 s, 0.8 s, 0.2 s).
        kernel_size: of the blur, odd; the paper takes a tenth of the side.

    Raises:
        ConfigError: an argument is out of range.
    """
    strong = 0.8 * strength
    return Compose(
        ops={
            "crop": RandomResizedCrop(size=size),
            "jitter": ColorJitter(brightness=strong, contrast=strong, saturation=strong, hue=0.2 * strength),
            "grayscale": Grayscale(),
            "blur": GaussianBlur(kernel_size=kernel_size),
        }
    )
