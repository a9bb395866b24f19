"""Images that no memory holds: a `Split` indexes them as it does a tensor, and they are read when a step needs them."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import PIL
import torch
from torch import Tensor

from contrastive.dataset.folder.decode import Array, decode
from contrastive.dataset.shard.index import ENTRY, Entries, Index
from contrastive.dataset.shard.tar import BLOCKSIZE, name_in, names_of_files
from contrastive.errors import ConfigError
from contrastive.files import content_of

DECODER = f"Pillow {PIL.__version__}"  # what a run on stored images records: its steps decode
SMALL = 4096  # bytes of an image: a decode so short that threads wait for Python longer than they gain
Rows = npt.NDArray[np.int64]


class StoredImages:
    """Images that stay encoded: `images[index]` reads, checks and decodes them, (N, 3, size, size) uint8.

    Nothing is open between two calls.

    Args:
        indices: of the shards.
        size: side of the images in pixels.
        rows: (N,) int64, which images of all shards, in this order; None = all.
    """

    device, dtype = torch.device("cpu"), torch.uint8

    def __init__(self, indices: Sequence[Index], *, size: int, rows: Rows | None = None) -> None:
        self.indices, self.size = indices, size
        self.ends = np.cumsum([len(index.entries) for index in indices])
        self.rows = np.arange(self.ends[-1]) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self), 3, self.size, self.size))

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded images."""
        return self.shape.numel()

    @property
    def content(self) -> npt.NDArray[np.uint64]:
        """(N,) what `content_of` gives of each."""
        content: npt.NDArray[np.uint64] = self._entries(torch.arange(len(self)))[1]["content"]
        return content

    def select(self, index: Tensor) -> "StoredImages":
        """The same images, but only these rows, numbers or a mask; nothing is read."""
        return StoredImages(self.indices, size=self.size, rows=self.rows[index.numpy()])

    def to(self, device: torch.device | str) -> Tensor:
        """All of them, on a device."""
        return self[torch.arange(len(self))].to(device)

    def __getitem__(self, index: Tensor) -> Tensor:
        """(b,) int64 → (b, 3, size, size), in the order of the index.

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

    def read(self, index: Tensor) -> Iterator[bytes]:
        """The bytes of these images, which ascend."""
        return self._read(*self._entries(index))

    def _images(self, index: Tensor, frame: int | None) -> tuple[Tensor, Tensor]:
        """The images of these rows, whole or cropped, and their heights and widths."""
        (shard, entries), side = self._entries(index), frame or self.size
        out = np.zeros((len(entries), 3, side, side), np.uint8)
        extent = np.empty((len(entries), 2), np.int64)

        def decode_some(places: npt.NDArray[np.intp]) -> None:
            for j, raw in zip(places, self._read(shard[places], entries[places]), strict=True):
                pixels = self._decode(raw, self.indices[shard[j]].shard, entries[j], frame)
                _, height, width = pixels.shape
                out[j, :, :height, :width], extent[j] = pixels, (height, width)

        order = np.lexsort((entries["offset"], shard))  # along the disk
        n_threads = 1 if np.mean(entries["content"] >> np.uint64(32)) <= SMALL else torch.get_num_threads()
        if n_threads == 1:
            decode_some(order)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(decode_some, np.array_split(order, 4 * n_threads)))
        return torch.from_numpy(out), torch.from_numpy(extent)

    def _entries(self, index: Tensor) -> tuple[npt.NDArray[np.int64], Entries]:
        """The shard of each image, and its entry there."""
        rows = self.rows[index.cpu().numpy()]
        shard = np.searchsorted(self.ends, rows, side="right")
        entries = np.empty(len(rows), ENTRY)
        for s in np.unique(shard):
            here = shard == s
            entries[here] = self.indices[s].entries[rows[here] - (self.ends[s - 1] if s else 0)]
        return shard, entries

    def _read(self, shard: npt.NDArray[np.int64], entries: Entries) -> Iterator[bytes]:
        """The bytes of each entry, whose shards ascend."""
        for s in np.unique(shard):
            with self.indices[s].shard.open("rb", buffering=0) as file:
                for entry in entries[shard == s]:
                    yield os.pread(file.fileno(), int(entry["content"]) >> 32, int(entry["offset"]))

    def _decode(self, raw: bytes, shard: Path, entry: np.void, frame: int | None) -> Array:
        """The pixels. Only a checksum finds most damage: decoders do not notice it."""
        if content_of(raw) != entry["content"]:
            raise ConfigError(
                f"{_name(shard, entry)} is damaged, its bytes are not those that were indexed: try copying it again"
            )
        pixels = decode(raw, self.size, frame=frame)
        if isinstance(pixels, str):
            raise ConfigError(
                f"{_name(shard, entry)} is as it was indexed and cannot be decoded here ({pixels}): "
                "try another dataset.size, or the Pillow that indexed it"
            )
        return pixels


def _name(shard: Path, entry: np.void) -> str:
    """The key of an image, the file that it was packed from, and its shard."""
    with shard.open("rb") as file:
        file.seek(int(entry["offset"]) - BLOCKSIZE)
        header = name_in(file.read(BLOCKSIZE))
    packed = names_of_files(shard).get(header.partition(".")[0])
    return f"{header}{f' ({packed})' if packed else ''} in {shard}, byte {entry['offset']},"
