"""The order of an epoch as a function of its key: no memory, and it may begin anywhere."""

import hashlib

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Rows = npt.NDArray[np.uint64]
# raise it when the same key would give another order: no run goes on with an order that it did not begin with
ORDER = 1
ROUNDS = 6
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, made odd: Knuth's multiplicative hash


class Order:
    """The rows 0..n-1 in an order that a key fixes: a Feistel network walked until it stays below n.

    Black & Rogaway 2002, "Ciphers with arbitrary finite domains": on average at most two walks. Not for secrets.
    """

    def __init__(self, n: int, *key: object) -> None:
        bits = max(2, (n - 1).bit_length())
        self.n, self.low, self.high = n, bits // 2, bits - bits // 2
        digest = hashlib.sha512(repr(key).encode()).digest()
        self.keys = np.frombuffer(digest, "<u8")[:ROUNDS]

    def rows(self, start: int, stop: int) -> Tensor:
        """int64 (stop - start,), the rows at these positions of the order, 0 ≤ start < stop ≤ n."""
        x = self._mix(np.arange(start, stop, dtype=np.uint64))
        while (outside := x >= self.n).any():
            x[outside] = self._mix(x[outside])
        return torch.from_numpy(x.astype(np.int64))

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
