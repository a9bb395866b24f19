"""Images, tars and runs on them that several tests of data sets share."""

import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from contrastive.dataset.shard.tar import samples
from contrastive.dataset.shards import shards
from contrastive.types import Data, Split
from tests.helpers import CONTIGUOUS, ONE_THREAD, ROOT, logged_lines, program, saved_weights, wait_for

RECIPE = [
    "encoder=resnet18_narrow", "encoder.width=2", "epochs=2", "log_every=1", "device=cpu", "precision=fp32",
    "channels_last=false", "evaluator=[knn,linear]", "evaluator.knn.every=1", "evaluator.knn.k=5",
    "evaluator.linear.max_iter=5",
]  # fmt: skip
QUICK = [
    "encoder.width=2", "epochs=2", "batch_size=16", "device=cpu", CONTIGUOUS, "evaluator=[knn]", "evaluator.knn.k=5",
    "hydra.run.dir=run",
]  # fmt: skip
ENVIRONMENT = {**ONE_THREAD, "PYTHONPATH": str(ROOT)}


def encoded(pixels: np.ndarray, kind: str = "png") -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    return content.getvalue()


def picture(value: int, kind: str = "png") -> bytes:
    return encoded(np.full((8, 8, 3), value, np.uint8), kind)


def oriented(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


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


def damage(folder: Path, row: int) -> None:
    """Flip a bit in the middle of an image; size and time of the shard stay."""
    path = folder / f"{row // 20:03}.tar"
    offset, length = dict(samples(path))[f"{row:05}"]["png"]
    before = path.stat()
    raw = bytearray(path.read_bytes())
    raw[offset + length // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


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


def continued(n: int, words: list[str], cwd: Path) -> None:
    """Run train.py with n processes on a run that was killed."""
    done = subprocess.run([*torchrun(n), *words], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "resuming after" in done.stdout


def killed(n: int, words: list[str], run: Path, *, after: int) -> None:
    """Start the run with n processes, and kill them all once the log has so many steps."""
    process = subprocess.Popen(
        [*torchrun(n), *words], cwd=run.parent, env=ENVIRONMENT, start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    wait_for(run / "checkpoints/last.pt", process)
    while (run / "metrics.jsonl").read_text().count("train/loss") < after:
        assert process.poll() is None
        time.sleep(0.02)
    for pid in descendants(process.pid):
        os.kill(pid, signal.SIGKILL)
    process.wait()


def torchrun(n: int) -> list[str]:
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(n)] if n > 1 else []
    return [sys.executable, *launcher, str(ROOT / "train.py")]


def descendants(pid: int) -> list[int]:
    """The process and all that it started, those of torchrun with a session of their own among them."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(other for child in children for other in descendants(int(child)))]


def losses(run: Path) -> list[float]:
    return [line["train/loss"] for line in logged_lines(run) if "train/loss" in line]


def assert_same_run(mine: Path, theirs: Path) -> None:
    """Two runs logged the same and ended in the same weights."""
    assert logged_lines(mine) == logged_lines(theirs)
    assert_same_weights(mine, theirs)


def assert_same_weights(mine: Path, theirs: Path) -> None:
    one, other = saved_weights(mine), saved_weights(theirs)
    assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in other)
