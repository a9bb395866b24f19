"""Images that stay encoded, in tars or loose files: `images[index]` reads, checks and decodes them."""

import io
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import PIL
import torch
from torch import Tensor

from contrastive.dataset.folder.decode import Pixels, decode
from contrastive.dataset.shard.index import ENTRY, Entries, Index
from contrastive.dataset.shard.store import Files, names_of_files, read
from contrastive.dataset.shard.stored import Stored
from contrastive.dataset.shard.tar import BLOCKSIZE, name_in
from contrastive.errors import ConfigError

DECODER = f"Pillow {PIL.__version__}"  # what a run on stored images records: its steps decode
CHANGED = "its bytes are not those that were indexed"
SMALL = 4096  # bytes of an image: a decode so short that threads wait for Python longer than they gain


class StoredImages(Stored):
    """The images of shards, (N, 3, size, size) uint8.

    Nothing is open or held between two calls but the mapped index.

    Args:
        indices: of the shards, in the order of the rows.
        size: side of the images in pixels; they are decoded as `image_folder` decodes.
        orientation: as in `decode`.
        chosen: (n,) int64, the rows to keep, in this order; None = all.
    """

    def __init__(
        self,
        indices: Sequence[Index],
        *,
        size: int,
        orientation: bool = True,
        chosen: npt.NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(torch.Size((3, size, size)), torch.uint8)
        self.indices, self.size, self.orientation, self.chosen = indices, size, orientation, chosen
        self.ends = np.cumsum([len(index.entries) for index in indices])

    def __len__(self) -> int:
        return int(self.ends[-1]) if self.chosen is None else len(self.chosen)

    def select(self, index: Tensor) -> "StoredImages":
        rows = (index.nonzero().squeeze(1) if index.dtype == torch.bool else index).numpy()
        chosen = rows if self.chosen is None else self.chosen[rows]
        return StoredImages(self.indices, size=self.size, orientation=self.orientation, chosen=chosen)

    @property
    def content(self) -> npt.NDArray[np.uint64]:
        """(N,) lengths and checksums: equal for images of the same bytes, and by chance for one pair in billions."""
        entries = [(index.entries["length"].astype(np.uint64) << 32) | index.entries["crc"] for index in self.indices]
        return np.concatenate(entries)[slice(None) if self.chosen is None else self.chosen]

    def __getitem__(self, index: Tensor) -> Tensor:
        """(b,) int64 → (b, 3, size, size) uint8.

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
        rows = index.cpu().numpy()
        shard, entries = self._entries(rows)
        side = frame or self.size
        out, extent = np.zeros((len(rows), 3, side, side), np.uint8), np.empty((len(rows), 2), np.int64)
        order = np.lexsort((entries["offset"], shard))  # along the disk

        def decode_some(places: npt.NDArray[np.intp]) -> None:
            for s in np.unique(shard[places]):
                here = places[shard[places] == s]
                encoded = self._read(s, entries[here])
                for j, raw in zip(here, encoded, strict=True):
                    pixels = self._decode(raw, entries[j], frame)
                    if isinstance(pixels, str):
                        raise self._error(s, entries[j], pixels)
                    _, height, width = pixels.shape
                    out[j, :, :height, :width], extent[j] = pixels, (height, width)

        n_threads = 1 if np.mean(entries["length"]) <= SMALL else torch.get_num_threads()
        if n_threads == 1:
            decode_some(order)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(decode_some, np.array_split(order, 4 * n_threads)))
        return torch.from_numpy(out), torch.from_numpy(extent)

    def _read(self, s: int, entries: Entries) -> Iterator[bytes]:
        """The bytes of images of one shard."""
        return read(self.indices[s].shard, entries["offset"].tolist(), entries["length"].tolist())

    def _entries(self, rows: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Entries]:
        """The shard of each row, and its entry there."""
        rows = rows if self.chosen is None else self.chosen[rows]
        shard = np.searchsorted(self.ends, rows, side="right")
        entries = np.empty(len(rows), ENTRY)
        for s in np.unique(shard):
            here = shard == s
            entries[here] = self.indices[s].entries[rows[here] - (self.ends[s - 1] if s else 0)]
        return shard, entries

    def _decode(self, raw: bytes, entry: np.void, frame: int | None) -> Pixels | str:
        """The pixels, or what is wrong with the bytes. Only a checksum finds most damage: decoders do not notice it."""
        if len(raw) != entry["length"] or zlib.crc32(raw) != entry["crc"]:
            return CHANGED
        return decode(io.BytesIO(raw), self.size, frame, orientation=self.orientation)

    def _error(self, s: int, entry: np.void, fault: str) -> ConfigError:
        """What is wrong with an image, by its file, or by shard, key and the file that it was packed from."""
        shard, offset = self.indices[s].shard, int(entry["offset"])
        if isinstance(shard, Files):
            name, what = shard.paths[offset], "file"
        else:
            header = name_in(next(read(shard, [offset - BLOCKSIZE], [BLOCKSIZE])))
            file = names_of_files(shard).get(header.partition(".")[0])
            name, what = f"{header}{f' ({file})' if file else ''}, byte {offset}", "shard"
        if fault == CHANGED:
            return ConfigError(f"{shard} is damaged at {name}: {fault}: try copying the {what} again")
        return ConfigError(
            f"{shard} has an image that is as it was indexed and cannot be decoded here, {name}: {fault}: "
            "try another dataset.size, or the Pillow that indexed it"
        )
