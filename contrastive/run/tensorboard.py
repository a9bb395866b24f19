"""What TensorBoard shows of a run: curves, texts, settings, points. Slow to import, and a finished run needs no writer.

Event files lie in the run directory itself: under `--logdir outputs` a run is then called by its path, which is made of
the settings that were typed.
"""

import math
import re
import shlex
import shutil
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch.nn.functional as F
import yaml
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams
from torchvision.utils import make_grid, save_image

from contrastive.config.identity import flatten, is_identity, option_name
from contrastive.files import YAML_LOADER, atomic, write_text
from contrastive.run.files import PROJECTOR, PROJECTOR_CONFIG, read_config, read_environment
from contrastive.types import visible

BINS = 50  # of a histogram
THUMBNAIL = 32  # pixels of the projector's images, at most


def but_of_event_files(failed: threading.ExceptHookArgs) -> None:
    """The traceback of a thread, but not of the one that writes event files: its tracker tells that error."""
    if not type(failed.thread).__module__.startswith("tensorboard."):
        threading.__excepthook__(failed)


class EventFile:
    """The event file of one session; `path` holds config.yaml and environment.json already.

    A session that starts from nothing removes what an earlier one has left and writes the texts. One that resumes
    takes back the points after its checkpoint, and writes the texts of another command, such as that of more epochs.

    Args:
        step: the step of the checkpoint that training continues from; None = from nothing.
    """

    def __init__(self, path: Path, *, step: int | None) -> None:
        self._path, self._described = path, set[str]()
        threading.excepthook = but_of_event_files
        if step is None:
            for file in (*path.glob("events.*"), path / PROJECTOR_CONFIG):
                file.unlink(missing_ok=True)
            shutil.rmtree(path / PROJECTOR, ignore_errors=True)
        self._writer: Any = SummaryWriter(str(path), purge_step=0 if step is None else step + 1)
        environment = read_environment(path)
        if step is None or environment["command"] != environment.get("earlier", [environment])[-1]["command"]:
            for name, text in texts(path).items():
                self._writer.add_text(name, text, step or 0)

    def add_scalar(self, key: str, value: float, step: int) -> None:
        """A point of a curve, the first one with its description, which SummaryWriter.add_scalar does not take."""
        about = None if key in self._described else description(key)
        self._described.add(key)
        self._writer.file_writer.add_summary(scalar_pb(tensorboard_tag(key), value, about), step)

    def add_image(self, name: str, image: Tensor, step: int) -> None:
        """An image (3, H, W) in [0, 1]."""
        self._writer.add_image(name, image, step)

    def add_histogram(self, key: str, values: Tensor, step: int) -> None:
        """The distribution of values, with its description; an empty set is left out."""
        if len(values):
            bins = histogram_pb(tensorboard_tag(key), values.float().cpu().numpy(), BINS, description(key))
            self._writer.file_writer.add_summary(bins, step)

    def add_embedding(self, vectors: Tensor, columns: Mapping[str, Sequence[str]], images: Tensor) -> None:
        """Points for the projector, and last the file that announces them; an earlier set is replaced.

        SummaryWriter.add_embedding would announce a second set after a resume, and a half-written one after a kill.

        Args:
            vectors: (n, F).
            columns: {name: n words}, shown as labels and colors.
            images: (n, K, H, W) uint8 or uint16.
        """
        folder = self._path / PROJECTOR
        rows = ("\t".join(f"{value:.4g}" for value in row) for row in vectors.tolist())
        write_text(folder / "vectors.tsv", "\n".join(rows) + "\n")
        header = [tuple(columns)] if len(columns) > 1 else []  # a single column has no header
        lines = [*header, *zip(*columns.values(), strict=True)]
        cells = ("\t".join(" ".join(word.split()) for word in line) for line in lines)  # no tabs and breaks in a name
        write_text(folder / "labels.tsv", "\n".join(cells) + "\n")
        size = write_sprite(folder / "sprite.png", images)
        side = f"single_image_dim: {size}"
        write_text(
            self._path / PROJECTOR_CONFIG,
            'embeddings {\n  tensor_name: "test features"\n'
            f'  tensor_path: "{PROJECTOR}/vectors.tsv"\n  metadata_path: "{PROJECTOR}/labels.tsv"\n'
            f'  sprite {{ image_path: "{PROJECTOR}/sprite.png" {side} {side} }}\n}}\n',
        )

    def add_hparams(self) -> None:
        """The settings of a finished run, which the HParams page sets beside its last figures.

        Without an experiment summary TensorBoard lists the settings of all runs together, those that differ first.
        """
        _, start, end = hparams(hyperparameters(self._path), {})
        self._writer.file_writer.add_summary(start)
        self._writer.file_writer.add_summary(end)

    def flush(self) -> None:
        """Hand everything over to the system."""
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def texts(path: Path) -> dict[str, str]:
    """The Text page: what was typed, on what it ran, every setting."""
    environment = read_environment(path)
    this_run = shlex.join(["python", "train.py", *environment.get("overrides", ())])
    shown = {key: value for key, value in environment.items() if key not in ("packages", "earlier", "overrides")}
    rows = "\n".join(f"| {key} | {value} |" for key, value in shown.items())
    return {
        "run/command": f"this run\n\n    {this_run}\n\ntyped\n\n    {environment['command']}",
        "run/config": f"```yaml\n{(path / 'config.yaml').read_text()}```",
        "run/environment": f"| | |\n|---|---|\n{rows}",
    }


