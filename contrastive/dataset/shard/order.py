"""The order of an epoch as a function of its key: no memory, and it may begin anywhere."""

import hashlib

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from contrastive.seeding import derive
from contrastive.types import Windows

Rows = npt.NDArray[np.uint64]
ORDER = (
    1  # raise it when the same key would give another order: no run goes on with an order that it did not begin with
)
ROUNDS = 6
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, made odd: Knuth's multiplicative hash


class Permutation:
    """`permutation(i)`: a keyed bijection of 0..n-1, a Feistel network walked until it stays below n.

    Black & Rogaway 2002, "Ciphers with arbitrary finite domains": on average at most two walks. Not for secrets.
    """

    def __init__(self, n: int, *key: object) -> None:
        bits = max(2, (n - 1).bit_length())
        self.n, self.low, self.high = n, bits // 2, bits - bits // 2
        digest = hashlib.sha512(repr(key).encode()).digest()
        self.keys = np.frombuffer(digest, "<u8")[:ROUNDS]

    def __call__(self, i: Rows) -> Rows:
        x = self._mix(i)
        while (outside := x >= self.n).any():
            x[outside] = self._mix(x[outside])
        return x

    def _mix(self, x: Rows) -> Rows:
        """A bijection of all numbers of so many bits. The halves change places, and with them their widths."""
        a, b = self.low, self.high
        for key in self.keys:
            left, right = x >> np.uint64(b), x & np.uint64((1 << b) - 1)
            left = (left ^ _hash(right + key)) & np.uint64((1 << a) - 1)
            x = (right << np.uint64(a)) | left
            a, b = b, a
        return x


def _hash(x: Rows) -> Rows:
    x = (x ^ (x >> np.uint64(32))) * ODD
    x = (x ^ (x >> np.uint64(29))) * ODD
    return x ^ (x >> np.uint64(32))


class Order:
    """Rows in the order of an epoch: `order.rows(start, stop)`.

    With windows of one row any row may follow any other. Else whole chunks of adjacent rows are permuted, and the rows
    of a window of chunks among themselves: few long reads, for disks that are far away.

    Args:
        n: number of rows.
        windows: see `Windows`.
        key: what fixes the order.
    """

    def __init__(self, n: int, windows: Windows, *key: object) -> None:
        self.n, self.chunk, self.key = n, windows.chunk, key
        self.n_chunks = n // windows.chunk
        self.per_window = max(1, windows.window // windows.chunk)
        self.n_windows = max(1, self.n_chunks // self.per_window)
        self._last: tuple[int, Rows] | None = None  # the window that was read last

    def rows(self, start: int, stop: int) -> Tensor:
        """int64 (stop - start,), the rows at these positions of the order, 0 ≤ start < stop ≤ n."""
        if self.chunk == 1:
            rows = Permutation(self.n, *self.key)(np.arange(start, stop, dtype=np.uint64))
            return torch.from_numpy(rows.astype(np.int64))
        length = self.per_window * self.chunk
        parts = []
        for k in range(min(start // length, self.n_windows - 1), self.n_windows):
            first = k * length
            if first >= stop:
                break
            window = self._window(k)
            parts.append(window[max(0, start - first) : stop - first])
        rows = (np.concatenate(parts) + np.uint64(derive(*self.key, "shift") % self.n)) % np.uint64(self.n)
        return torch.from_numpy(rows.astype(np.int64))

    def _window(self, k: int) -> Rows:
        """The rows of a window; the last one also has what is left of chunks and rows."""
        if self._last is None or self._last[0] != k:
            is_last = k == self.n_windows - 1
            end = self.n_chunks if is_last else (k + 1) * self.per_window
            places = np.arange(k * self.per_window, end, dtype=np.uint64)
            chunks = Permutation(self.n_chunks, *self.key)(places) if self.n_chunks else places
            within = np.arange(self.chunk, dtype=np.uint64)
            rows: Rows = np.add.outer(chunks * np.uint64(self.chunk), within).ravel()
            if is_last:
                rows = np.concatenate([rows, np.arange(self.n_chunks * self.chunk, self.n, dtype=np.uint64)])
            order = Permutation(len(rows), *self.key, "window", k)(np.arange(len(rows), dtype=np.uint64))
            self._last = (k, rows[order])
        return self._last[1]
