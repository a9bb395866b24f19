"""The augmentation of SimCLR."""

from contrastive.augmentation.blur import GaussianBlur
from contrastive.augmentation.compose import Compose
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.augmentation.grayscale import Grayscale
from contrastive.augmentation.jitter import ColorJitter


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
