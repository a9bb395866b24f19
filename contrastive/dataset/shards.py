"""Tar shards of any number of images, read where they lie."""

import glob
import hashlib
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from tqdm import tqdm

from contrastive.dataset.folder.decode import check_frame
from contrastive.dataset.folder.layout import LEAST_TEST, TEST_FRACTION, warn_left_out
from contrastive.dataset.shard.images import DECODER, StoredImages
from contrastive.dataset.shard.index import Fields, Index, index_shards
from contrastive.dataset.shard.order import ORDER, Order
from contrastive.dataset.shard.store import GAP, Shard, is_url, look_up, matching
from contrastive.dataset.splits import channel_stats, name_splits, stratified
from contrastive.errors import ConfigError, check_at_least, check_choice
from contrastive.seeding import generator
from contrastive.types import Data, Split, Windows

USUAL_SIZE = 32
STATS_SAMPLE = 10_000  # evenly spaced training images that mean and standard deviation are computed from
MOST_TEST = 10_000  # of the images held out where no shards are named for the test
SPACING = 8  # rows between two images of a batch of 256 in a window of 2048
ADVICE = (
    "each of these small images is a request of its own; of shards whose rows are shuffled one request reads many: "
    "try dataset.chunk=256 dataset.window=2048"
)
MIXED = 0.8  # share of the classes of a uniform batch, below which an order is said to mix badly


def shards(
    *,
    root: str | None = None,
    val: str | None = None,
    test: str | None = None,
    size: int | None = None,
    frame: int | None = None,
    name: str | None = None,
    label: str = "label",
    bias: str | None = None,
    labeled: int | None = None,
    chunk: int = 1,
    window: int = 131_072,
    on_damage: str = "stop",
    hold_out: bool = False,
    cache: str = "data/cache",
) -> Data:
    """Tar shards in WebDataset's layout: key.jpg with key.cls or key.json beside it, on a disk or in an object store.

    The first start indexes each shard once, in all processes of the run; images are then read, checked and decoded as
    steps need them. They become RGB of one size as in `image_folder`. What is no image is left out by the index, and
    named. Mean and standard deviation are those of 10,000 evenly spaced training images.

    Args:
        root: a folder of .tar files, or a pattern: `data/{000..099}.tar`, `data/train-*.tar`; or the same of a URL,
            s3://bucket/..., gs://, az:// or https://, read through obstore.
        val: likewise, of the images that probes are selected on; None = a fixed tenth of the training images.
        test: likewise, of the test images; None = a fixed tenth of the rows, at most 10,000, left out of the training.
        size: side of the images in pixels.
        frame: training crops its views from whole images in frames of so many pixels, see `Split.for_views`, as
            published ImageNet protocols do; 512 leaves most of ImageNet unshrunk. Evaluation crops the center. None =
            views are of the cropped center, too.
        name: of the dataset, recorded by the run; None = the name of the folder.
        label: field of key.json with the label, a whole number, where there is no key.cls; without either it is -1.
        bias: field of key.json with the bias, a whole number from 0; None = no bias labels.
        labeled: keep the labels of about so many training images alone, a fixed draw from each class, so that bank,
            probes and validation are as small; None = all. Training without labels uses all images as before.
        chunk: rows that are shuffled as one; 1 = single rows, for a local disk.
        window: rows that are shuffled together, if chunk is above 1.
        on_damage: of an image whose bytes have changed: `stop`, or `replace` by the next one of its label and bias.
        hold_out: leave the validation tenth out of `pretrain`.
        cache: folder for the indices of shards that have none beside them.

    Shapes: images (N, 3, size, size).

    Raises:
        ConfigError: root or size is missing, no shard is found, a shard cannot be read, or a setting is out of range.
    """
    if root is None or size is None:
        raise ConfigError(
            "dataset=shards needs its tar files and the side of the images in pixels: "
            f"try dataset.root={root or 'FOLDER'} dataset.size={size or USUAL_SIZE}"
        )
    check_at_least("dataset.size", size, 1, example=USUAL_SIZE)
    check_frame(frame, size)
    check_at_least("dataset.chunk", chunk, 1, example=256)
    check_at_least("dataset.window", window, chunk, example=512 * chunk)
    check_choice("dataset.on_damage", on_damage, ("stop", "replace"))
    fields, windows = Fields(label, bias), Windows(chunk, window)
    read = partial(_split, cache=Path(cache), fields=fields, size=size, on_damage=on_damage, windows=windows)
    train, digest = read(root)
    if is_url(root) and chunk == 1 and cast(StoredImages, train.image).mean_length <= GAP / SPACING:
        tqdm.write(f"{root}: {ADVICE}")
    if test is None:
        (train, tested), test_digest = _with_test(train), ""
    else:
        tested, test_digest = read(test)
    train = replace(train, frame=frame)
    own_val, *val_digest = (None,) if val is None else read(val)
    folder = Path(root).parent if Path(root).suffix == ".tar" else Path(root)
    key = (digest, test_digest, ORDER, chunk, window, size, labeled, hold_out, *val_digest)
    return _named(
        train,
        own_val,
        tested,
        labeled=labeled,
        hold_out=hold_out,
        facts={
            "dataset_name": name or folder.resolve().name,
            "decoder": DECODER,
            "test_split": test or f"a fixed draw of {len(tested):,} images of {root}",
        },
        digest=hashlib.sha256(repr(key).encode()).hexdigest(),
    )


