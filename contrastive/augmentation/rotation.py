"""Random rotation."""

from dataclasses import dataclass

from torch import Generator, Tensor

from contrastive.augmentation.base import Operation, Parameters, uniform
from contrastive.augmentation.functional import rotate
from contrastive.errors import check_between


@dataclass(kw_only=True)
class RandomRotation(Operation):
    """Rotate about the center: nearest pixel, black outside (defaults of torchvision's RandomRotation).

    Args:
        degrees: in [0, 180]; the angle is uniform in [-degrees, degrees], counterclockwise.
    """

    degrees: float = 20.0

    def __post_init__(self) -> None:
        check_between("augmentation.ops.rotation.degrees", self.degrees, 0, 180, example=20)

    def draw(self, n: int, height: int, width: int, generator: Generator) -> Parameters:
        return {"angle": uniform(n, -self.degrees, self.degrees, generator)}

    def apply(self, x: Tensor, parameters: Parameters) -> Tensor:
        return rotate(x, parameters["angle"])
