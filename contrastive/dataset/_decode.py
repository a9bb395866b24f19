"""Images decoded once into a file that is mapped into memory: it may be larger, and all processes share it."""

import fcntl
import json
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from contrastive.atomic import write_text


def decoded(paths: list[Path], size: int, kept: Path, title: str) -> tuple[Tensor, dict[int, str]]:
    """The readable images among `paths` and {index into paths: what is wrong} of the others.

    Args:
        kept: the file, named by what is in it; made here if there is none, by one process while others wait. The faults
            lie beside it in a .json file.
        title: of the progress bar.

    Returns:
        (n, 3, size, size) uint8, read-only; empty when nothing can be read.
    """
    kept.parent.mkdir(parents=True, exist_ok=True)
    told = kept.with_suffix(".json")
    with kept.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            _decode_all(paths, size, kept, told, title)
    faults = {int(i): fault for i, fault in json.loads(told.read_text()).items()}
    shape = (len(paths) - len(faults), 3, size, size)
    if shape[0] == 0:
        return torch.empty(shape, dtype=torch.uint8), faults
    with warnings.catch_warnings(action="ignore"):  # torch has no read-only tensors: writing to this one would crash
        return torch.from_numpy(np.memmap(kept, np.uint8, "r", shape=shape)), faults


def _decode_all(paths: list[Path], size: int, kept: Path, told: Path, title: str) -> None:
    """Fill `kept`, in parallel, and close the gaps that unreadable images leave."""
    part = kept.with_suffix(".part")
    array = np.memmap(part, np.uint8, "w+", shape=(len(paths), 3, size, size))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(
            tqdm(
                pool.map(partial(_decode_into, array, size), enumerate(paths), chunksize=64),
                total=len(paths),
                desc=f"decoding {title}",
                unit="image",
                mininterval=1,
            )
        )
    good = [i for i, fault in enumerate(found) if fault is None]
    for place, i in enumerate(good):
        if place != i:
            array[place] = array[i]
    array.flush()
    os.truncate(part, len(good) * 3 * size * size)
    write_text(told, json.dumps({i: fault for i, fault in enumerate(found) if fault is not None}))
    part.replace(kept)


def _decode_into(array: np.ndarray, size: int, job: tuple[int, Path]) -> str | None:
    """Decode one image into its place; what is wrong with it, if anything."""
    place, path = job
    picture = _decode(path, size)
    if isinstance(picture, str):
        return picture
    array[place] = picture
    return None


def _decode(path: Path, size: int) -> np.ndarray | str:
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
        picture = picture.resize(
            (max(size, round(width * scale)), max(size, round(height * scale))), Image.Resampling.BILINEAR
        )
        left, top = (picture.width - size) // 2, (picture.height - size) // 2
        picture = picture.crop((left, top, left + size, top + size))
    return np.asarray(picture).transpose(2, 0, 1)
