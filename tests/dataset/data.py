"""Images, tars and runs on them that several tests of data sets share."""

import io
import tarfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from contrastive.dataset.shards import shards
from contrastive.types import Data, Split
from tests.helpers import CONTIGUOUS, program

RECIPE = [
    "encoder=resnet18_narrow", "encoder.width=2", "epochs=2", "log_every=1", "device=cpu", "precision=fp32",
    "channels_last=false", "evaluator=[knn,linear]", "evaluator.knn.every=1", "evaluator.knn.k=5",
    "evaluator.linear.max_iter=5",
]  # fmt: skip
QUICK = [
    "encoder.width=2", "epochs=2", "batch_size=16", "device=cpu", CONTIGUOUS, "evaluator=[knn]", "evaluator.knn.k=5",
    "hydra.run.dir=run",
]  # fmt: skip


def encoded(pixels: np.ndarray, kind: str = "png") -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    return content.getvalue()


def picture(value: int, kind: str = "png") -> bytes:
    return encoded(np.full((8, 8, 3), value, np.uint8), kind)


def write_tar(path: Path, files: dict[str, bytes], *, format: int = tarfile.USTAR_FORMAT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def write_shards(folder: Path, *, n: int = 3, each: int = 20) -> Path:
    """Gray images, each of the value of its row, in four classes."""
    for i in range(n):
        files = {}
        for row in range(i * each, (i + 1) * each):
            files |= {f"{row:05}.png": picture(row), f"{row:05}.cls": b"%d" % (row % 4)}
        write_tar(folder / f"{i:03}.tar", files)
    return folder


def load_shards(folder: Path, **options) -> Data:
    return shards(**{"root": str(folder), "size": 8, "cache": str(folder / "cache"), **options})


def everything(image: torch.Tensor) -> torch.Tensor:
    """All images of a split, decoded."""
    return image[torch.arange(len(image))]


def values(split: Split) -> list[int]:
    """The first pixel of each image."""
    return everything(split.image)[:, 0, 0, 0].tolist()


def contents(split: Split) -> list[tuple[int, int, bytes]]:
    """Label, bias and pixels of each image, in no order of theirs."""
    biases = [-1] * len(split) if split.bias is None else split.bias.tolist()
    rows = zip(everything(split.image), split.label.tolist(), biases, strict=True)
    return sorted((label, bias, image.numpy().tobytes()) for image, label, bias in rows)


def ran(*words: str, cwd: Path) -> str:
    """What train.py says, which must succeed."""
    done = program(*words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
