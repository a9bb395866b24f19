"""The page of `contrastive look`: a data set and the views that training draws of it, before anything is trained."""

import torch
from torch import Tensor

from contrastive.augmentation.base import Augmentation
from contrastive.augmentation.compose import Compose
from contrastive.config.identity import dataset_name, option_name
from contrastive.config.settings import Settings
from contrastive.experiment.components import build_augmentation, load_data
from contrastive.gallery.images import as_uri, spaced, uris
from contrastive.listing.found import NAMED
from contrastive.report.page import filled
from contrastive.seeding import generator
from contrastive.types import Data, Split, as_float, count_pairs

N_CLASSES, OF_A_CLASS = 20, 5  # classes that show images, and how many
N_IMAGES, N_VIEWS = 8, 8  # augmented images, and views of each
OF_MEAN = 2000  # images at most, that the mean image is of


def look_page(settings: Settings, command: str) -> str:
    """The whole document.

    Args:
        command: that trains on the data.

    Raises:
        ConfigError: the data cannot be read, or the augmentation has no meaning for them.
    """
    augmentation = build_augmentation(settings)
    data, _, _ = load_data(settings.dataset)
    if isinstance(augmentation, Compose):
        augmentation.check_channels(data.n_channels)
    train, found, node = data.pretrain, data.found, settings.dataset
    left_out = found.left_out if found else {}
    height, width = train.image.shape[-2:]
    return filled(
        "look.html",
        charts=None,
        title=dataset_name(option_name(node["_target_"]), node),
        command=command,
        facts=[
            ("images", f"{len(train):,} to train on, {len(data.test):,} to test on"),
            ("each", f"{data.n_channels} × {height} × {width}, {str(train.image.dtype).removeprefix('torch.')}"),
            ("mean", ", ".join(f"{value:.3f}" for value in data.mean)),
            ("deviation", ", ".join(f"{value:.3f}" for value in data.std)),
        ],
        operations=[repr(op) for op in augmentation.ops.values()] if isinstance(augmentation, Compose) else [],
        counts=counts(data),
        by_bias=bias_counts(train, data) if train.bias is not None else [],
        classes=class_images(train, data.classes),
        n_classes=len(data.classes),
        n_shown=N_CLASSES,
        views=views(train, augmentation, settings.seed),
        mean=mean_image(train),
        left_out=[(why, len(names), ", ".join(names[:NAMED])) for why, names in left_out.items()],
        notes=found.notes if found else (),
    )


def counts(data: Data) -> list[list[str]]:
    """Images of each class to train and to test on, as a grid."""
    splits = {"train": data.pretrain.label, "test": data.test.label}
    numbers = [*enumerate(data.classes), (-1, "no label")]
    rows = [(name, [int((label == c).sum()) for label in splits.values()]) for c, name in numbers]
    return [["class", *splits], *([name, *map("{:,}".format, own)] for name, own in rows if any(own))]


def bias_counts(train: Split, data: Data) -> list[list[str]]:
    """Training images of each class (rows) and bias (columns), as a grid."""
    assert train.bias is not None
    n = len(data.classes) + 1  # the last row: no label
    numbers = count_pairs(train.label.cpu() % n, train.bias.cpu(), n, len(data.biases))
    rows = zip([*data.classes, "no label"], numbers.tolist(), strict=True)
    return [["class", *data.biases], *([name, *map("{:,}".format, own)] for name, own in rows if any(own))]


def class_images(train: Split, classes: tuple[str, ...]) -> list[tuple[str, int, list[str]]]:
    """(name, number of training images, some of them) of the first classes, and of the images without a label."""
    named = [*enumerate(classes[:N_CLASSES]), (-1, "no label")]
    rows = [(c, name, (train.label == c).nonzero().squeeze(1)) for c, name in named]
    shown = [(name, own) for c, name, own in rows if c >= 0 or len(own)]
    return [(name, len(own), uris(train, spaced(own, OF_A_CLASS), in_common=True)) for name, own in shown]


def views(train: Split, augmentation: Augmentation, seed: int) -> list[list[str]]:
    """A row for each of some images: the image, and views of it, drawn as a run draws them.

    Of gray images black and white are those of the first of a row: a view that is brighter looks brighter.
    """
    rows = spaced(torch.arange(len(train)), N_IMAGES)
    split, extent = train.for_views(rows.to(train.label.device))
    image = split.image.cpu()
    height, width = image.shape[-2:] if extent is None else extent.repeat(N_VIEWS, 1).unbind(1)
    drawn = augmentation.draw(N_VIEWS * len(rows), height, width, generator("cpu", seed, "augmentation", 0))
    views = augmentation.apply(torch.cat([image] * N_VIEWS), drawn).unflatten(0, (N_VIEWS, len(rows)))
    originals = train.image[rows.to(train.image.device)]
    return [
        [as_uri(shown, like=originals[i : i + 1]) for shown in (originals[i], *views[:, i])] for i in range(len(rows))
    ]


def mean_image(train: Split) -> str:
    """The mean of evenly spaced training images: what all of them share, such as a border, a stamp or a background."""
    rows = spaced(torch.arange(len(train)), OF_MEAN).to(train.image.device)
    total: Tensor = sum(as_float(train.image[part]).sum(0) for part in rows.split(256))  # type: ignore[assignment]
    return as_uri(total / len(rows))
