"""One sample of a shard: its image, its label and its bias, from the files that share its key."""

import io
import json
import math
import posixpath
import re
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.dataset.shard.tar import Members
from contrastive.errors import ConfigError
from contrastive.listing.names import PICTURES

Value = int | str  # of a label or bias
LABEL = "label"  # the field of key.json that is looked at unasked
FOLDER = "folder"  # a field that every sample has whose files lie in one
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
NAMED = 10  # fields that a sentence names


class Fields(NamedTuple):
    """What an index holds beside the bytes.

    Args:
        label: field of key.json with the label. Where it is `label`, key.cls comes first.
        bias: field of key.json with the bias; None = no bias labels.
        image: suffix of the image; None = the one that a picture has.
    """

    label: str = LABEL
    bias: str | None = None
    image: str | None = None


class Sample(NamedTuple):
    """One sample."""

    offset: int
    raw: bytes | None  # of the image; None = none of the files is one
    label: Value | None = None
    bias: Value | None = None
    fields: Collection[str] = ()  # that it has
    suffixes: Collection[str] = ()  # of its files


def read_sample(file: io.BufferedReader, key: str, members: Members, fields: Fields, shard: Path) -> Sample:
    """The sample whose files lie at these places.

    Raises:
        ConfigError: two files are images, or a label or a bias is no whole number and no word.
    """

    def content(suffix: str) -> bytes:
        offset, length = members[suffix]
        file.seek(offset)
        return file.read(length)

    image = image_of(key, members, fields.image, shard)
    folder = posixpath.basename(posixpath.dirname(key))
    named: dict[str, Any] = {FOLDER: folder} if folder else {}
    try:
        if "json" in members:
            named |= json.loads(content("json"))
        is_by_cls = "cls" in members and (fields.label == LABEL or fields.label not in named)
        label = _value(content("cls").decode() if is_by_cls else named.get(fields.label))
        bias = None if fields.bias is None else _value(named.get(fields.bias))
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{shard} has no whole number or word as label or bias of {key} ({error}): "
            "try another dataset.label or dataset.bias"
        ) from error
    if fields.bias is not None and bias is None:
        raise ConfigError(f"{shard} has no {fields.bias} for {key}: {choice('bias', fields.bias, named)}")
    offset, raw = (members[image][0], content(image)) if image else (0, None)
    return Sample(offset, raw, None if label == -1 else label, bias, named.keys(), members.keys())


def choice(setting: str, wanted: str, fields: Collection[str]) -> str:
    """What to try where no sample has the field that is wanted."""
    if not fields:
        return f"try dataset.{setting}={LABEL if setting == LABEL else 'null'}"
    (close,) = get_close_matches(wanted, fields, 1, 0)
    return f"try dataset.{setting}={close}, one of {', '.join(sorted(fields)[:NAMED])}"


def image_of(key: str, members: Members, wanted: str | None, shard: Path) -> str | None:
    """The suffix of the image, `wanted` if it is not None; None if there is none.

    Raises:
        ConfigError: two files are images.
    """
    if wanted is not None:
        return wanted if wanted in members else None
    found = [suffix for suffix in members if f".{suffix}" in PICTURES]
    if len(found) > 1:
        raise ConfigError(
            f"{shard} has {len(found)} images with the key {key}, which ends at the first dot of their names: "
            f"try dataset.image={found[-1]}, one of {', '.join(found)}"
        )
    return found[0] if found else None


def _value(raw: Any) -> Value | None:
    """A label: a whole number, also written as text or as 3.0, or a word; None = there is none."""
    if isinstance(raw, str):
        raw = raw.strip()
        if match := NUMBER.fullmatch(raw):
            raw = float(raw) if match[1] else int(raw)
    if isinstance(raw, float) and math.isfinite(raw) and raw == int(raw):
        raw = int(raw)
    if raw is None or type(raw) is int or (isinstance(raw, str) and raw):
        return raw
    raise ValueError(f"it is {raw!r}")
