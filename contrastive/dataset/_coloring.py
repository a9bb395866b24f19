"""Color bias: digits on backgrounds whose color mostly gives the class away (Biased-MNIST).

Construction of Bahng et al. 2020 (ReBias), as released: of the n images of a class, int(n · rho) get the class's own
color; the other r are cut into chunks of ceil(r / 9) given to the nine other colors in random order, the last chunk
short, so that some colors may get none.
"""

import hashlib
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from contrastive.dataset._splits import channel_stats, name_splits
from contrastive.errors import ConfigError
from contrastive.types import Data, Split

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
COLOURS = {"rebias": REBIAS, "authors": (*REBIAS[:9], (50, 255, 128))}  # authors: Barbano et al. replace the gray
NAMES = ("red", "green", "blue", "yellow", "magenta", "cyan", "orange", "pink", "purple", "tenth")
UNBIASED = 0.1  # rho at which every color is about as frequent: tests and validation


@dataclass(frozen=True)
class Bias:
    """How strongly and with which colors: rho in [0, 1], a table of COLOURS, and the seed of the map."""

    rho: float
    colors: str
    data_seed: int

    def __post_init__(self) -> None:
        if not isinstance(self.data_seed, int) or not 0 <= self.data_seed < 2**31:
            raise ConfigError(
                f"dataset.data_seed must be a whole number in [0, 2^31), got {self.data_seed}: try dataset.data_seed=0"
            )
        if not 0 <= self.rho <= 1:
            raise ConfigError(
                f"dataset.rho, the share of bias-aligned images, must lie in [0, 1], "
                f"got {self.rho}: try dataset.rho=0.99"
            )
        if self.colors not in COLOURS:
            raise ConfigError(
                f"dataset.colors must be one of {', '.join(COLOURS)}, got {self.colors}: try dataset.colors=authors"
            )


def assign(label: Tensor, rho: float, rng: np.random.RandomState) -> Tensor:
    """The color (N,) of each image of label (N,) 0..9, drawn from the stream as the released code draws it."""
    labels, color = label.numpy(), np.empty(len(label), dtype=np.int64)
    for c in range(10):
        members = np.flatnonzero(labels == c)
        rng.shuffle(members)
        aligned = int(len(members) * rho)
        color[members[:aligned]] = c
        others = [(c + k) % 10 for k in range(1, 10)]
        rng.shuffle(others)
        rest = members[aligned:]
        chunk = math.ceil(len(rest) / 9)
        for k, other in enumerate(others):
            color[rest[k * chunk : (k + 1) * chunk]] = other
    rng.shuffle(np.arange(len(labels)))  # the released code shuffles the whole set here: it moves the stream on
    return torch.from_numpy(color)


def paint(digit: Tensor, color: Tensor, table: str) -> Tensor:
    """White strokes (digit (N, H, W) bool) on a background of color (N,): uint8 (N, 3, H, W)."""
    rgb = torch.tensor(COLOURS[table], dtype=torch.uint8)[color]
    return torch.where(digit[:, None], torch.tensor(255, dtype=torch.uint8), rgb[:, :, None, None])


def colored(
    digit: Tensor, label: Tensor, test_digit: Tensor, test_label: Tensor, bias: Bias, *, hold_out: bool
) -> Data:
    """Colored splits: training at bias.rho, test at 0.1, validation the same digits recolored at 0.1.

    The maps of training and test come from one stream seeded with data_seed, as released; the validation colors from
    another, and their sha256 is among the facts a run records.
    """
    rng = np.random.RandomState(bias.data_seed)
    color, test_color = assign(label, bias.rho, rng), assign(test_label, UNBIASED, rng)
    shown_color = assign(label, UNBIASED, np.random.RandomState(bias.data_seed + 2**31))
    train = Split(paint(digit, color, bias.colors), label, color)
    test = Split(paint(test_digit, test_color, bias.colors), test_label, test_color)
    shown = Split(paint(digit, shown_color, bias.colors), label, shown_color)
    digest = hashlib.sha256(color.numpy().tobytes() + test_color.numpy().tobytes()).hexdigest()
    return name_splits(
        train,
        test,
        classes=tuple("0123456789"),
        hold_out=hold_out,
        stats=channel_stats(train.image),
        biases=NAMES,
        shown=shown,
        facts={"bias_map_sha256": digest},
    )
