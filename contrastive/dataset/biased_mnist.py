"""Biased-MNIST: digits on backgrounds whose color correlates with the class.

Construction of Bahng et al. 2020 (ReBias), as in the released code: of the n images of a class, int(n · rho) get the
color of the class; the other r are cut into chunks of ceil(r / 9), one for each of the nine other colors in random
order. The last chunk is short, so some colors may get no image.
"""

import hashlib
import math

import numpy as np
import torch
from torch import Tensor

from contrastive.dataset.digits import resize
from contrastive.dataset.mnist import load_mnist
from contrastive.dataset.splits import channel_stats, first_per_class, name_splits
from contrastive.errors import check_between, check_choice
from contrastive.types import Data, Split

STROKE = 1  # lowest gray value of a stroke
REBIAS = (
    (255, 0, 0),
    (0, 255, 0),
    (0, 0, 255),
    (225, 225, 0),
    (225, 0, 225),
    (0, 255, 255),
    (255, 128, 0),
    (255, 0, 128),
    (128, 0, 255),
    (128, 128, 128),
)
PALETTES = {"barbano": (*REBIAS[:9], (50, 255, 128)), "rebias": REBIAS}  # Barbano et al. 2023 replace the gray
COLOR_NAMES = ("red", "green", "blue", "yellow", "magenta", "cyan", "orange", "pink", "purple", "tenth")
UNBIASED = 0.1  # rho at which every color is about equally frequent: test and validation


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


def assign_colors(label: Tensor, rho: float, rng: np.random.RandomState) -> Tensor:
    """The color (N,) of each image of label (N,) in 0..9, with the random draws of the released code."""
    labels, color = label.numpy(), np.empty(len(label), dtype=np.int64)
    for c in range(10):
        members = np.flatnonzero(labels == c)
        rng.shuffle(members)
        n_aligned = int(len(members) * rho)
        color[members[:n_aligned]] = c
        other_colors = [(c + k) % 10 for k in range(1, 10)]
        rng.shuffle(other_colors)
        conflicting = members[n_aligned:]
        chunk = math.ceil(len(conflicting) / 9)
        for k, other in enumerate(other_colors):
            color[conflicting[k * chunk : (k + 1) * chunk]] = other
    rng.shuffle(np.arange(len(labels)))  # the released code shuffles the dataset here, which advances the generator
    return torch.from_numpy(color)


def color_background(stroke: Tensor, color: Tensor, palette: str) -> Tensor:
    """White strokes (mask (N, H, W) bool) on backgrounds of color (N,): uint8 (N, 3, H, W)."""
    rgb = torch.tensor(PALETTES[palette], dtype=torch.uint8)[color]
    return torch.where(stroke[:, None], torch.tensor(255, dtype=torch.uint8), rgb[:, :, None, None])


def colored_splits(
    train: Split, test: Split, *, rho: float, palette: str, data_seed: int, stroke: int, hold_out: bool, size: int
) -> Data:
    """Colored splits: training at rho, test at 0.1, validation shows its training digits recolored at 0.1.

    Training and test colors come from one generator seeded with data_seed, as in the released code; validation colors
    come from another. The sha256 of the training and test colors is among the facts that a run records.

    Args:
        train: gray digits (N, H, W) uint8.
        test: gray digits (N, H, W) uint8.
        rho: fraction in [0, 1] of the images of a class that have the color of the class.
        palette: a key of PALETTES.
        data_seed: of the assignment of colors to images, in [0, 2³¹).
        stroke: lowest gray value that belongs to the digit.
        size: side in pixels that the colored images are resized to.

    Raises:
        ConfigError: rho, palette or data_seed out of range.
    """
    check_between("dataset.data_seed", data_seed, 0, 2**31 - 1, example=0)
    check_between("dataset.rho", rho, 0, 1, example=0.99)
    check_choice("dataset.colors", palette, PALETTES)
    rng = np.random.RandomState(data_seed)
    color, test_color = assign_colors(train.label, rho, rng), assign_colors(test.label, UNBIASED, rng)
    val_color = assign_colors(train.label, UNBIASED, np.random.RandomState(data_seed + 2**31))

    def paint(gray: Split, color: Tensor) -> Split:
        image = color_background(gray.image >= stroke, color, palette)
        return Split(resize(image, size), gray.label, color)

    colored = paint(train, color)
    digest = hashlib.sha256(color.numpy().tobytes() + test_color.numpy().tobytes()).hexdigest()
    return name_splits(
        colored,
        paint(test, test_color),
        classes=tuple("0123456789"),
        hold_out=hold_out,
        stats=channel_stats(colored.image),
        biases=COLOR_NAMES,
        val_view=paint(train, val_color),
        facts={"bias_map_sha256": digest},
    )
