"""From listed files and their images to the dataset that they are."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import torch

from contrastive.dataset.folder.cache import SplitImages
from contrastive.dataset.folder.layout import Part
from contrastive.dataset.splits import as_data, first_per_class, long_tail
from contrastive.listing.found import CANNOT_BE_READ, Listing, seen_notes
from contrastive.types import Data, Split

DIGESTED = ("train", "test", "val")  # in this order


def folder_data(
    listed: Listing[Part],
    images: Mapping[str, SplitImages],
    *,
    facts: Mapping[str, str],
    per_class: int | None = None,
    imbalance: float | None = None,
    hold_out: bool = False,
    frame: int | None = None,
) -> Data:
    """The listed files as a dataset.

    Mean and standard deviation are those of all training images. With bias labels the facts tell, too, how many images
    each split has and how many of them are bias-conflicting, of another bias than most training images of their class.
    Of listed validation images none is a training image, and `hold_out` has nothing to do.

    Args:
        images: of each split.
        facts: recorded by the run.
        per_class: as in `image_folder`.
        imbalance: as in `image_folder`.
        hold_out: as in `image_folder`.
        frame: as in `image_folder`.
    """
    parts = listed.splits
    splits = {key: _split(part, images[key]) for key, part in parts.items()}
    if listed.classes:
        splits["train"] = long_tail(first_per_class(splits["train"], per_class), imbalance)
    if listed.classes and listed.biases:
        facts = {**facts, **_counts(splits, len(listed.classes), len(listed.biases))}
    hold_out = hold_out and bool(listed.classes) and "val" not in splits
    digest = _digest(*((images[key].digest, splits[key]) for key in DIGESTED if key in splits), hold_out=hold_out)
    splits["train"] = replace(splits["train"], frame=frame)
    faults = [fault for key, part in parts.items() for fault in _faults(part, images[key])]
    left_out = {**listed.left_out, **({CANNOT_BE_READ: faults} if faults else {})}
    read = Listing(
        splits, listed.classes, listed.biases, listed.places, left_out, (*listed.notes, *_notes([*images.values()]))
    )
    return as_data(read, stats=images["train"].stats, facts=facts, hold_out=hold_out, digest=digest)


def _split(part: Part, images: SplitImages) -> Split:
    """The images of one split with their labels."""
    files = [file for i, file in enumerate(part.files) if i not in images.faults]
    bias = torch.tensor([file.bias for file in files])
    return Split(images.image, torch.tensor([file.label for file in files]), bias if (bias >= 0).all() else None)


def _faults(part: Part, images: SplitImages) -> list[str]:
    """The files that cannot be read, each with the reason, which may hold its name a second time."""
    return [
        f"{part.files[i].path}: {fault.replace(repr(str(part.folder / part.files[i].path)), '')}".strip(" :")
        for i, fault in images.faults.items()
    ]


def _notes(images: list[SplitImages]) -> list[str]:
    """A sentence of the kind of the images, and one for all that was done to some of them."""
    n = sum(len(each.image) for each in images)
    return [f"each image: {images[0].kind}", *seen_notes((seen for each in images for seen in each.seen), n)]


def _counts(splits: dict[str, Split], n_classes: int, n_biases: int) -> dict[str, str]:
    """How many images the splits have, and how many of another bias than most training images of their class."""
    bias = {name: split.bias for name, split in splits.items() if split.bias is not None}
    cells = torch.bincount(splits["train"].label * n_biases + bias["train"], minlength=n_classes * n_biases)
    majority = cells.view(n_classes, n_biases).argmax(1)
    conflicting = {name: int((bias[name] != majority[split.label]).sum()) for name, split in splits.items()}
    return {
        "images": ", ".join(f"{name} {len(split)}" for name, split in splits.items()),
        "bias_conflicting": ", ".join(f"{name} {n}" for name, n in conflicting.items()),
    }


def _digest(*parts: tuple[str, Split], hold_out: bool) -> str:
    """sha256 over pixels, labels and biases, with the digest of the pixels in place of the pixels."""
    digest = hashlib.sha256(repr(hold_out).encode())
    for pixels, split in parts:
        digest.update(pixels.encode())
        for value in (split.label, split.bias):
            if value is not None:
                digest.update(repr(len(value)).encode() + value.numpy().tobytes())
    return digest.hexdigest()
