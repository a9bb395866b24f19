"""Whether plain data that a file holds have the shape that a type describes: a file may come from anybody.

class Facts(TypedDict):
    mean: list[float]
    faults: dict[str, str]

misfit(json.loads(text), Facts)  # "mean[2]" where that is no number; None where everything fits
"""

import json
import sys
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from contrastive.errors import ConfigError


def read_json(path: Path, kind: Any) -> Any:
    """The content of a JSON that this package wrote beside runs.

    Raises:
        ConfigError: it is damaged.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        content = None
    if content is None or (place := misfit(content, kind)) is not None:
        raise ConfigError(f"{path} is damaged{f' ({place})' if content is not None and place else ''}: try rm {path}")
    return content


def misfit(content: Any, kind: Any) -> str | None:
    """The first place that does not fit, as a dotted name (empty: the whole); None if everything fits.

    Args:
        content: dicts, lists and plain values.
        kind: a TypedDict (further keys are allowed), dict[str, T], list[T], tuple[T, U] for a list of that length, a
            union, a plain type or Any. A float may be an int that fits into one; a bool is no number.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    parts: list[tuple[str, Any, Any]] = []
    if kind is Any:
        fits = True
    elif is_typeddict(kind):
        fits = isinstance(content, dict)
        if fits:
            if missing := sorted(kind.__required_keys__ - content.keys()):
                return str(missing[0])
            parts = [(f".{key}", content[key], own) for key, own in _hints(kind).items() if key in content]
    elif origin is dict:
        fits = isinstance(content, dict) and all(isinstance(key, arguments[0]) for key in content)
        parts = [(f".{key}", value, arguments[1]) for key, value in content.items()] if fits else []
    elif origin is list or origin is tuple:
        fits = isinstance(content, list) and (origin is list or len(content) == len(arguments))
        if fits:
            kinds = arguments * len(content) if origin is list else arguments
            parts = [(f"[{i}]", *pair) for i, pair in enumerate(zip(content, kinds, strict=True))]
    elif origin in (Union, UnionType):
        fits = any(misfit(content, own) is None for own in arguments)
    elif kind is float:
        is_int = isinstance(content, int) and not isinstance(content, bool) and abs(content) <= sys.float_info.max
        fits = isinstance(content, float) or is_int
    else:
        fits = isinstance(content, kind) and (kind is bool or not isinstance(content, bool))
    if not fits:
        return ""
    for name, value, own in parts:
        if (place := misfit(value, own)) is not None:
            return f"{name}{place if place[:1] in ('', '[', '.') else f'.{place}'}".removeprefix(".")
    return None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)
