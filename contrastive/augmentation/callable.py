"""Any pipeline of one image as an augmentation: torchvision v2, albumentations, or a function of one's own."""

import ctypes
import multiprocessing
import random
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Generator, Tensor

from contrastive.augmentation.base import Parameters, Side
from contrastive.errors import ConfigError, check_at_least, check_choice
from contrastive.types import as_float

OVERSHOOT = 0.1  # of a sharp resampling beyond black and white, which is cut off; more than this is no image
TRIALS = 64  # images that are drawn twice before a training: a function may draw for one in twenty only
PR_SET_PDEATHSIG = 1  # of Linux's prctl.h


class PerImage:
    """Give every view of every image to a function, on the CPU, in processes of its own.

    Each call has a seed of its own, which the run's generator draws and which Python's, NumPy's and torch's global
    generators get (and an albumentations pipeline). So a view depends neither on the number of processes nor on an
    interruption. The batched operations of `Compose` do the same many times faster.

    Args:
        transform: the function's dotted name, MODULE.NAME, for messages.
        function: of an image; returns one of as many channels, a PIL image, an array (h, w) or (h, w, K), or a tensor
            (K, h, w). Whole numbers are of 8 bits, floats lie in [0, 1]. All results have one size. A pipeline of
            albumentations is called by its keyword.
        image: what the function takes: `pil`, `numpy` (H, W, K) or `tensor` (K, H, W), as the images are stored; auto =
            numpy for albumentations, else pil.
        workers: processes; 0 = in this one; auto = as many as the run has threads.

    Raises:
        ConfigError: an argument out of range; a result that is no such image; draws that are no global generator's.
    """

    def __init__(
        self,
        *,
        transform: str | None = None,
        function: Any = None,
        image: str = "auto",
        workers: int | str = "auto",
    ) -> None:
        check_choice("augmentation.image", image, ("auto", "pil", "numpy", "tensor"))
        if workers != "auto":
            check_at_least("augmentation.workers", workers, 0, example="auto")
        self.transform, self.workers = transform, workers
        whole = function.func if isinstance(function, partial) else function
        is_albumentations = type(whole).__module__.startswith("albumentations.")
        self.function = partial(_by_keyword, whole) if is_albumentations else function
        self.image = image if image != "auto" else "numpy" if is_albumentations else "pil"
        self._pool: ProcessPoolExecutor | None = None

    def draw(self, n: int, height: Side, width: Side, generator: Generator) -> dict[str, Parameters]:
        """A seed for each of n images."""
        return {"transform": {"seed": torch.randint(2**31, (n,), generator=generator, device=generator.device)}}

    def apply(self, x: Tensor, parameters: dict[str, Parameters]) -> Tensor:
        """Images (B, K, H, W) as they are stored → views (B, K, h, w) in [0, 1]."""
        images, seeds = x.cpu(), parameters["transform"]["seed"].tolist()
        workers = torch.get_num_threads() if self.workers == "auto" else int(self.workers)
        if workers <= 1 and self.workers != 1:
            return self.views(images, seeds).to(x.device)
        if self._pool is None:
            context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
            self._pool = ProcessPoolExecutor(workers, context, initializer=_start_worker, initargs=(self,))
        n = -(-len(images) // workers)
        parts = [(images[i : i + n], seeds[i : i + n]) for i in range(0, len(images), n)]
        return torch.cat([*self._pool.map(_views_of_worker, *zip(*parts, strict=True))]).to(x.device)

    @lru_cache  # noqa: B019  (as long as the augmentation lives)
    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The size of views of noise; of one channel where the function refuses three.

        Raises:
            ConfigError: the same seed gives two different views.
        """
        try:
            views = self._of_noise(3, height, width)
        except Exception:  # whatever it raises for three channels, it raises again if one does not help
            views = self._of_noise(1, height, width)
        if not torch.equal(views[:TRIALS], views[TRIALS:]):  # processes would draw the same for both views of an image
            raise ConfigError(
                f"{self.transform} draws from a generator of its own, which does not get the seed of a view: try draws "
                "of random, numpy.random or torch, or a pipeline of albumentations itself and not a function around it"
            )
        return views.shape[-2], views.shape[-1]

    def _of_noise(self, channels: int, height: int, width: int) -> Tensor:
        """Views of a few images, and again of the same with the same seeds."""
        size = (TRIALS, channels, height, width)
        noise = torch.randint(256, size, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
        return self.views(torch.cat([noise, noise]), [*range(TRIALS)] * 2)

    def views(self, images: Tensor, seeds: list[int]) -> Tensor:
        """What the function makes of each image (K, H, W) with its seed, in this process: (n, K, h, w) in [0, 1].

        Raises:
            ConfigError: results of several sizes or of other channels; values beyond [0, 1].
        """
        with _generators_kept():
            views = []
            for image, seed in zip(images, seeds, strict=True):
                random.seed(seed)
                np.random.seed(seed)
                torch.default_generator.manual_seed(seed)
                views.append(_as_view(self.function(_as_kind(image, self.image))))
        sizes, channels = sorted({tuple(view.shape) for view in views}), images.shape[1]
        if len(sizes) > 1 or sizes[0][0] != channels:
            raise ConfigError(
                f"{self.transform} must return images of one size and {channels} channels, (K, h, w), got {sizes[:2]}: "
                "try RandomResizedCrop or Resize in it, and no conversion to gray of one channel"
            )
        stacked = torch.stack(views)
        low, high = stacked.min().item(), stacked.max().item()
        if not -OVERSHOOT <= low <= high <= 1 + OVERSHOOT:  # also of NaN
            raise ConfigError(
                f"{self.transform} must return values in [0, 1], or whole numbers of 8 bits, got {low:.2g} to "
                f"{high:.2g}: try it without Normalize, which the run does by itself"
            )
        return stacked.clamp(0, 1)


def _by_keyword(pipeline: Any, image: np.ndarray) -> Any:
    """Call a pipeline of albumentations, which has a generator of its own."""
    pipeline.set_random_seed(random.getrandbits(31))
    return pipeline(image=image)["image"]


_worker: PerImage  # of a process of the pool


def _start_worker(augmentation: PerImage) -> None:
    """Ctrl-C and what a run does at a signal are its own business; the end of the run is the end of its workers."""
    global _worker
    _worker = augmentation
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _views_of_worker(images: Tensor, seeds: list[int]) -> Tensor:
    return _worker.views(images, seeds)


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Afterwards the global generators of the CPU go on where they were."""
    before = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def _as_kind(image: Tensor, kind: str) -> Any:
    """An image (K, H, W) as the function takes it."""
    if kind == "tensor":
        return image
    array = image.permute(1, 2, 0).numpy()
    return array if kind == "numpy" else Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def _as_view(image: Any) -> Tensor:
    """What the function returned as float32 (K, h, w)."""
    if isinstance(image, Image.Image | np.ndarray):
        array = np.atleast_3d(np.array(image))  # a copy: what PIL gives cannot be written to
        image = torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))
    view = as_float(image) if isinstance(image, Tensor) else image
    if not isinstance(view, Tensor) or not view.is_floating_point():
        what = str(view.dtype) if isinstance(view, Tensor) else type(view).__name__
        raise ConfigError(
            f"augmentation.transform returned {what}, not an image: try one that returns a PIL image, an array or a "
            "tensor, of 8 bits or floats"
        )
    return view.float()
