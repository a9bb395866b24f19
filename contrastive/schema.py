"""Whether plain data fit what a type describes: a file that anybody may have written, or what somebody typed.

class Facts(TypedDict):
    mean: list[float]
    faults: dict[str, str]

misfit(json.loads(text), Facts)  # "mean[2]" where that is no number; None where everything fits
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from contrastive.errors import ConfigError
from contrastive.files import locked, write_text

T = TypeVar("T")

PLAIN = {bool: (bool,), int: (int,), float: (int, float), None: (NoneType,), NoneType: (NoneType,)}
UNIONS, MAPPINGS, LISTS = (Union, UnionType), (dict, Mapping), (list, tuple, Sequence)
TYPED = (str, int, float)  # a text that is typed without quotes: 2024


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


@cache
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
