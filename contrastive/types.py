"""Records passed between the parts of a run, and the symbols that shapes use in every docstring.

B images in a batch, V views of each, A = B·V anchors, M = V - 1 positives of an anchor, F features, D projections,
C classes, N images of a split. Images are uint8 or uint16 (N, K, H, W) of K channels, 3 in most data; labels and biases
int64 (N,), label -1 means unlabeled.
"""

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from contrastive.listing.found import Found


def widen(x: Tensor) -> Tensor:
    """Half precision as float32; float64 stays."""
    return x if x.dtype == torch.float64 else x.float()


LEVELS = {torch.uint8: 256, torch.uint16: 65_536}  # the dtypes of images


def as_float(image: Tensor) -> Tensor:
    """uint8 or uint16 images as float32 in [0, 1]; float ones stay."""
    if image.dtype == torch.uint8:
        return image.to(torch.float32) / 255
    return image.to(torch.float32) / 65_535 if image.dtype == torch.uint16 else image


def visible(image: Tensor, like: Tensor | None = None) -> Tensor:
    """Images (N, K, H, W) of K channels as float32 (N, 3, H, W), to be looked at: RGB as it is, else the mean over the
    channels, stretched so that black is the darkest and white the brightest of each image.

    Args:
        like: images of which it is the darkest and the brightest instead; brighter ones are above 1.
    """
    x = as_float(image)
    if x.shape[1] == 3:
        return x
    x = x.mean(1, keepdim=True)
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    if like is not None:
        low, high = as_float(like).mean(1).aminmax()
    return ((x - low) / (high - low).clamp(min=1e-6)).expand(-1, 3, -1, -1)


def count_pairs(first: Tensor, second: Tensor, n_first: int, n_second: int) -> Tensor:
    """How often each pair of two numbers (N,), such as class and bias, occurs: (n_first, n_second) int64. Pairs with a
    -1, for unknown, are left out."""
    pair = (first * n_second + second)[(first >= 0) & (second >= 0)]
    return torch.bincount(pair, minlength=n_first * n_second).view(n_first, n_second)


def unit(x: Tensor) -> Tensor:
    """The vectors along the last dimension scaled to length 1; in a vector of length 0 the gradient grows a
    millionfold at most."""
    return F.normalize(x, dim=-1, eps=1e-6)


class Shard(NamedTuple):
    """Slice of the global batch owned by one rank: equal parts, in rank order."""

    rank: int = 0
    world_size: int = 1

    def of(self, n: int) -> slice:
        """The slice of n images, a multiple of `world_size`, that this rank holds."""
        size = n // self.world_size
        return slice(self.rank * size, (self.rank + 1) * size)


@dataclass(frozen=True)
class Split:
    """Images with their labels and, where the data has them, bias labels."""

    image: Tensor  # (N, K, H, W) uint8 or uint16; or `StoredImages`, which are indexed alike
    label: Tensor  # (N,) int64, -1 = unlabeled
    bias: Tensor | None = None  # (N,) int64
    bias_features: Tensor | None = None  # (N, F) of the training images with `bias_from`; for `Loss.prepare`
    mistaken: Tensor | None = None  # (N,) bool, the training images that `bias_from` gets wrong; for `Loss.prepare`
    keyed: bool = False  # the order of an epoch is a function of its key, see `Order`; False = one draw of all rows
    frame: int | None = None  # of stored images: views are of whole images, see `for_views`; None = of `image`

    def __repr__(self) -> str:
        biases = "" if self.bias is None else ", bias labels"
        return f"Split({len(self):,} images {tuple(self.image.shape[1:])}{biases})"

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, index: Tensor) -> "Split":
        return Split(self.image[index], self.label[index], None if self.bias is None else self.bias[index])

    def select(self, index: Tensor) -> "Split":
        """The split of these rows, numbers or a mask; stored images stay on disk."""
        if isinstance(self.image, Tensor):
            return self[index]
        bias = None if self.bias is None else self.bias[index]
        return Split(self.image.select(index), self.label[index], bias, keyed=self.keyed, frame=self.frame)

    def for_views(self, index: Tensor) -> tuple["Split", Tensor | None]:
        """The images of these rows to draw views from, and their extents: (b, 2) int64, height and width in pixels.

        With a `frame` they are whole, at the top left of (b, K, frame, frame). Without one they are `self[index]`, and
        the extents None.
        """
        if self.frame is None or isinstance(self.image, Tensor):
            return self[index], None
        image, extent = self.image.frames(index, self.frame)
        return Split(image, self.label[index], None if self.bias is None else self.bias[index]), extent

    def to(self, device: torch.device | str) -> "Split":
        bias = None if self.bias is None else self.bias.to(device)
        return Split(self.image.to(device), self.label.to(device), bias, keyed=self.keyed)


