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
        ValueError: other text; it is refused before it can fill the memory.
    """
    count, _, packed = text.partition(":")
    n_bytes = (int(count) + 7) // 8
    if n_bytes < 0:  # zlib would take it for no limit
        raise ValueError(f"{count} bits were announced")
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(packed, validate=True), n_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"no compressed bits: {error}") from error
    if len(raw) != n_bytes:
        raise ValueError(f"{count} bits were announced, and the data holds another number")
    return np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=int(count)).astype(bool)
