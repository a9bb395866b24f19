"""The features of images, beside their paths and labels: what a search, a clustering or another program reads."""

import io
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from tqdm import tqdm

from contrastive.dataset.folder.decode import FORMATS
from contrastive.dataset.folder.table import named_images
from contrastive.dataset.shard.sample import Fields, image_of, read_sample
from contrastive.dataset.shard.tar import beside, names_of_files, samples
from contrastive.distributed.hardware import n_cores
from contrastive.errors import ConfigError
from contrastive.experiment.encoder import Transform
from contrastive.files import atomic
from contrastive.listing.found import Found
from contrastive.listing.names import NO_IMAGE, LeftOut, below, image_paths

SUFFIXES = (".npz", ".csv", ".parquet")
BATCH = 256  # images at once


class Item(NamedTuple):
    """An image: its path and its label."""

    path: str
    label: str
    member: tuple[Path, int, int] | None = None  # of a tar: the shard, and where its bytes lie


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """Features of images.

    Attributes:
        path: of each image; within a tar SHARD/MEMBER.
        label: the name of its folder, of a table's image what the table says, of a shard's what its key.cls or key.json
            does.
        features: (N, F).
        left_out: {path: why} of images that cannot be read.
    """

    path: list[str]
    label: list[str]
    features: NDArray[Any]
    left_out: dict[str, str]

    def write(self, file: Path) -> None:
        """Write what the suffix says: .npz has the arrays path, label and features; .csv and .parquet the columns path,
        label, 0, 1, ..."""
        if file.suffix == ".npz":
            with atomic(file) as part, part.open("wb") as out:
                np.savez(out, path=np.array(self.path), label=np.array(self.label), features=self.features)
            return
        import pandas as pd  # late: it takes a second

        table = pd.DataFrame(self.features, columns=list(map(str, range(self.features.shape[1]))))
        table.insert(0, "path", list(map(_as_text, self.path)))
        table.insert(1, "label", list(map(_as_text, self.label)))
        with atomic(file) as part:
            (table.to_csv if file.suffix == ".csv" else table.to_parquet)(part, index=False)


def _as_text(name: str) -> str:
    """The name of a file, its bytes that are no UTF-8 as \\xe9."""
    return os.fsencode(name).decode(errors="backslashreplace")


def check_file(file: Path, places: Sequence[Path]) -> None:
    """Raise ConfigError for a file that `write` cannot write, or that is one of the places that are embedded."""
    other = f"try -o {file.stem or 'features'}"
    if file.suffix not in SUFFIXES:
        raise ConfigError(f"{file} must end in {', '.join(SUFFIXES)}: {other}.npz")
    if file.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ConfigError(".parquet needs pyarrow: try pip install pyarrow, or a file .npz")
    if file.resolve() in [place.resolve() for place in places]:
        raise ConfigError(f"{file} would be overwritten: {other}-features{file.suffix}")


def embed(
    encoder: nn.Module,
    transform: Transform,
    items: Sequence[Item],
    *,
    device: torch.device,
) -> Embedding:
    """The features of images as their encoder was evaluated: float32, images by threads, batches of 256.

    Raises:
        ConfigError: no image can be read.
    """
    encoder = encoder.to(device)
    left_out: dict[str, str] = {}
    kept: list[Item] = []
    features: list[Tensor] = []
    waiting = iter(tqdm(items, unit=" images", desc="embedding", leave=False, disable=len(items) < BATCH))
    with ThreadPoolExecutor(n_cores()) as threads, torch.inference_mode():
        while batch := list(islice(waiting, BATCH)):
            images = []
            for item, image in zip(batch, threads.map(lambda one: _image(one, transform), batch), strict=True):
                if isinstance(image, str):
                    left_out[item.path] = image
                else:
                    kept.append(item)
                    images.append(image)
            if images:
                features.append(encoder(torch.cat(images).to(device)).float().cpu())
    if not kept:
        path, why = next(iter(left_out.items()), ("nothing", "there is no image"))
        raise ConfigError(f"no image can be read, the first is {path} ({why}): try contrastive look FOLDER")
    return Embedding(
        path=[item.path for item in kept],
        label=[item.label for item in kept],
        features=torch.cat(features).numpy(),
        left_out=left_out,
    )


def _image(item: Item, transform: Transform) -> Tensor | str:
    """(1, K, H, W), or why the file cannot be read."""
    try:
        if item.member is None:
            return transform(item.path)
        shard, offset, length = item.member
        with shard.open("rb") as file:
            file.seek(offset)
            raw = file.read(length)
        with Image.open(io.BytesIO(raw), formats=FORMATS) as picture:
            return transform(picture)
    except Exception as error:  # decoders raise errors of many kinds for files that are damaged
        return " ".join(str(error).split()) or type(error).__name__


def items_of(places: Sequence[Path]) -> list[Item]:
    """The images of folders (and all folders below), also of shards that `contrastive pack` wrote, tar shards, tables
    with a column of paths, and image files.

    Raises:
        ConfigError: a place that is none of these, or has no images.
    """
    found: list[Item] = []
    for place in places:
        own = list(_items(place))
        if not own:
            raise ConfigError(f"there are no images in {place}: try contrastive look {place}")
        found += own
    return found


def _items(place: Path) -> Iterator[Item]:
    packed = [tar for depth in ("*.tar", "*/*.tar") for tar in sorted(place.glob(depth)) if names_of_files(tar)]
    if packed:
        for tar in packed:
            yield from _shard(tar)
    elif place.is_dir():
        left_out = LeftOut(list)
        for path in image_paths(place, left_out):
            yield Item(path, _folder(path))
        left_out.pop(NO_IMAGE, None)
        if left_out:
            tqdm.write(str(Found(splits={}, left_out=below(place, left_out))))
    elif not place.is_file():
        raise ConfigError(f"there is no folder and no file {place}: try the path of a folder of images")
    elif place.suffix == ".tar":
        yield from _shard(place)
    elif place.suffix.lower() in (".csv", ".tsv"):
        yield from (Item(str(file), label) for file, label in named_images(place))
    else:
        yield Item(str(place), _folder(place))


def _folder(path: str | Path) -> str:
    """The name of the folder that a file lies in, also of a path such as a.jpg or ../a.jpg, which does not say it."""
    return Path(os.path.abspath(path)).parent.name


def _shard(shard: Path) -> Iterator[Item]:
    """The images of a tar as `dataset=shards` reads it. Without another label it is the name of a member's folder;
    classes.txt beside the shard names the numbers."""
    names = dict(enumerate((beside(shard, "classes.txt", above=True) or b"").decode(errors="replace").splitlines()))
    with shard.open("rb") as file:
        for key, members in samples(shard):
            if (suffix := image_of(key, members, None, shard)) is None:
                continue
            described = {name: place for name, place in members.items() if name in ("cls", "json")}
            label = read_sample(file, key, described, Fields(), shard).label
            named = names.get(label, str(label)) if isinstance(label, int) else label
            folder = PurePosixPath(key).parent.name
            name, own = f"{shard}/{key}.{suffix}", folder if named is None else named
            yield Item(name, own, (shard, *members[suffix]))
