"""Files: written atomically, locked between processes, hashed, and read where their content is of its type.

class Facts(TypedDict):
    mean: list[float]
    faults: dict[str, str]

misfit(json.loads(text), Facts)  # "mean[2]" where that is no number; None where everything fits
"""

import functools
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TextIO, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import yaml
from filelock import lock_descriptor

from contrastive.errors import ConfigError

YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML comes with libyaml
T = TypeVar("T")

PLAIN = {bool: (bool,), int: (int,), float: (int, float), None: (NoneType,), NoneType: (NoneType,)}
UNIONS, MAPPINGS, LISTS = (Union, UnionType), (dict, Mapping), (list, tuple, Sequence)
TYPED = (str, int, float)  # a text that is typed without quotes: 2024


@contextmanager
def atomic(path: Path, *, keep: Path | None = None, alone: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside `path` to write to; on leaving, make it durable and rename it over `path`.

    After an exception, or when the process is killed, `path` is as it was before.

    Args:
        alone: no other process writes this path now, since a lock is held: what a killed one left is written over.
        keep: where the replaced file goes. A kill between both renames leaves it there, and no `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part" if alone else f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)  # a link of that name would be written where it leads
    try:
        yield part
        with part.open("r+b") as file:  # Windows makes nothing durable that was opened to be read
            os.fsync(file.fileno())
        os.chmod(part, 0o666 & ~_umask())  # some libraries create files that only their owner can read
        if keep is not None and path.exists():
            path.replace(keep)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace the content of `path` atomically."""
    with atomic(path) as part:
        part.write_text(text)


@contextmanager
def claimed(path: Path, *, wait: bool) -> Iterator[TextIO | None]:
    """Hold the lock of a file, made if missing; yields the file, or None if another process holds it.

    The system releases the lock when its process ends, however it ends: a file that is left over locks nothing. On
    Windows nobody else may read the first byte of a locked file.

    Args:
        wait: until no other process holds it.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # which Windows does not know
    with os.fdopen(os.open(path, flags, 0o666), "r+") as file:
        yield file if lock_descriptor(file.fileno(), blocking=wait) else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`, created if missing; other processes wait at the same call."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with claimed(path, wait=True):
        yield


@functools.cache
def _umask() -> int:
    """The permissions that this process withholds from new files; reading them means setting them twice, which two
    threads must not do at once."""
    umask = os.umask(0)
    os.umask(umask)
    return umask


def walked(folder: str | Path, *, skip: str = "") -> Iterator[tuple[str, list[str], list[str]]]:
    """As os.walk, in linked folders, too, but in each folder once: links may form a circle.

    Args:
        skip: the real path of a folder that is left out.
    """
    entered = {skip}
    for top, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(top)) in entered:
            folders.clear()
        else:
            entered.add(real)
            yield top, folders, names


def file_hash(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_of(raw: bytes) -> int:
    """Length and crc32: equal for images of the same bytes, and by chance for one pair in billions."""
    return len(raw) << 32 | zlib.crc32(raw)


def read_json(path: Path, kind: type[T]) -> T:
    """The content of a JSON that this package wrote beside runs.

    Raises:
        ConfigError: it is damaged.
    """
    if (content := known(path, kind)) is None:
        raise ConfigError(f"{path} is damaged: try rm {path}")
    return content


def misfit(content: Any, kind: Any, texts: tuple[type, ...] = (str,)) -> str | None:
    """The first place that does not fit, as a dotted name (empty: the whole); None if everything fits.

    Args:
        content: dicts, lists and plain values.
        kind: a TypedDict (further keys are allowed), dict[str, T], list[T], tuple[T, U] for a
            list of that length, a union, or a plain type, where a float may be an int, a bool is no number, and torch's
            64 bits hold every int. Anything fits another class, but for a tensor, which no file holds.
        texts: of which a str may be.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    parts: list[tuple[str, Any, Any]] = []
    if origin in UNIONS:
        fits = any(misfit(content, own, texts) is None for own in arguments)
    elif is_typeddict(kind):
        fits = isinstance(content, dict)
        if fits and (missing := kind.__required_keys__ - content.keys()):
            return str(min(missing))
        parts = [(f".{key}", content[key], own) for key, own in _hints(kind).items() if key in content] if fits else []
    elif origin in MAPPINGS:
        fits = isinstance(content, dict) and all(misfit(key, arguments[0], texts) is None for key in content)
        parts = [(f".{key}", value, arguments[1]) for key, value in content.items()] if fits else []
    elif origin in LISTS:
        any_length = len(arguments) == 1 or arguments[1:] == (...,)
        fits = isinstance(content, list | tuple) and (any_length or len(content) == len(arguments))
        if fits:
            kinds = arguments[:1] * len(content) if any_length else arguments
            parts = [(f"[{i}]", *pair) for i, pair in enumerate(zip(content, kinds, strict=True))]
    elif kind is str or kind in PLAIN:
        fits = type(content) in (texts if kind is str else PLAIN[kind])
        fits = fits and not (type(content) is int and abs(content) >= 2**63)
    else:
        fits = getattr(kind, "__name__", "") != "Tensor"
    if not fits:
        return ""
    for name, value, own in parts:
        if (place := misfit(value, own, texts)) is not None:
            return f"{name}{place if place[:1] in ('', '[', '.') else f'.{place}'}".removeprefix(".")
    return None


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def kept(path: Path, kind: type[T], make: Callable[[], T], *, is_whole: Callable[[T], bool] = lambda _: True) -> T:
    """What `make` gives, kept in a .json file: made once, while other processes wait; again if the file does not fit.

    Args:
        path: of the file, named after all that the content depends on.
        kind: TypedDict of the content.
        is_whole: whether what belongs to the content, such as a file beside it, is there.
    """
    if (content := known(path, kind, is_whole=is_whole)) is not None:
        return content
    with locked(path.with_suffix(".lock")):
        if (content := known(path, kind, is_whole=is_whole)) is None:
            content = make()
            write_text(path, json.dumps(content))  # last: marks all of it as complete
    return content


def known(path: Path, kind: type[T], *, is_whole: Callable[[T], bool] = lambda _: True) -> T | None:
    """What is kept in a file; None if it is not there, or does not fit."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        content: Any = json.loads(path.read_bytes())
        if misfit(content, kind) is None and is_whole(content):
            return content  # type: ignore[no-any-return]
    return None