def hyperparameters(path: Path) -> dict[str, str | int | float | bool]:
    """Every setting that is part of what the run in `path` is, a component by its option."""
    flat = {key: value for key, value in flatten(read_config(path)).items() if is_identity(key)}
    named = {key: option_name(value) if key.endswith("._target_") else value for key, value in flat.items()}
    return {
        key.removesuffix("._target_"): value if isinstance(value, str | int | float | bool) else str(value)
        for key, value in named.items()
    }


def write_sprite(path: Path, images: Tensor) -> int:
    """One square picture of all images, row by row; returns the size of each."""
    size = min(THUMBNAIL, images.shape[-1])
    small = F.interpolate(visible(images.cpu()), size=(size, size), mode="bilinear", antialias=True)
    per_row = math.ceil(math.sqrt(len(small)))
    square = F.pad(small, (0, 0, 0, 0, 0, 0, 0, per_row**2 - len(small)))
    with atomic(path) as part:
        save_image(make_grid(square, nrow=per_row, padding=0), part, format="png")
    return size


AHEAD = ("test", "train")  # groups that keep their names
# of the test split: kNN and the linear probe stand in a group of their own, before all others
FIRST = re.compile(r"test/(knn|linear)_top[15]$")
OTHERS = {"audit": "test-audit", "similarity": "trained-similarity"}  # of the test split, too


def tensorboard_tag(key: str) -> str:
    """The name in TensorBoard, which sorts groups by name: test, test-more, train, then `train-debiasing`, ...

    `test` has kNN and the linear probe alone, so that a page begins with them.

    A hyphen, because TensorBoard sorts an underscore like a slash: train_debiasing would come before train/loss.
    """
    group, _, name = key.partition("/")
    if group == "test" and not FIRST.match(key):
        return f"test-more/{name}"
    if group in AHEAD or not name:
        return key
    return f"{OTHERS.get(group, f'train-{group}')}/{name}"


@cache
def descriptions() -> dict[str, str]:
    """curves.yaml: {name in metrics.jsonl, or its beginning: what the curve shows}."""
    return dict(yaml.load(Path(__file__).with_name("curves.yaml").read_text(encoding="utf-8"), YAML_LOADER))


def description(key: str) -> str:
    """What a curve or a histogram shows, by its name in metrics.jsonl; empty for one that nobody described."""
    known = max((name for name in descriptions() if key.startswith(name)), key=len, default=None)
    return descriptions()[known] if known else ""
