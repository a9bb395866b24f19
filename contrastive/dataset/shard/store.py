"""The bytes of encoded images: in tar files of this machine, in objects of a store that are read by ranges, or in files
that lie loose.

obstore, an extra, is imported where a URL is given, and nowhere else. Retries, credentials and their environment
variables (AWS_REGION, AWS_SKIP_SIGNATURE=true for a public bucket, ...) are its own.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from contrastive.errors import ConfigError
from contrastive.files import read_bytes
from contrastive.listing.names import split_of

NAMES = ".names.json"  # what `names_of_files` are kept in, beside each shard that `pack` wrote
URL = re.compile(r"(s3|gs|az|https?|file)://")
AT_ONCE = 32  # shards that are asked at once; of each obstore reads up to ten ranges at once
GAP = 2**16  # bytes between two images up to which one request reads both: few beside what a request takes
PART = 2**24  # bytes of a shard that one request reads where it is indexed
PARTS = 8  # at once
AHEAD = 256  # files that are read before they are needed


@dataclass(frozen=True)
class Remote:
    """A shard in an object store, as it was when it was looked up; it prints as its URL."""

    url: str
    size: int  # bytes
    tag: str  # another one stands for another content

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        return PurePosixPath(self.url).name


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


Tar = Path | Remote
Shard = Tar | Files


def stem(shard: Shard) -> str:
    """Its name without the suffix, which what lies beside it is named after."""
    return PurePosixPath(shard.name).stem


def is_url(pattern: str) -> bool:
    """Whether it names objects in a store."""
    return URL.match(pattern) is not None


def look_up(places: Sequence[str]) -> list[Shard]:
    """The shards at paths or URLs; of a URL size and tag are asked for.

    Raises:
        ConfigError: obstore is missing, or there is no such object.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda place: _head(place) if is_url(place) else Path(place), places))


def matching(pattern: str) -> list[str]:
    """The URLs of a pattern with *, or of the .tar files of a folder, sorted; one of an object is itself.

    Raises:
        ConfigError: the store cannot list its objects.
    """
    if pattern.endswith(".tar") and "*" not in pattern:
        return [pattern]
    if pattern.startswith("http"):
        raise ConfigError(f"{pattern}: an HTTP server lists no files: try 'dataset.root=URL/{{000..099}}.tar'")
    if not pattern.endswith(".tar"):
        pattern = f"{pattern.rstrip('/')}/*.tar"
    store, wanted = _place(pattern)
    root = pattern.removesuffix(wanted)
    with _explained(pattern):
        import obstore

        prefix = wanted.partition("*")[0].rpartition("/")[0]
        found = [meta["path"] for chunk in obstore.list(store, prefix or None) for meta in chunk]
    return sorted(
        f"{root}{path}" for path in found if fnmatchcase(path, wanted) and path.count("/") == wanted.count("/")
    )


def read(shard: Shard, offsets: Sequence[int], lengths: Sequence[int]) -> Iterator[bytes]:
    """The bytes of ranges of a shard, in their order; a range beyond its end is cut. Of loose files each is whole.

    Raises:
        ConfigError: a store fails, after obstore has tried again for a while, or a loose file cannot be read.
    """
    if isinstance(shard, Remote):
        yield from _ranges(shard, offsets, lengths)
        return
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


@contextmanager
def at_hand(shard: Tar, folder: Path) -> Iterator[Path]:
    """The file of a shard; of a remote one a copy in `folder`, for as long as it is needed. One process at a time: what
    a killed one left is written over.

    Raises:
        ConfigError: as `read`; and of what is done with the copy, which the sentence calls by its URL.
    """
    if isinstance(shard, Path):
        yield shard
        return
    copy = folder / f".{shard.name}.part"

    def fetch(start: int) -> None:
        os.pwrite(file, next(read(shard, [start], [min(PART, shard.size - start)])), start)

    try:
        file = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            with ThreadPoolExecutor(PARTS) as pool:
                list(pool.map(fetch, range(0, shard.size, PART)))
        finally:
            os.close(file)
        yield copy
    except ConfigError as error:
        raise ConfigError(str(error).replace(str(copy), shard.url)) from error
    finally:
        copy.unlink(missing_ok=True)


def beside(shard: Shard, name: str, *, above: bool = False) -> bytes | None:
    """The file of this name in the folder of a tar; None if there is none, or files lie loose.

    Args:
        above: look into the folder above, too, where that of the shard is a split's.
    """
    if isinstance(shard, Files):
        return None
    folder = shard.url.rpartition("/")[0] if isinstance(shard, Remote) else str(shard.absolute().parent)
    outer, _, own = folder.rpartition("/")
    for place in (folder, outer) if above and split_of(own) else (folder,):
        if not isinstance(shard, Remote):
            if (path := Path(place, name)).is_file():
                return path.read_bytes()
            continue
        try:
            other = _head(f"{place}/{name}")
        except ConfigError:
            continue
        return next(read(other, [0], [other.size]))
    return None


def names_of_files(shard: Shard) -> dict[str, str]:
    """{key: the file} of loose files, or of a tar those that `pack` wrote it from; of other tars nothing."""
    if isinstance(shard, Files):
        return {str(i): path for i, path in enumerate(shard.paths)}
    return dict(json.loads(beside(shard, f"{stem(shard)}{NAMES}") or "{}"))


def _head(url: str) -> Remote:
    store, path = _place(url)
    with _explained(url):
        import obstore

        meta = obstore.head(store, path)
    return Remote(url, meta["size"], meta["e_tag"] or str(meta["last_modified"]))


def _ranges(shard: Remote, offsets: Sequence[int], lengths: Sequence[int]) -> list[bytes]:
    store, path = _place(shard.url)
    with _explained(f"{shard} at byte {offsets[0]}"):
        import obstore

        found = obstore.get_ranges(store, path, starts=offsets, lengths=lengths, coalesce=GAP)
    return [bytes(part) for part in found]


def _place(url: str) -> tuple[Any, str]:
    """The store of a URL, and the path in it."""
    scheme, _, rest = url.partition("://")
    bucket, _, path = rest.partition("/")
    return _store(f"{scheme}://{bucket}"), path


@cache
def _store(root: str) -> Any:
    """One for all shards of a bucket: it keeps connections."""
    try:
        from obstore.store import HTTPStore, from_url
    except ImportError as error:
        raise ConfigError(f"{root} is read by obstore: try pip install 'debiased-contrastive[remote]'") from error
    with _explained(root):
        if root.startswith("http"):
            return HTTPStore.from_url(root, client_options={"allow_http": root.startswith("http:")})
        return from_url(f"{root}/" if root == "file://" else root)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Raise what a store answers as one sentence."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        reason = " ".join(str(error).partition("Debug source")[0].split())
        raise ConfigError(
            f"{what} cannot be read ({reason}): try the same command again, or dataset.root=URL"
        ) from error
