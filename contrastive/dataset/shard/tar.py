"""Tar shards in WebDataset's layout: the files of a sample lie side by side and share a key (a.jpg, a.cls, a.json)."""

import io
import tarfile
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from contrastive.errors import ConfigError
from contrastive.files import atomic

BLOCKSIZE = tarfile.BLOCKSIZE  # bytes of a header
Members = dict[str, tuple[int, int]]  # of one sample: {suffix: (offset, length)}


def samples(path: Path) -> Iterator[tuple[str, Members]]:
    """The key of each sample of a shard and where its bytes lie, in the shard's order.

    Raises:
        ConfigError: the file is no tar, is compressed, ends in the middle of a sample, or has a damaged header.
    """
    with _opened(path) as tar:
        files = (member for member in _members(tar, path) if member.isfile() and is_part(member.name))
        for key, members in groupby(files, lambda member: key_and_suffix(member.name)[0]):
            yield key, {key_and_suffix(m.name)[1]: (m.offset_data, m.size) for m in members}
        end = tar.offset  # tarfile takes a damaged header for the end
    with path.open("rb") as file:
        file.seek(end)
        if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):  # what every tar ends with
            raise ConfigError(f"{path} is cut, or has a damaged header, at byte {end}: try copying it again")


def _members(tar: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    """The members. That one is cut is seen when the next one is read."""
    last = "its first file"
    try:
        for member in tar:
            last = member.name
            yield member
    except tarfile.ReadError as error:
        raise ConfigError(f"{path} is cut in {last} ({error}): try copying it again") from error


def name_in(header: bytes) -> str:
    """The name of a file by its header, the block before its bytes; of a long one the beginning."""
    try:
        return tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape").name
    except tarfile.HeaderError:
        return "a file whose header is damaged, too"


def key_and_suffix(name: str) -> tuple[str, str]:
    """`a/b.seg.png` is the key a/b and the suffix seg.png."""
    folder, _, base = name.rpartition("/")
    stem, _, suffix = base.partition(".")
    return f"{folder}/{stem}" if folder else stem, suffix.lower()


def is_part(name: str) -> bool:
    """Whether a file belongs to a sample. `._a.jpg`, as macOS adds it, and `README` do not."""
    return all(key_and_suffix(name.rpartition("/")[2]))


def write_shard(path: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files by name, whole or not at all; the same files give the same bytes."""
    with atomic(path) as part, tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def _opened(path: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(path, "r:")
    except (tarfile.ReadError, OSError) as error:
        raise ConfigError(
            f"{path} cannot be read as a tar without compression ({error}): try gunzip, or another dataset.root=PATH"
        ) from error
