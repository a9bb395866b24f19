"""The bytes of encoded images, in tar files or in files that lie loose."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from contrastive.files import read_bytes
from contrastive.listing.names import split_of

NAMES = ".names.json"  # what `names_of_files` are kept in, beside each shard that `pack` wrote
AT_ONCE = 32  # files that are read at once
AHEAD = 256  # files that are read before they are needed


@dataclass(frozen=True)
class Files:
    """Image files that lie loose, as a shard of which an image's offset is its number; it prints as their folder."""

    folder: Path  # absolute
    paths: tuple[str, ...]  # below the folder, or absolute
    tag: str  # another one stands for other files

    def __str__(self) -> str:
        return str(self.folder)

    @property
    def name(self) -> str:
        return f"files-{self.tag}"

    @property
    def size(self) -> int:
        return len(self.paths)

    def content(self, i: int) -> bytes:
        """The bytes of a file; raises ConfigError if it cannot be read."""
        return read_bytes(self.folder / self.paths[i])


Shard = Path | Files  # of a tar, or of files that lie loose


def stem(shard: Shard) -> str:
    """Its name without the suffix, which what lies beside it is named after."""
    return PurePosixPath(shard.name).stem


def read(shard: Shard, offsets: Sequence[int], lengths: Sequence[int]) -> Iterator[bytes]:
    """The bytes of ranges of a shard, in their order; a range beyond its end is cut. Of loose files each is whole.

    Raises:
        ConfigError: a loose file cannot be read.
    """
    if isinstance(shard, Files):
        yield from map(shard.content, offsets)
        return
    file = os.open(shard, os.O_RDONLY)
    try:
        for offset, length in zip(offsets, lengths, strict=True):
            yield os.pread(file, length, offset)
    finally:
        os.close(file)


def read_files(paths: Iterable[Path]) -> Iterator[bytes]:
    """The bytes of files, of which threads read some ahead; raises ConfigError if one cannot be read."""
    waiting = iter(paths)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while ahead := list(islice(waiting, AHEAD)):
            yield from pool.map(read_bytes, ahead)


def beside(shard: Shard, name: str, *, above: bool = False) -> bytes | None:
    """The file of this name in the folder of a tar; None if there is none, or files lie loose.

    Args:
        above: look into the folder above, too, where that of the shard is a split's.
    """
    if isinstance(shard, Files):
        return None
    own = shard.absolute().parent
    for folder in (own, own.parent) if above and split_of(own.name) else (own,):
        if (path := folder / name).is_file():
            return path.read_bytes()
    return None


def names_of_files(shard: Shard) -> dict[str, str]:
    """{key: the file} of loose files, or of a tar those that `pack` wrote it from; of other tars nothing."""
    if isinstance(shard, Files):
        return {str(i): path for i, path in enumerate(shard.paths)}
    return dict(json.loads(beside(shard, f"{stem(shard)}{NAMES}") or "{}"))
