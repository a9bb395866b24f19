"""Tar shards of any number of images, read where they lie."""

import glob
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

from contrastive.dataset.folder.decode import check_frame
from contrastive.dataset.folder.layout import LEAST_TEST, TEST_FRACTION
from contrastive.dataset.shard.contents import check_label, left_out, names_of, notes, numbers, values_of
from contrastive.dataset.shard.images import DECODER, StoredImages
from contrastive.dataset.shard.index import Index, index_shards
from contrastive.dataset.shard.order import ORDER
from contrastive.dataset.shard.sample import LABEL, Fields
from contrastive.dataset.splits import as_data, channel_stats, stratified
from contrastive.errors import ConfigError, check_at_least
from contrastive.listing.found import Listing, copy_notes
from contrastive.listing.names import SPLITS, name_of, part_of_split, split_of
from contrastive.seeding import generator
from contrastive.text import as_typed
from contrastive.types import Data, Split

USUAL_SIZE = 32
STATS_SAMPLE = 10_000  # evenly spaced training images that mean and standard deviation are computed from
MOST_TEST = 10_000  # of the images held out where no shards are named for the test


def shards(
    *,
    root: str | None = None,
    val: str | None = None,
    test: str | None = None,
    size: int | None = None,
    frame: int | None = None,
    name: str | None = None,
    image: str | None = None,
    label: str = LABEL,
    bias: str | None = None,
    labeled: int | None = None,
    hold_out: bool = False,
    cache: str = "data/cache",
) -> Data:
    """Tar shards in WebDataset's layout: key.jpg with key.cls or key.json beside it.

    The first start reads and decodes each shard once, in all processes of the run, and leaves out what is no image or
    is broken; images are then read, checked and decoded as steps need them. They become RGB of one size as in
    `image_folder`. Mean and standard deviation are those of 10,000 evenly spaced training images.

    The labels that occur are the classes: numbers, or words. Numbers are named by the lines of classes.txt, as `pack`
    writes it, if it lies beside the shards; biases by those of biases.txt.

    Args:
        root: a folder of .tar files, or a pattern: `data/{000..099}.tar`, `data/train-*.tar`. Of a folder that
            `pack` wrote train/, val/ and test/ are the splits.
        val: likewise, of the images that probes are selected on; None = a fixed tenth of the training images.
        test: likewise, of the test images; None = a fixed tenth of the rows, at most 10,000, left out of the training.
        size: side of the images in pixels.
        frame: training crops its views from whole images in frames of so many pixels, see `Split.for_views`, as
            published ImageNet protocols do; 512 leaves most of ImageNet unshrunk. Evaluation crops the center. None =
            views are of the cropped center, too.
        name: of the dataset, recorded by the run; None = the name of the folder, of S/train that of S.
        image: suffix of the image, where a key has several: `jpg`; None = each key has one.
        label: field of key.json with the label, a whole number or a word; `folder` is the folder of the image within
            the tar. Where it is `label`, key.cls comes first. An image without it, or with -1, has no label.
        bias: field of key.json with the bias, likewise; every image has one. None = no bias labels.
        labeled: keep the labels of about so many training images alone, a fixed draw from each class, so that bank,
            probes and validation are as small; None = all. Training without labels uses all images as before.
        hold_out: leave the validation tenth out of `pretrain`.
        cache: folder for the indices of shards that have none beside them.

    Shapes: images (N, 3, size, size).

    Raises:
        ConfigError: root or size is missing, no shard is found, a shard cannot be read or is not what it seems, no
            image has the field of the label, or a setting is out of range.
    """
    if root is None or size is None:
        raise ConfigError(
            "dataset=shards needs its tar files and the side of the images in pixels: "
            f"try dataset.root={root or 'FOLDER'} dataset.size={size or USUAL_SIZE}"
        )
    check_at_least("dataset.size", size, 1, example=USUAL_SIZE)
    check_frame(frame, size)
    fields = Fields(label, bias, image and image.lower().removeprefix("."))
    places = _places(root, val, test)
    indices = {key: index_shards(expand(place), Path(cache), fields) for key, place in places.items()}
    every = _all_of(indices)
    check_label(label, every)
    classes, biases = values_of(every, "label"), values_of(every, "bias")
    splits = {}
    for key, found in indices.items():
        images = StoredImages(found, size=size).as_tensor()
        if not len(images):
            raise _none_readable(places[key], found)
        own_bias = None if bias is None else numbers(found, "bias", biases)
        split = Split(images, numbers(found, "label", classes), own_bias, keyed=True)
        splits[key] = _labeled(split, key, places) if classes and key != "train" else split
    if "test" not in splits:
        splits["train"], splits["test"] = _with_test(splits["train"])
        places["test"] = f"a fixed draw of {len(splits['test']):,} images of {places['train']}"
    content = {key: cast(StoredImages, split.image).content for key, split in splits.items()}
    copies = copy_notes(content, {key: split.label for key, split in splits.items()})
    train = splits["train"] = replace(splits["train"], frame=frame)
    stats = channel_stats(train.image[torch.arange(0, len(train), max(1, len(train) // STATS_SAMPLE))])
    if labeled is not None:
        splits["train"] = _few_labels(train, labeled)
    names, of_biases = names_of(classes, every[0], "classes.txt"), names_of(biases, every[0], "biases.txt")
    return as_data(
        Listing(splits, names, of_biases, places, left_out(every), (*notes(every, names), *copies)),
        stats=stats,
        facts={"dataset_name": name or name_of(root), "decoder": DECODER, "test_split": places["test"]},
        hold_out=hold_out,
        digest=_digest(indices, size, labeled, hold_out),
    )


def _none_readable(place: str, found: Sequence[Index]) -> ConfigError:
    why = next((f"{key}: {why}" for index in found for key, why in index.faults.items()), "there is none")
    return ConfigError(
        f"{place} has no image that can be read ({why}): try names with a single dot, or another dataset.root=PATH"
    )


def _labeled(split: Split, key: str, places: Mapping[str, str]) -> Split:
    """The images that have a class to be right about."""
    known = split.label >= 0
    if not known.any():
        raise ConfigError(f"{places[key]} has no labels: try without dataset.{key}")
    return split if known.all() else split.select(known)


def _all_of(indices: Mapping[str, Sequence[Index]]) -> list[Index]:
    """The indices of all splits, of which none shares a shard with another."""
    seen = dict[str, str]()
    for key, found in indices.items():
        for index in found:
            shard = str(Path(str(index.shard)).resolve())
            if (other := seen.setdefault(shard, key)) != key:
                raise ConfigError(f"{shard} is a shard of {other} and of {key}: try a dataset.root without it")
    return [index for found in indices.values() for index in found]


def _places(root: str, val: str | None, test: str | None) -> dict[str, str]:
    """{train, val, test: its shards}. A folder without shards whose folders are splits is all of them."""
    base = Path(root)
    own = {"train": root}
    if base.is_dir() and not any(base.glob("*.tar")):
        within = [(split, path) for path in sorted(base.iterdir()) if (split := split_of(path.name))]
        found = [(split, path) for split, path in within if any(path.glob("*.tar"))]
        own |= {split: str(path) for split, path in found}
        if len(dict(found)) < len(found):
            names = " and ".join(f"{path.name}/" for split, path in found if [s for s, _ in found].count(split) > 1)
            raise ConfigError(f"{root} has {names} for one split: try dataset.root={as_typed(found[0][1])}")
    typed = {"val": val, "test": test}
    return own | {split: place for split, place in typed.items() if place is not None}


def _digest(indices: Mapping[str, list[Index]], *settings: object) -> str:
    """A hash of all that the images, their labels and their order are made of."""
    digests = {key: "".join(index.digest for index in found) for key, found in indices.items()}
    return hashlib.sha256(repr((digests, ORDER, *settings)).encode()).hexdigest()


def expand(pattern: str) -> list[Path]:
    """The tar files of a folder, or of a pattern with {000..099} and *; sorted.

    Raises:
        ConfigError: there is none.
    """
    base = Path(pattern)
    if base.is_dir():
        _check_one_split(base)
        pattern = f"{glob.escape(pattern)}/*.tar"
    places = []
    for each in _numbered(pattern):
        found = sorted(glob.glob(each))
        if not found:
            deeper = sorted(base.glob("*/*.tar")) if base.is_dir() else []
            there = deeper[0].parent if deeper else "FOLDER, a folder of .tar files"
            raise ConfigError(f"there is no shard {each}: try dataset.root={there}")
        places += found
    return [Path(place) for place in places]


def _check_one_split(folder: Path) -> None:
    """Refuse shards that are called after several splits: all of them would be training images."""
    one = {split: path for path in sorted(folder.glob("*.tar")) if (split := part_of_split(path.name))}
    first = {split: one[split] for split in SPLITS if split in one}
    if len(first) < 2:
        return
    key = {"train": "root", "val": "val" if "test" in first else "test", "test": "test"}
    words = []
    for split, path in first.items():
        pattern = re.sub(f"({'|'.join(SPLITS[split])}).*", r"\1*.tar", path.name, flags=re.IGNORECASE)
        words.append(f"'dataset.{key[split]}={folder / pattern}'")
    raise ConfigError(f"{folder} has shards of {' and of '.join(first)}: try {' '.join(words)}")


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
    """Training and test images, a fixed draw of a tenth, at most 10,000; of labeled ones where there are such."""
    labeled = split.label >= 0
    rows = (labeled if labeled.any() else ~labeled).nonzero().squeeze(1)
    n_test = min(MOST_TEST, max(LEAST_TEST, round(TEST_FRACTION * len(rows))))
    held_out = torch.zeros(len(split), dtype=torch.bool)
    held_out[rows[torch.randperm(len(rows), generator=generator("cpu", "shards", "test"))[:n_test]]] = True
    return split.select(~held_out), split.select(held_out)


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
