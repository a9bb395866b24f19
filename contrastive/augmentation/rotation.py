"""Random rotation."""

from dataclasses import dataclass

from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, uniform
from contrastive.augmentation.functional import rotate
from contrastive.errors import ConfigError


@dataclass(kw_only=True)
class RandomRotation(Operation):
    """Rotate about the center: nearest pixel, black outside (defaults of torchvision's RandomRotation).

    Args:
        degrees: in [0, 180]; the angle is uniform in [-degrees, degrees], counterclockwise.

    Raises:
        ConfigError: degrees is out of range.
    """

    degrees: float = 20.0

    def __post_init__(self) -> None:
        if not isinstance(self.degrees, int | float) or not 0 <= self.degrees <= 180:
            raise ConfigError(
                f"augmentation.ops.rotation.degrees must be within [0, 180], got {self.degrees}: "
                "try augmentation.ops.rotation.degrees=20"
            )

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        return {"angle": uniform(n, -self.degrees, self.degrees, generator)}

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        return rotate(x, parameters["angle"])
