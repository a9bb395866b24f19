"""What anchors are compared with beside the views of their own batch: another source, a queue, equal images."""

from typing import NamedTuple

from torch import Tensor

from contrastive.errors import ConfigError, check_choice

DIRECTIONS = ("both", "first")


class Others(NamedTuple):
    """Candidates from elsewhere. Without any field set, anchors and candidates are the views of one batch.

    Args:
        across: the two views are two sources, and an anchor of one has its candidates in the other: `both` takes
            anchors from each, `first` from the first alone (queries against documents).
        keys: (B, 2, D) with `across`, what stands as candidates in place of z, such as a teacher's projections.
        memory: (K, D) further candidates of every anchor: a queue, or mined hard negatives.
        memory_label: (K,) int64, -1 = unknown.
        memory_ids: (K,) int64 beside `ids`, -1 = unknown.
        memory_only: the memory holds all negatives; the batch has only the positives (MoCo v2).
        ids: (B,) int64, -1 = unknown. Candidates of an anchor's id are no negatives of it.
    """

    across: str | None = None
    keys: Tensor | None = None
    memory: Tensor | None = None
    memory_label: Tensor | None = None
    memory_ids: Tensor | None = None
    memory_only: bool = False
    ids: Tensor | None = None

    @property
    def uses(self) -> list[str]:
        """The kinds of comparison that a loss must have a meaning for, see `Loss.takes`."""
        fields = {"keys": self.keys, "memory": self.memory, "ids": self.ids}
        used = [name for name, value in fields.items() if value is not None]
        return [*used, *(["memory_only"] if self.memory_only else []), *([] if self.across is None else [self.across])]

    def directions(self, z: Tensor) -> list[tuple[Tensor, "Others"]]:
        """z (B, V, D) → the anchors and the candidates of each `Pairs`: one, or with `across` one a direction."""
        if self.across is None:
            return [(z, self)]
        keys = z if self.keys is None else self.keys
        views = (0, 1) if self.across == "both" else (0,)
        return [(z[:, v : v + 1], self._replace(keys=keys[:, 1 - v : 2 - v])) for v in views]

    def check(self, z: Tensor, *, name: str, takes: tuple[str, ...]) -> None:
        """Raise ConfigError if fields contradict one another or z (B, V, D), or if the loss does not take them.

        Args:
            name: of the loss.
            takes: what it has a meaning for.
        """
        if self.across is not None:
            check_choice("across", self.across, DIRECTIONS)
        for use in self.uses:
            if use not in takes:
                what = f"across={use!r}" if use in DIRECTIONS else use
                raise ConfigError(f"{name} cannot be used with {what}: leave it out, or try NTXent()")
        n, n_views, dim = z.shape
        if self.across is not None and n_views != 2:
            raise ConfigError(f"across compares two sources, got {n_views} views: try loss(z0, z1, across='both')")
        if self.keys is not None and self.across is None:
            raise ConfigError("keys are the candidates of another source: try across='both'")
        if self.memory is None and not (self.memory_label is None and self.memory_ids is None and not self.memory_only):
            raise ConfigError("memory_label, memory_ids and memory_only describe a memory: try memory=queue, (K, D)")
        if self.memory_ids is not None and self.ids is None:
            raise ConfigError("memory_ids are compared with ids of the batch: try ids=index, (B,)")
        size = -1 if self.memory is None else len(self.memory)
        _check_shape("keys", self.keys, "(B, 2, D)", (n, 2, dim))
        _check_shape("memory", self.memory, "(K, D)", (size, dim))
        _check_shape("memory_label", self.memory_label, "(K,)", (size,))
        _check_shape("memory_ids", self.memory_ids, "(K,)", (size,))
        _check_shape("ids", self.ids, "(B,)", (n,))


def _check_shape(name: str, value: Tensor | None, letters: str, shape: tuple[int, ...]) -> None:
    if value is not None and tuple(value.shape) != shape:
        raise ConfigError(f"{name} must have the shape {letters} = {shape}, got {tuple(value.shape)}: try {name}=None")
