"""One bit for each of many images, as short text: which of them a classifier got right."""

import base64
import zlib

import numpy as np
from numpy.typing import ArrayLike, NDArray


def pack(bits: ArrayLike) -> str:
    """Booleans (N,) as `N:base64` of their compressed bits."""
    array = np.asarray(bits, dtype=bool)
    return f"{len(array)}:{base64.b64encode(zlib.compress(np.packbits(array).tobytes(), 9)).decode()}"


def unpack(text: str) -> NDArray[np.bool_]:
    """The booleans (N,) that `pack` wrote.

    Raises:
        ValueError: other text.
    """
    count, _, packed = text.partition(":")
    raw = np.frombuffer(zlib.decompress(base64.b64decode(packed, validate=True)), dtype=np.uint8)
    return np.unpackbits(raw, count=int(count)).astype(bool)
