"""The images of shards by row: which bytes of which tar they are."""

import os
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from contrastive.dataset.folder.stored import Contents, Rows, Source
from contrastive.dataset.shard.index import ENTRY, Entries, Index
from contrastive.dataset.shard.tar import BLOCKSIZE, name_in, names_of_files


class Shards(Source):
    """The images of indexed shards, in their order."""

    def __init__(self, indices: Sequence[Index]) -> None:
        self.indices, self.ends = indices, np.cumsum([len(index.entries) for index in indices])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def content(self, rows: Rows) -> Contents:
        content: Contents = self._entries(rows)[1]["content"]
        return content

    def read(self, rows: Rows) -> Iterator[bytes]:
        shard, entries = self._entries(rows)
        for s in np.unique(shard):
            with self.indices[s].shard.open("rb", buffering=0) as file:
                for entry in entries[shard == s]:
                    yield os.pread(file.fileno(), int(entry["content"]) >> 32, int(entry["offset"]))

    def name(self, row: int) -> str:
        """The shard, the key and the file that it was packed from."""
        (s,), (entry,) = self._entries(np.array([row]))
        shard, offset = self.indices[s].shard, int(entry["offset"])
        with shard.open("rb") as file:
            file.seek(offset - BLOCKSIZE)
            header = name_in(file.read(BLOCKSIZE))
        packed = names_of_files(shard).get(header.partition(".")[0])
        return f"{header}{f' ({packed})' if packed else ''} in {shard}, byte {offset},"

    def _entries(self, rows: Rows) -> tuple[npt.NDArray[np.int64], Entries]:
        """The shard of each row, and its entry there."""
        shard = np.searchsorted(self.ends, rows, side="right")
        entries = np.empty(len(rows), ENTRY)
        for s in np.unique(shard):
            here = shard == s
            entries[here] = self.indices[s].entries[rows[here] - (self.ends[s - 1] if s else 0)]
        return shard, entries
