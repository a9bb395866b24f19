"""Any folder of images, with or without labels."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from contrastive.dataset.folder.layout import Part, find_images
from contrastive.dataset.folder.pixels import content_in, kind_of, read_images, told
from contrastive.dataset.folder.table import read_table
from contrastive.dataset.splits import as_data, first_per_class, long_tail
from contrastive.errors import ConfigError
from contrastive.listing.found import Listing, copy_notes
from contrastive.listing.places import check_root
from contrastive.types import Data, Split

SPLITS_EXAMPLE = "'dataset.splits={extra: train, id_val: null}'"


def image_folder(
    *,
    root: str | None = None,
    size: int | None = None,
    name: str | None = None,
    unlabeled: str | None = None,
    per_class: int | None = None,
    imbalance: float | None = None,
    table: str | None = None,
    columns: dict[str, str | None] | None = None,
    splits: dict[str, str | None] | None = None,
    channels: int | None = None,
    hold_out: bool = False,
    cache: str = "data/cache",
) -> Data:
    """Images of a folder, decoded once into a file that is mapped into memory.

    With labels: root/train/<class>/*, root/test/<class>/* and, if there are any, root/val/<class>/*, which probes are
    selected on; without test/ they are the test images (ImageNet). The words may be spelled otherwise: Train,
    training_set, valid. Classes are the folder names under train/, sorted. With root/<class>/* alone a fixed fifth of
    each class, at most 10,000 images, chosen by the names of the files, is the test split. Without labels:
    root/train/all/*, root/train/* or root/*; test images are those below test/ or val/ or, if there are none, a fixed
    tenth, chosen alike. Then the labels are -1 and there are no classes and no validation images.

    `found` of the data tells what was taken from where, and what was left out: folders and files of tools (__MACOSX,
    ._*), files whose suffix is none of an image, and images that cannot be read.

    Images of 8 bits become RGB: any mode is accepted, transparency is put on black. Gray of 16 bits keeps its 16 bits
    and one channel; arrays (.npy) of uint8 or uint16 and TIFF of many bands (by the package tifffile) keep their
    channels. All images are of one kind: RGB where some are, else that of most. The shorter side is resized to `size`
    and the center cropped. Mean and std are those of the training images. The decoded images may be larger than memory.

    While no file's path, size or modification time changes, a later start reads no image. A file rewritten with the
    same size and within one tick of the file system's clock is therefore not noticed: touch it, or delete `cache`.

    Args:
        root: the folder.
        size: side of the images in pixels.
        name: of the dataset, recorded by the run; None = the name of the folder.
        unlabeled: a folder of further training images without labels, which no probe uses; None = none.
        per_class: train on the first images of each class, by name or as the table has them, at least 2; None = all.
            Mean and std remain those of all training images. Images without a label all stay.
        imbalance: make the training images a long tail, the first class by name with so many times the images of the
            last (see `splits.long_tail`), at least 1; None = as they are. Images without a label all stay.
        table: a CSV file in the folder that tells path, split, label and bias of each image, as WILDS writes it, in
            place of class folders; None = class folders. If it has a validation split, probes are selected on that and
            fitted on all training images.
        columns: names of its columns, as {bias: place}; what is not named is called as in Waterbirds: img_filename,
            split, y, place. {bias: null} = no bias labels; {split: null} = a fixed fifth of each class is tested, of
            {group: patient} no patient is also trained on; with a split column they are counted.
        splits: {word: train, val, test or null} for words of the split column, or folders, that are not understood
            alone; null leaves their images out: {id_val: null, holdout: test}.
        channels: of every image: 1 makes gray of 8-bit images, 3 makes RGB of 16-bit gray; None = as the files have
            them.
        hold_out: leave the validation tenth out of `pretrain`, which is then copied into memory.
        cache: folder for the decoded images.

    Shapes: images (N, K, size, size) of K channels.

    Raises:
        ConfigError: root or size is missing (the sentence says what else is wrong with the folder), a folder is missing
            or empty, test/ has a class that train/ lacks, the table cannot be read or lacks a column, per_class is
            below 2 or imbalance below 1, or the disk of `cache` is too small.
    """
    root, size = check_root("image_folder", root, size)
    listed = listed_images(Path(root), unlabeled=unlabeled, table=table, columns=columns, splits=splits)
    images = read_images(listed.splits, size, Path(cache), channels)
    facts = {key: own for key, (_, own) in images.items()}
    kind, content = kind_of(facts["train"]), {key: content_in(own) for key, own in facts.items()}
    parts = told(listed, facts, [f"each image: {kind}"])
    copies = copy_notes(content, parts.splits, {key: part.names for key, part in parts.splits.items()})
    taken = {key: _split(part, images[key][0]) for key, part in parts.splits.items()}
    if listed.classes:
        taken["train"] = long_tail(first_per_class(taken["train"], per_class), imbalance)
    found = Listing(taken, listed.classes, listed.biases, listed.places, parts.left_out, (*parts.notes, *copies))
    return as_data(
        found,
        stats=(tuple(facts["train"]["mean"]), tuple(facts["train"]["std"])),
        facts={"dataset_name": name or Path(root).resolve().name, "test_split": found.places["test"]},
        hold_out=hold_out,
        images={key: f"{size} {kind} {hashlib.sha256(own.data).hexdigest()}" for key, own in content.items()},
    )


def listed_images(
    base: Path,
    *,
    unlabeled: str | None = None,
    table: str | None = None,
    columns: Mapping[str, str | None] | None = None,
    splits: Mapping[str, str | None] | None = None,
) -> Listing[Part]:
    """What a folder holds; arguments and errors as in `image_folder`."""
    if table is not None and unlabeled is not None:
        raise ConfigError("dataset.table names all images: try dataset.unlabeled=null")
    if table is None and columns:
        raise ConfigError("dataset.columns names columns of a table: try dataset.table=metadata.csv")
    meant = {str(name): split for name, split in (splits or {}).items()}
    if odd := [split for split in meant.values() if split not in ("train", "val", "test", None)]:
        raise ConfigError(f"dataset.splits has train, val, test and null, got {odd[0]}: try {SPLITS_EXAMPLE}")
    if table is not None:
        return read_table(base, base / table, columns or {}, meant)
    return find_images(base, None if unlabeled is None else Path(unlabeled), meant)


def _split(part: Part, image: Tensor) -> Split:
    """The images of one split with their labels."""
    bias = torch.tensor(part.bias)
    return Split(image, torch.tensor(part.label), bias if (bias >= 0).all() else None)
