"""Any folder of images: root/train/<class>/* and root/test/<class>/*."""

import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm

from contrastive.refusal import Refusal, require
from contrastive.split import channel_stats, name_splits
from contrastive.types import Data, Split

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}


def image_folder(*, root: str | None, size: int | None, bias: str | None, cache: str, hold_out: bool) -> Data:
    """Images in class folders, decoded once in parallel into one uint8 array.

    Every image becomes RGB of size × size pixels: its shorter side is resized to `size` and the centre cropped. Any
    mode is accepted; transparency is put on black. Images that cannot be read are named in a warning and left out.
    The decoded arrays are kept under `cache`, in a safetensors file named by the sha256 of every file's name and
    content and of `size`; classes are the folder names under train/, sorted. Mean and std are those of the training
    images. `bias` is a regular expression whose first group, searched in the path below train/ or test/, names an
    image's bias (corrupted CIFAR-10: `_([0-9]+)[.]png$`); hold_out leaves the validation tenth out of `pretrain`.

    Raises:
        Refusal: root or size is not given, a folder is missing or empty, test/ has a class that train/ has not.
    """
    require(root is not None, "dataset=image_folder needs the folder that holds train/ and test/: "
                              "try dataset.root=PATH")
    require(size is not None, "dataset=image_folder needs the side of its images in pixels: try dataset.size=32")
    assert root is not None and size is not None
    require(size >= 1, f"dataset.size is a side in pixels, got {size}: try dataset.size=32")
    base = Path(root)
    for part in ("train", "test"):
        require((base / part).is_dir(), f"{base / part} is not a folder: put the images into {base}/train/<class>/ "
                                        f"and {base}/test/<class>/, or run without them: python train.py")
    classes = tuple(sorted(p.name for p in (base / "train").iterdir() if p.is_dir()))
    require(len(classes) >= 2, f"{base / 'train'} has {len(classes)} class folders and at least two are needed: put "
                               f"the images into {base}/train/<class>/")
    unknown = sorted(p.name for p in (base / "test").iterdir() if p.is_dir() and p.name not in classes)
    require(not unknown, f"test/ has a class that train/ has not ({', '.join(unknown[:3])}): "
                         f"try mkdir {base}/train/{unknown[0] if unknown else ''} and put images of it there")
    (train, paths), (test, test_paths) = (_load(base / part, classes, size, Path(cache)) for part in ("train", "test"))
    biases: tuple[str, ...] = ()
    if bias is not None:
        found, found_test = _biases(paths, bias), _biases(test_paths, bias)
        biases = tuple(sorted({*found, *found_test}))
        index = {name: i for i, name in enumerate(biases)}
        train = replace(train, bias=torch.tensor([index[name] for name in found]))
        test = replace(test, bias=torch.tensor([index[name] for name in found_test]))
    return name_splits(train, test, classes=classes, hold_out=hold_out, stats=channel_stats(train.image), biases=biases)


def _biases(paths: list[str], pattern: str) -> list[str]:
    """What the first group of the pattern matches in each path."""
    try:
        matcher = re.compile(pattern)
    except re.error as error:
        raise Refusal(f"dataset.bias={pattern} is no regular expression ({error}): "
                      "try 'dataset.bias=_([0-9]+)[.]png$'") from None
    found = [matcher.search(path) for path in paths]
    wrong = next((path for path, match in zip(paths, found, strict=True) if not match or not match.groups()), None)
    require(wrong is None, f"dataset.bias={pattern} finds no group in {wrong}: try 'dataset.bias=_([0-9]+)[.]png$'")
    return [match[1] for match in found if match]


def _load(folder: Path, classes: tuple[str, ...], size: int, cache: Path) -> tuple[Split, list[str]]:
    """One split and the paths of its images under `folder`, from the cache when its files have not changed."""
    paths = [(p, c) for c, name in enumerate(classes) for p in sorted((folder / name).rglob("*"))
             if p.suffix.lower() in SUFFIXES]
    require(bool(paths), f"{folder} holds no images: put some into {folder}/<class>/ "
                         f"(known are {', '.join(sorted(SUFFIXES))})")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digest = hashlib.sha256(repr((size, classes)).encode())
        for (path, _), content in zip(paths, pool.map(_digest, (p for p, _ in paths), chunksize=256), strict=True):
            digest.update(str(path.relative_to(folder)).encode() + content)
        kept = cache / f"image_folder-{digest.hexdigest()[:32]}.safetensors"
        if kept.exists():
            stored = load_file(kept)
            return Split(stored["image"], stored["label"]), [str(path.relative_to(folder)) for path, _ in paths]
        decoded = list(tqdm(pool.map(_decode, (p for p, _ in paths), repeat(size), chunksize=64), total=len(paths),
                            desc=f"decoding {folder.name}", unit="image", mininterval=1))
    broken = [str(path) for (path, _), value in zip(paths, decoded, strict=True) if isinstance(value, str)]
    for (path, _), value in zip(paths, decoded, strict=True):
        if isinstance(value, str):
            tqdm.write(f"warning: {path} cannot be read and is left out: {value}")
    good = [(value, c, str(path.relative_to(folder))) for value, (path, c) in zip(decoded, paths, strict=True)
            if isinstance(value, Tensor)]
    require(bool(good), f"none of the {len(paths)} images in {folder} can be read: replace them")
    split = Split(torch.stack([value for value, _, _ in good]), torch.tensor([c for _, c, _ in good]))
    if not broken:  # so that a broken image is named again in every run until it is mended
        cache.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}.part")
        save_file({"image": split.image, "label": split.label}, part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(kept)
    return split, [path for _, _, path in good]


def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _decode(path: Path, size: int) -> Tensor | str:
    """(3, size, size) uint8, or what is wrong with the file."""
    try:
        with Image.open(path) as opened:
            if opened.mode in ("I", "F"):
                return f"mode {opened.mode} has no fixed range: save it with 8 or 16 bits"
            picture: Image.Image = opened
            if opened.mode.startswith("I;16"):  # PIL would clip these to white
                picture = Image.fromarray((np.asarray(opened) // 257).astype(np.uint8))
            elif "A" in opened.getbands() or "transparency" in opened.info:
                picture = opened.convert("RGBA")
            if picture.mode == "RGBA":
                black = Image.new("RGBA", picture.size, (0, 0, 0, 255))
                picture = Image.alpha_composite(black, picture)
            picture = picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return str(error) or type(error).__name__
    if picture.size != (size, size):
        width, height = picture.size
        scale = size / min(width, height)
        picture = picture.resize((max(size, round(width * scale)), max(size, round(height * scale))),
                                 Image.Resampling.BILINEAR)
        left, top = (picture.width - size) // 2, (picture.height - size) // 2
        picture = picture.crop((left, top, left + size, top + size))
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
