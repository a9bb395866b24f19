"""Biased-MNIST."""

from contrastive.dataset.coloring import check_bias, colored_splits
from contrastive.dataset.mnist import load_mnist
from contrastive.dataset.splits import first_per_class
from contrastive.errors import check_between
from contrastive.types import Data

STROKE = 1  # lowest gray value of a stroke


def biased_mnist(
    *,
    root: str = "data",
    size: int = 28,
    per_class: int | None = None,
    rho: float = 0.99,
    colors: str = "barbano",
    data_seed: int = 0,
    hold_out: bool = False,
) -> Data:
    """MNIST on colored backgrounds (Bahng et al. 2020, §4.2), 28 × 28 pixels; bias labels are the ten colors.

    A pixel that is not 0 becomes white, a pixel that is 0 the background's color.

    Args:
        root: folder that holds MNIST; downloaded into it when missing.
        size: side of the images in pixels, 4 to 256; other than 28 they are resized with antialiasing once colored.
        per_class: train on the first digits of each class only, at least 2, of which rho have the color of the class;
            None = all.
        rho: fraction in [0, 1] of the training images of a class that have the color of the class (0.999, 0.997,
            0.995, 0.99 in the papers); the test images have 0.1, and validation shows its digits recolored at 0.1.
        colors: `barbano` (Barbano et al. 2023) or `rebias` (Bahng et al. 2020: gray as the tenth color).
        data_seed: fixes, together with rho, the color of each image.
        hold_out: leave the validation tenth out of `pretrain`.

    Raises:
        ConfigError: an argument out of range, or MNIST is missing and cannot be downloaded.
    """
    check_between("dataset.size", size, 4, 256, example=14)
    check_bias(rho, colors, data_seed)
    train, test = load_mnist(root)
    return colored_splits(
        first_per_class(train, per_class),
        test,
        rho=rho,
        palette=colors,
        data_seed=data_seed,
        stroke=STROKE,
        hold_out=hold_out,
        size=size,
    )
