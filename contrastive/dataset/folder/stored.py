"""Images that no memory holds: a `Split` indexes them as it does a tensor, and they are read when a step needs them."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numpy as np
import numpy.typing as npt
import PIL
import torch
from torch import Tensor

from contrastive.dataset.folder.decode import RGB_8, Kind, decode
from contrastive.errors import ConfigError

DECODER = f"Pillow {PIL.__version__}"  # what a run on stored images records: its steps decode
SMALL = 4096  # bytes of an image: a decode so short that threads wait for Python longer than they gain
Rows = npt.NDArray[np.int64]
Contents = npt.NDArray[np.uint64]


class Stored(ABC):
    """`images[index]` is a tensor (b, K, H, W), in the order of the index.

    Args:
        image: shape (K, H, W) of each.
        dtype: uint8 or uint16.
    """

    device = torch.device("cpu")

    def __init__(self, image: torch.Size, dtype: torch.dtype) -> None:
        self.image_shape, self.dtype = image, dtype

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Tensor) -> Tensor:
        """The images of these rows (b,) int64."""

    @abstractmethod
    def select(self, index: Tensor) -> "Stored":
        """The same images, but only these rows, numbers or a mask; nothing is read."""

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self), *self.image_shape))

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded images."""
        return self.shape.numel() * self.dtype.itemsize

    def dim(self) -> int:
        return 4

    def as_tensor(self) -> Tensor:
        """These images, for the type checker: `Split` indexes them as a tensor."""
        return cast(Tensor, self)

    def to(self, device: torch.device | str) -> Tensor:
        """All of them, on a device."""
        return self[torch.arange(len(self))].to(device)


class Source(ABC):
    """Encoded images, in files or in tars, by row."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def content(self, rows: Rows) -> Contents:
        """(b,) the `content_of` that these rows had when they were examined."""

    @abstractmethod
    def read(self, rows: Rows) -> Iterator[bytes]:
        """The bytes of each of these rows, which ascend; raises ConfigError if one cannot be read."""

    @abstractmethod
    def name(self, row: int) -> str:
        """Where the bytes of a row lie."""


def content_of(raw: bytes) -> int:
    """Length and crc32: equal for images of the same bytes, and by chance for one pair in billions."""
    return len(raw) << 32 | zlib.crc32(raw)


class StoredImages(Stored):
    """Images that stay encoded: `images[index]` reads, checks and decodes them, (N, K, size, size).

    Nothing is open between two calls.

    Args:
        source: of the bytes.
        size: side of the images in pixels.
        kind: of the images.
        chosen: (n,) int64, the rows to keep, in this order; None = all.
    """

    def __init__(self, source: Source, *, size: int, kind: Kind = RGB_8, chosen: Rows | None = None) -> None:
        super().__init__(torch.Size((kind.channels, size, size)), getattr(torch, kind.dtype.name))
        self.source, self.size, self.kind, self.chosen = source, size, kind, chosen

    def __len__(self) -> int:
        return len(self.source) if self.chosen is None else len(self.chosen)

    def select(self, index: Tensor) -> "StoredImages":
        rows = (index.nonzero().squeeze(1) if index.dtype == torch.bool else index).numpy()
        chosen = rows if self.chosen is None else self.chosen[rows]
        return StoredImages(self.source, size=self.size, kind=self.kind, chosen=chosen)

    @property
    def content(self) -> Contents:
        """(N,) what `content_of` gives of each."""
        return self.source.content(np.arange(len(self.source)) if self.chosen is None else self.chosen)

    def __getitem__(self, index: Tensor) -> Tensor:
        """(b,) int64 → (b, K, size, size).

        Raises:
            ConfigError: an image is damaged, or cannot be read or decoded here; the sentence names it.
        """
        return self._images(index, None)[0]

    def frames(self, index: Tensor, side: int) -> tuple[Tensor, Tensor]:
        """(b,) int64 → (b, 3, side, side) uint8, and (b, 2) int64, height and width: the whole images.

        Each lies at the top left, black beside it. One that is longer than `side` is shrunk to it; none is enlarged.

        Raises:
            ConfigError: as of `images[index]`.
        """
        return self._images(index, side)

    def _images(self, index: Tensor, frame: int | None) -> tuple[Tensor, Tensor]:
        """The images of these rows, whole or cropped, and their heights and widths."""
        rows = index.cpu().numpy() if self.chosen is None else self.chosen[index.cpu().numpy()]
        content, side = self.source.content(rows), frame or self.size
        out = np.zeros((len(rows), self.kind.channels, side, side), self.kind.dtype)
        extent = np.empty((len(rows), 2), np.int64)

        def decode_some(places: npt.NDArray[np.intp]) -> None:
            for j, raw in zip(places, self.source.read(rows[places]), strict=True):
                pixels = self._decode(raw, int(rows[j]), int(content[j]), frame)
                _, height, width = pixels.shape
                out[j, :, :height, :width], extent[j] = pixels, (height, width)

        order = np.argsort(rows)  # along the disk
        n_threads = 1 if np.mean(content >> np.uint64(32)) <= SMALL else torch.get_num_threads()
        if n_threads == 1:
            decode_some(order)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(decode_some, np.array_split(order, 4 * n_threads)))
        return torch.from_numpy(out), torch.from_numpy(extent)

    def _decode(self, raw: bytes, row: int, content: int, frame: int | None) -> npt.NDArray[np.generic]:
        """The pixels. Only a checksum finds most damage: decoders do not notice it."""
        if content_of(raw) != content:
            raise ConfigError(
                f"{self.source.name(row)} is damaged, its bytes are not those that were indexed: try copying it again"
            )
        pixels = decode(raw, self.size, self.kind, frame=frame)
        if isinstance(pixels, str):
            raise ConfigError(
                f"{self.source.name(row)} is as it was indexed and cannot be decoded here ({pixels}): "
                "try another dataset.size, or the Pillow that indexed it"
            )
        return pixels
