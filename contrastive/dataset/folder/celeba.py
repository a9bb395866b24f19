"""CelebA with one attribute as class and gender as bias, as Hong & Yang 2021 use it."""

from pathlib import Path

import torch

from contrastive.dataset.folder.data import decoded_data
from contrastive.dataset.folder.layout import ImageFile, Listing, Part
from contrastive.errors import ConfigError, check_at_least, check_choice
from contrastive.seeding import generator
from contrastive.types import Data

ATTRIBUTES = {"blonde": "Blond_Hair", "makeup": "Heavy_Makeup"}
FILES = ("list_attr_celeba.txt", "list_eval_partition.txt", "img_align_celeba")
LEAST_BIASED = 2000  # women without blond hair that `blonde` trains on


def celeba(*, root: str = "data/celeba", target: str = "blonde", size: int = 224, cache: str = "data/cache") -> Data:
    """CelebA (Liu et al. 2015), https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, in the splits of Hong & Yang 2021.

    Four fifths of CelebA's training images are trained on, a fifth validates, and CelebA's validation images test; its
    test images are not used. For `blonde` only 2,000 of the women without blond hair are kept for training and
    validation, so that gender tells the class. The draws are fixed, and others than those of the authors' files.

    Args:
        root: folder with list_attr_celeba.txt, list_eval_partition.txt and img_align_celeba/.
        target: the class, `blonde` (Blond_Hair) or `makeup` (Heavy_Makeup).
        size: side of the images in pixels: the shorter side is resized and the center cropped.
        cache: folder for the decoded images, see `image_folder`.

    Shapes: images (N, 3, size, size).

    Raises:
        ConfigError: an argument out of range, or a file or folder is missing.
    """
    check_choice("dataset.target", target, ATTRIBUTES)
    check_at_least("dataset.size", size, 1, example=224)
    base = Path(root)
    for name in FILES:
        if not (base / name).exists():
            raise ConfigError(f"{base / name} is missing: put CelebA there, or try another dataset.root=PATH")
    try:
        pool, test = _listed(base, ATTRIBUTES[target])
    except (ValueError, KeyError, IndexError) as error:
        lists = f"{base / FILES[0]} and {FILES[1]}"
        raise ConfigError(f"{lists} are not CelebA's ({error}): try another dataset.root=PATH") from error
    order = torch.randperm(len(pool), generator=generator("cpu", "celeba", target)).tolist()
    pool = [pool[i] for i in order]
    if target == "blonde":
        surplus = set([file for file in pool if file.label == file.bias == 0][LEAST_BIASED:])
        pool = [file for file in pool if file not in surplus]
    n_train = int(0.8 * len(pool))
    train, val, tested = (Part(base / FILES[2], files) for files in (pool[:n_train], pool[n_train:], test))
    listed = Listing((f"not {target}", target), ("female", "male"), train, val, tested)
    return decoded_data(listed, size=size, cache=Path(cache), name=f"celeba {target}")


def _listed(base: Path, attribute: str) -> tuple[list[ImageFile], list[ImageFile]]:
    """CelebA's training and validation images, with the attribute as label and being male as bias."""
    partition = dict(line.split() for line in (base / FILES[1]).read_text().splitlines())
    _, header, *lines = (base / FILES[0]).read_text().splitlines()
    column = [header.split().index(name) + 1 for name in (attribute, "Male")]
    pool: list[ImageFile] = []
    test: list[ImageFile] = []
    for line in lines:
        words = line.split()
        label, bias = (int(words[i] == "1") for i in column)
        if (part := partition[words[0]]) in "01":
            (pool if part == "0" else test).append(ImageFile(words[0], label, bias))
    return pool, test