def _split(
    pattern: str, cache: Path, fields: Fields, *, size: int, on_damage: str, windows: Windows
) -> tuple[Split, str]:
    """The images and labels of the shards of a pattern, and the hash of their bytes."""
    found = index_shards(expand(pattern), cache, fields)
    for index in found:
        for key, why in index.faults.items():
            warn_left_out(f"{index.shard}: {key}", why)
    images = StoredImages(found, size=size, on_damage=on_damage)
    if not len(images):
        raise ConfigError(f"{pattern} has no image that can be read: try another dataset.root=PATH")
    label, bias = _column(found, "label"), None if fields.bias is None else _column(found, "bias")
    return Split(images.as_tensor(), label, bias, windows=windows), "".join(index.digest for index in found)


def _column(found: list[Index], key: str) -> Tensor:
    return torch.cat([torch.from_numpy(index.entries[key].astype("int64")) for index in found])


def expand(pattern: str) -> list[Shard]:
    """The tar files of a folder, or of a pattern with {000..099} and *, on a disk or below a URL; sorted.

    Raises:
        ConfigError: there is none.
    """
    if Path(pattern).is_dir():
        pattern = f"{glob.escape(pattern)}/*.tar"
    places = []
    for each in _numbered(pattern):
        found = matching(each) if is_url(each) else sorted(glob.glob(each))
        if not found:
            raise ConfigError(f"there is no shard {each}: try dataset.root=FOLDER, a folder of .tar files")
        places += found
    return look_up(places)


def _numbered(pattern: str) -> list[str]:
    """{000..099} written out."""
    match = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if match is None:
        return [pattern]
    low, high = match.groups()
    numbers = (f"{i:0{len(low)}}" for i in range(int(low), int(high) + 1))
    return [
        each for number in numbers for each in _numbered(pattern[: match.start()] + number + pattern[match.end() :])
    ]


def _with_test(split: Split) -> tuple[Split, Split]:
    """Training and test images, a fixed draw of a tenth, at most 10,000."""
    n = len(split)
    n_test = min(MOST_TEST, max(LEAST_TEST, round(TEST_FRACTION * n)))
    held_out = torch.zeros(n, dtype=torch.bool)
    held_out[torch.randperm(n, generator=generator("cpu", "shards", "test"))[:n_test]] = True
    return split.select(~held_out), split.select(held_out)


def _named(
    train: Split,
    val: Split | None,
    test: Split,
    *,
    labeled: int | None,
    hold_out: bool,
    facts: dict[str, str],
    digest: str,
) -> Data:
    """The dataset of these splits, whose classes and biases are the numbers that occur."""
    splits = [split for split in (train, val, test) if split is not None]
    n_classes = 1 + int(torch.cat([split.label for split in splits]).max())
    biases = [split.bias for split in splits if split.bias is not None]
    n_biases = 1 + int(torch.cat(biases).max()) if biases else 0
    assert train.windows is not None
    if n_classes and train.windows.chunk > 1:
        warn_of_mixing(train.label, train.windows)
    sample = train.image[torch.arange(0, len(train), max(1, len(train) // STATS_SAMPLE))]
    return name_splits(
        train if labeled is None else _few_labels(train, labeled),
        test,
        classes=tuple(map(str, range(n_classes))),
        hold_out=hold_out and n_classes > 0,
        stats=channel_stats(sample),
        biases=tuple(map(str, range(n_biases))),
        own_val=val,
        facts=facts,
        digest=digest,
    )


def _few_labels(split: Split, n: int) -> Split:
    """The same images with the labels of about n, of each class its share."""
    check_at_least("dataset.labeled", n, 2, example=100_000)
    n_known = int((split.label >= 0).sum())
    if n >= n_known:
        return split
    _, kept = stratified(split.label, n / n_known, "shards", "labeled")
    if torch.unique(split.label[kept], return_counts=True)[1].min() < 2:
        raise ConfigError(
            f"dataset.labeled={n} leaves one image of some class, too few to hold one out for validation: "
            f"try dataset.labeled={2 * n}"
        )
    label = torch.full_like(split.label, -1)
    label[kept] = split.label[kept]
    return replace(split, label=label)


def warn_of_mixing(label: Tensor, windows: Windows, batch: int = 256) -> None:
    """Say so where the first batch of an order has far fewer classes than a uniform one."""
    batch = min(batch, len(label))
    here = len(label[Order(len(label), windows, "mixing").rows(0, batch)].unique())
    rows = torch.randint(len(label), (batch,), generator=generator("cpu", "mixing"))
    uniform = len(label[rows].unique())
    if here < MIXED * uniform:
        tqdm.write(
            f"warning: a batch of {batch} has {here} classes in this order and {uniform} in a uniform one, which makes "
            "false negatives: try dataset.chunk=1, or contrastive pack, which shuffles the rows"
        )
