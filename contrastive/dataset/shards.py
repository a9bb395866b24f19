"""Tar shards of any number of images, read where they lie."""

import glob
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor

from contrastive.dataset.shard.index import Index, index_shards
from contrastive.dataset.shard.order import ORDER
from contrastive.dataset.shard.sample import LABEL, NAMED, Fields, Value, choice
from contrastive.dataset.shard.stored import DECODER, StoredImages
from contrastive.dataset.shard.tar import beside, names_of_files
from contrastive.dataset.splits import BY_PLACE, as_data, channel_stats, divided, drawn, stratified
from contrastive.errors import ConfigError, check_at_least
from contrastive.listing.found import CANNOT_BE_READ, Listing, copy_notes, seen_notes
from contrastive.listing.names import name_of, part_of_split, split_of
from contrastive.listing.places import check_root
from contrastive.text import as_typed
from contrastive.types import Data, Split

Column = Literal["label", "bias"]
STATS_SAMPLE = 10_000  # evenly spaced training images that mean and standard deviation are computed from


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
        root: a folder of .tar files, or a pattern: `data/{000..099}.tar`, `data/train-*.tar`. The names of
            shards, or of folders with shards such as `pack` writes, tell the splits: train, val and test.
        val: likewise, of the images that probes are selected on; None = a fixed tenth of the training images.
        test: likewise, of the test images; None = those of val where the names tell such, else a fixed fifth of each
            class, without labels a tenth, at most 10,000 images.
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
    root, size = check_root("shards", root, size, frame)
    fields = Fields(label, bias, image and image.lower().removeprefix("."))
    places = _places(root, val, test)
    indices = {key: index_shards(tars, Path(cache), fields) for key, (_, tars) in places.items()}
    every = _all_of(indices)
    names = {name for index in every for name in index.facts["fields"]}
    if label not in (LABEL, *names):
        raise ConfigError(f"no image has the field {label} in its key.json: {choice('label', label, names)}")
    classes, biases = _values_of(every, "label"), _values_of(every, "bias")
    splits = {}
    for key, found in indices.items():
        images = StoredImages(found, size=size)
        if not len(images):
            raise _none_readable(places[key][0], found)
        own_bias = None if bias is None else _numbers(found, "bias", biases)
        split = Split(cast(Tensor, images), _numbers(found, "label", classes), own_bias, keyed=True)
        splits[key] = _labeled(split, key, places[key][0]) if classes and key != "train" else split
    shown = {key: place for key, (place, _) in places.items()}
    if "test" not in splits:
        whole = splits["train"]
        splits["train"], splits["test"] = map(whole.select, divided(whole.label))
        shown["test"] = drawn(len(splits["test"]), len(whole), BY_PLACE, has_labels=bool(classes))
    content = {key: cast(StoredImages, split.image).content for key, split in splits.items()}
    copies = copy_notes(content, splits)
    train = splits["train"] = replace(splits["train"], frame=frame)
    stats = channel_stats(train.image[torch.arange(0, len(train), max(1, len(train) // STATS_SAMPLE))])
    if labeled is not None:
        splits["train"] = _few_labels(train, labeled)
    class_names, bias_names = _names_of(classes, every[0], "classes.txt"), _names_of(biases, every[0], "biases.txt")
    told = (*_notes(every), *copies)
    return as_data(
        Listing(splits, class_names, bias_names, shown, _left_out(every), told),
        stats=stats,
        facts={"dataset_name": name or name_of(root), "decoder": DECODER, "test_split": shown["test"]},
        hold_out=hold_out,
        images={
            key: f"{ORDER} {size} {''.join(index.facts['digest'] for index in found)}" for key, found in indices.items()
        },
    )


def _none_readable(place: str, found: Sequence[Index]) -> ConfigError:
    why = next((f"{key}: {why}" for index in found for key, why in index.facts["faults"].items()), "there is none")
    return ConfigError(
        f"{place} has no image that can be read ({why}): try names with a single dot, or another dataset.root=PATH"
    )


def _labeled(split: Split, key: str, place: str) -> Split:
    """The images that have a class to be right about."""
    known = split.label >= 0
    if not known.any():
        raise ConfigError(f"{place} has no labels: try without dataset.{key}")
    return split if known.all() else split.select(known)


def _all_of(indices: Mapping[str, Sequence[Index]]) -> list[Index]:
    """The indices of all splits, of which none shares a shard with another."""
    seen = dict[Path, str]()
    for key, index in ((key, index) for key, found in indices.items() for index in found):
        if (other := seen.setdefault(index.shard.resolve(), key)) != key:
            raise ConfigError(f"{index.shard} is a shard of {other} and of {key}: try a dataset.root without it")
    return [index for found in indices.values() for index in found]


def _places(root: str, val: str | None, test: str | None) -> dict[str, tuple[str, list[Path]]]:
    """{train, val, test: its place as it is shown, and its shards}. Those of one folder are divided where the names of
    shards, or of folders with shards, tell several splits."""
    base, found = Path(root), dict[str, tuple[str, list[Path]]]()
    tars = sorted(base.glob("*.tar")) if base.is_dir() else expand(root)
    told = [part_of_split(tar.name) or "train" for tar in tars]
    if base.is_dir() and "train" in told and len({*told}) > 1:
        for split in dict.fromkeys(told):
            own = [tar for tar, name in zip(tars, told, strict=True) if name == split]
            found[split] = f"{own[0]} to {own[-1].name}", own
    elif tars:
        found["train"] = root, tars
    else:
        for folder in (folder for folder in sorted(base.iterdir()) if any(folder.glob("*.tar"))):
            split = split_of(folder.name) or ""
            if split in found and split:
                raise ConfigError(f"{root} has two folders of {split}: try dataset.root={as_typed(folder)}")
            found[split] = str(folder), expand(str(folder))
    if "test" not in found and "val" in found and val is test is None:  # as of folders
        found["test"] = found.pop("val")
    typed = {"val": val, "test": test}
    found |= {split: (place, expand(place)) for split, place in typed.items() if place is not None}
    if "train" not in found:
        deeper = found.get("", ("FOLDER, a folder of .tar files", []))[0]
        raise ConfigError(f"there is no shard {base}/*.tar: try dataset.root={deeper}")
    return {split: found[split] for split in ("train", "val", "test") if split in found}


def expand(pattern: str) -> list[Path]:
    """The tar files of a folder, or of a pattern with {000..099} and *; sorted.

    Raises:
        ConfigError: there is none.
    """
    places = []
    for each in [f"{glob.escape(pattern)}/*.tar"] if Path(pattern).is_dir() else _numbered(pattern):
        if not (found := sorted(glob.glob(each))):
            raise ConfigError(f"there is no shard {each}: try dataset.root=FOLDER, a folder of .tar files")
        places += found
    return [Path(place) for place in places]


def _numbered(pattern: str) -> list[str]:
    """{000..099} written out."""
    match = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if match is None:
        return [pattern]
    low, high = match.groups()
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [each for i in range(int(low), int(high) + 1) for each in _numbered(f"{before}{i:0{len(low)}}{after}")]


def _few_labels(split: Split, n: int) -> Split:
    """The same images with the labels of about n, of each class its share."""
    check_at_least("dataset.labeled", n, 2, example=100_000)
    n_known = int((split.label >= 0).sum())
    if n >= n_known:
        return split
    _, kept = stratified(split.label, n / n_known, "shards", "labeled")
    label = torch.full_like(split.label, -1)
    label[kept] = split.label[kept]
    return replace(split, label=label)


def _values_of(indices: Sequence[Index], column: Column) -> list[Value]:
    """The labels or biases that occur, numbers before words."""
    found = {value for index in indices for value in index.facts[column]}
    return sorted(found, key=lambda value: (isinstance(value, str), value))


def _numbers(indices: Sequence[Index], column: Column, values: Sequence[Value]) -> Tensor:
    """The place of each image's label or bias among the values, (n,) int64; -1 = none."""
    places = {value: i for i, value in enumerate(values)}
    parts = []
    for index in indices:
        here = np.array([*(places[value] for value in index.facts[column]), -1])  # an entry of -1 is the last
        parts.append(here[index.entries[column]])
    return torch.from_numpy(np.concatenate(parts))


def _names_of(values: Sequence[Value], index: Index, file: str) -> tuple[str, ...]:
    """The values as text; numbers by their line, from 0, of a file beside the shards that has one for each."""
    text = (beside(index.shard, file, above=True) or b"").decode(errors="replace")
    lines = [line.strip() for line in text.splitlines()]
    if not all(isinstance(value, int) and 0 <= value < len(lines) for value in values):
        return tuple(map(str, values))
    named = {value: lines[value] for value in values if isinstance(value, int)}
    twice = Counter(named.values())
    return tuple(name if twice[name] == 1 and name else f"{name} {value}".strip() for value, name in named.items())


def _left_out(indices: Sequence[Index]) -> dict[str, list[str]]:
    """{reason: images that are left out}, by the indices alone: no shard is read."""
    found = defaultdict[str, list[str]](list)
    for index in indices:
        files = names_of_files(index.shard) if index.facts["faults"] else {}
        for key, why in index.facts["faults"].items():
            found[CANNOT_BE_READ].append(f"{files.get(key, key)} in {index.shard.name}: {why}")
    return found


def _notes(indices: Sequence[Index]) -> list[str]:
    """What became of images, and where labels could be from."""
    fields = sorted({name for index in indices for name in index.facts["fields"]})
    notes = seen_notes([index.facts["seen"] for index in indices], sum(len(index.entries) for index in indices))
    if fields and not _values_of(indices, "label"):
        notes.append(f"no image has a label; dataset.label=FIELD takes one of {', '.join(fields[:NAMED])}")
    return notes