@dataclass(frozen=True)
class Batch:
    """B images for one step."""

    image: Tensor  # (B, K, H, W) uint8 or uint16
    label: Tensor  # (B,) int64
    bias: Tensor | None = None  # (B,) int64
    view1_source: Tensor | None = None  # (B, K, H, W), images to draw view 1 from; None = the same images
    second: "Batch | None" = None  # another batch, for a regularizer with a batch of its own
    index: Tensor | None = None  # (B,) int64, the rows of the training split that these images are
    # (B, 2) int64, height and width of images at the top left of `image`; None = all of it
    extent: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        """Copy to the device, see `move`."""
        copies: dict[str, Any] = {
            name: value.to(device) if isinstance(value, Batch) else move(value, device)
            for name, value in present(self).items()
        }
        return Batch(**copies)


def tensors(batch: Batch) -> list[Tensor]:
    """All that a batch has, those of its second batch too, in the order of its fields."""
    nested = [tensors(x) if isinstance(x, Batch) else [x] for x in present(batch).values()]
    return [x for part in nested for x in part]


def present(batch: Batch) -> dict[str, Any]:
    """The fields of a batch that are not None, by name."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in values.items() if value is not None}


def move(value: Tensor, device: torch.device) -> Tensor:
    """Copy to the device; copies to a GPU go through pinned memory and do not block."""
    if device.type == "cuda" and not value.is_cuda:
        value = value.pin_memory()
    return value.to(device, non_blocking=True)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Named splits of a dataset, and facts about it.

    `pretrain` is the training split and the kNN bank. Its labeled images are divided into a fixed tenth for validation
    (`probe_val`), used only to select hyperparameters, and nine tenths to fit probes on (`probe_train`). The validation
    images are entries of `pretrain` (`probe_val_index`), so that their features are extracted once, or a split of their
    own (`probe_val_split`): held out of `pretrain`, or shown recolored. Exactly one of the two is given.
    """

    pretrain: Split
    probe_train: Tensor  # (n,) int64, indices into `pretrain`
    probe_val_index: Tensor | None = None  # (m,) int64, indices into `pretrain`
    probe_val_split: Split | None = None
    test: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]  # by channel, of the training images scaled to [0, 1]
    std: tuple[float, ...]
    biases: tuple[str, ...] = ()  # names of the bias labels
    facts: dict[str, str] = field(default_factory=dict)  # recorded by the run, beside the hash of the data
    found: "Found | None" = None  # what folders, tables, shards or arrays were found to hold
    digest: str | None = None  # sha256 that identifies the images and labels; None = computed from the splits

    def __repr__(self) -> str:
        biases = f", {len(self.biases)} biases" if self.biases else ""
        return f"Data({len(self.classes)} classes{biases}, pretrain={self.pretrain}, test={self.test})"

    @property
    def probe_val(self) -> Split:
        """The validation images; copied out of `pretrain` at each call when they are indices into it."""
        if self.probe_val_split is not None:
            return self.probe_val_split
        assert self.probe_val_index is not None
        return self.pretrain.select(self.probe_val_index)

    @property
    def majority(self) -> dict[str, Any]:
        """{majority: {class, percent}} where more than half of the labeled test images share a class, else {}."""
        label = self.test.label[self.test.label >= 0]
        counts = torch.bincount(label, minlength=1)
        n, c = int(counts.max()), int(counts.argmax())
        name = self.classes[c] if c < len(self.classes) else str(c)
        return {"majority": {"class": name, "percent": 100 * n / len(label)}} if 2 * n > len(label) else {}

    @property
    def n_channels(self) -> int:
        """K, of every image."""
        return int(self.pretrain.image.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of all images."""
        splits = (self.pretrain, self.probe_val_split, self.test)
        return sum(split.image.nbytes for split in splits if split is not None)

    def to(self, device: torch.device) -> "Data":
        index, split = self.probe_val_index, self.probe_val_split
        return replace(
            self,
            pretrain=self.pretrain.to(device),
            probe_train=self.probe_train.to(device),
            probe_val_index=None if index is None else index.to(device),
            probe_val_split=None if split is None else split.to(device),
            test=self.test.to(device),
        )


@dataclass(frozen=True)
class Features:
    """Features of a split by a frozen encoder: `h` (N, F) float32, `label` (N,) int64, `bias` (N,) int64 or None."""

    h: Tensor
    label: Tensor
    bias: Tensor | None = None

    @classmethod
    def empty(cls, dim: int, device: torch.device) -> "Features":
        """Those of no image."""
        return cls(torch.zeros(0, dim, device=device), torch.zeros(0, dtype=torch.long, device=device))

    def __getitem__(self, index: Tensor) -> "Features":
        return Features(self.h[index], self.label[index], None if self.bias is None else self.bias[index])
