"""Tar shards in WebDataset's layout: the files of a sample share a key (a.jpg, a.cls, a.json)."""

import io
import json
import posixpath
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from contrastive.errors import ConfigError
from contrastive.files import atomic
from contrastive.listing.names import split_of

NAMES = ".names.json"  # what `names_of_files` are kept in, beside each shard that `pack` wrote
BLOCKSIZE = tarfile.BLOCKSIZE  # bytes of a header
DAMAGE = (tarfile.ReadError, OSError, ValueError, OverflowError, MemoryError)  # what tarfile raises of wild sizes
Members = dict[str, tuple[int, int]]  # of one sample: {suffix: (offset, length)}


def samples(path: Path) -> Iterator[tuple[str, Members]]:
    """Each key of a shard, in the order of their first files, and where the bytes of its files lie.

    A hard link is the file of the tar that it leads to.

    Raises:
        ConfigError: the file is no tar, is compressed, is cut, has a damaged header or bytes behind its end, has two
            files of one key and suffix, or has something that is no plain file under the name of one.
    """
    found, places = dict[str, Members](), dict[str, tuple[int, int] | None]()
    for member in _members(path):
        name, is_link = posixpath.normpath(member.name), member.islnk()
        if (member.isreg() and not member.issparse()) or is_link:
            target = posixpath.normpath(member.linkname)
            places[name] = places.get(target) if is_link else (member.offset_data, member.size)
        if member.isdir() or not all(key_and_suffix(posixpath.basename(name))):  # ._a.jpg of macOS, README
            continue
        if (place := places.get(name)) is None:
            raise ConfigError(
                f"{path} has a link or a sparse file in place of the bytes of {member.name}: "
                "try tar --dereference without --sparse"
            )
        key, suffix = key_and_suffix(name)
        if suffix in found.setdefault(key, {}):
            raise ConfigError(
                f"{path} has two files with the key {key} and the suffix {suffix}: try another key for one of them"
            )
        found[key][suffix] = place
    yield from found.items()


def _check_end(path: Path, end: int) -> None:
    """Raise ConfigError where tarfile stopped before the end of a file: nothing but zeros follows the last member."""
    with path.open("rb") as file:
        file.seek(end)
        if file.read(BLOCKSIZE) != bytes(BLOCKSIZE):  # what every tar ends with
            raise ConfigError(f"{path} is cut, or has a damaged header, at byte {end}: try copying it again")
        while rest := file.read(2**20):
            if rest.count(0) < len(rest):
                raise ConfigError(
                    f"{path} goes on behind its end at byte {end}, as tars joined by cat do: try tar --concatenate"
                )


def _members(path: Path) -> Iterator[tarfile.TarInfo]:
    """The members, each behind the one before and within the file, which ends behind them."""
    last, n_bytes = "its first file", path.stat().st_size
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                last = member.name
                if member.size < 0 or not member.offset < tar.offset <= n_bytes:  # tarfile would read it for ever
                    raise tarfile.ReadError(f"its {member.size} bytes are not there")
                yield member
            end = tar.offset  # tarfile takes a damaged header for the end
    except DAMAGE as error:
        raise ConfigError(
            f"{path} is compressed, cut or damaged in {last} ({str(error) or type(error).__name__}): "
            "try gunzip, or copying it again"
        ) from error
    _check_end(path, end)


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


def write_shard(path: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files by name, whole or not at all; the same files give the same bytes. The caller holds a lock."""
    with atomic(path, alone=True) as part, tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def beside(shard: Path, name: str, *, above: bool = False) -> bytes | None:
    """The file of this name in the folder of a tar; None if there is none.

    Args:
        above: look into the folder above, too, where that of the shard is a split's.
    """
    own = shard.absolute().parent
    for folder in (own, own.parent) if above and split_of(own.name) else (own,):
        if (path := folder / name).is_file():
            return path.read_bytes()
    return None


def names_of_files(shard: Path) -> dict[str, str]:
    """{key: the file} that `pack` wrote a tar from; of other tars nothing."""
    return dict(json.loads(beside(shard, f"{shard.stem}{NAMES}") or "{}"))
