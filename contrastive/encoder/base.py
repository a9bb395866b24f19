"""An encoder that hands out a map from its middle."""

from abc import ABC, abstractmethod

from torch import Tensor, nn


class MapEncoder(nn.Module, ABC):
    """An encoder in two parts: images → map → features. A term with `input = "map"` reads what lies between them.

    Any `nn.Module` with an int `dim` is an encoder; only one that derives from this class can be used with such a term
    (`regularizer=lnl`). Write `map` and `features`, and set `dim` and `map_dim`.

    Shapes: images (N, K, H, W) of K channels → map (N, C, h, w) with C = `map_dim` → features (N, F) with F = `dim`.
    """

    dim: int
    map_dim: int

    @abstractmethod
    def map(self, x: Tensor) -> Tensor:
        """(N, K, H, W) → (N, C, h, w)."""

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """(N, C, h, w) → (N, F)."""

    def forward(self, x: Tensor) -> Tensor:
        return self.features(self.map(x))
