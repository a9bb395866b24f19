"""What TensorBoard shows of a run. Imports tensorboard: import it late, a finished run needs no writer.

Event files lie in the run directory itself: under `--logdir outputs` a run is then called by its path, which is made of
the settings that were typed.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.metadata import create_summary_metadata
from tensorboard.util.tensor_util import make_tensor_proto
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams, scalar

from contrastive.run.curve_names import AT_A_GLANCE, description, tensorboard_tag
from contrastive.run.identity import flatten, is_identity
from contrastive.run.projector import remove_projector, write_projector

MAIN_SETTINGS = (
    "epochs", "batch_size", "n_views", "seed", "sampler", "loss.temperature", "loss.tau_plus", "optimizer.lr",
    "optimizer.weight_decay", "encoder.depth", "encoder.width",
)  # fmt: skip
BINS = 50  # of a histogram
COMPONENTS = ("dataset", "loss", "regularizer", "encoder", "head", "optimizer", "schedule")


class TensorBoard:
    """The event file of one session; `path` holds config.yaml and environment.json already.

    A session that starts from nothing removes what an earlier one has left and writes the texts and the layout. One
    that resumes takes back the points after its checkpoint.

    Args:
        step: the step of the checkpoint that training continues from; None = from nothing.
    """

    def __init__(self, path: Path, *, step: int | None) -> None:
        self._path = path
        if step is None:
            remove_events(path)
        self._writer: Any = SummaryWriter(str(path), purge_step=0 if step is None else step + 1)
        self._described: set[str] = set()
        if step is None:
            self._writer.add_custom_scalars(AT_A_GLANCE)
            for name, text in texts(path).items():
                self._writer.add_text(name, text, 0)

    def add_scalar(self, key: str, value: float, step: int) -> None:
        """A point of a curve, the first one with its description."""
        summary = scalar(tensorboard_tag(key), value, new_style=True)  # the old style carries no description
        if key not in self._described:
            self._described.add(key)
            summary.value[0].metadata.summary_description = description(key)
        self._writer.file_writer.add_summary(summary, step)

    def add_image(self, name: str, image: Tensor, step: int) -> None:
        """An image (3, H, W) in [0, 1]."""
        self._writer.add_image(name, image, step)

    def add_histogram(self, key: str, values: Tensor, step: int) -> None:
        """The distribution of values, with its description; an empty set is left out."""
        if len(values):
            count, edge = np.histogram(values.float().cpu().numpy(), bins=BINS)
            bins = make_tensor_proto(np.stack([edge[:-1], edge[1:], count], axis=1), dtype=np.float64)
            metadata = create_summary_metadata(display_name=None, description=description(key))
            value = Summary.Value(tag=tensorboard_tag(key), tensor=bins, metadata=metadata)
            self._writer.file_writer.add_summary(Summary(value=[value]), step)

    def add_embedding(self, vectors: Tensor, columns: Mapping[str, Sequence[str]], images: Tensor) -> None:
        """Points for the projector; see `write_projector`."""
        write_projector(self._path, vectors, columns, images)

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


def remove_events(path: Path) -> None:
    """Remove everything that TensorBoard shows of the run in `path`."""
    for events in path.glob("events.*"):
        events.unlink()
    remove_projector(path)


def texts(path: Path) -> dict[str, str]:
    """The Text page: what was typed, on what it ran, every setting."""
    environment = json.loads((path / "environment.json").read_text())
    this_run = shlex.join(["python", "train.py", *environment.get("overrides", ())])
    shown = {key: value for key, value in environment.items() if key not in ("packages", "earlier", "overrides")}
    rows = "\n".join(f"| {key} | {value} |" for key, value in shown.items())
    return {
        "run/command": f"this run\n\n    {this_run}\n\ntyped\n\n    {environment.get('command', '')}",
        "run/config": f"```yaml\n{(path / 'config.yaml').read_text()}```",
        "run/environment": f"| | |\n|---|---|\n{rows}",
    }


def hyperparameters(path: Path) -> dict[str, str | int | float | bool]:
    """The components by name, the main settings and those that were typed, of the run in `path`."""
    config = yaml.safe_load((path / "config.yaml").read_text())
    overrides = json.loads((path / "environment.json").read_text()).get("overrides", ())
    flat = flatten(config)
    typed = [word.lstrip("+~").partition("=")[0] for word in overrides]
    shared = [key for key in typed if f"loss.{key}" in flat]  # tau_plus is listed as loss.tau_plus
    keys = [key for key in dict.fromkeys((*MAIN_SETTINGS, *typed)) if key in flat and is_identity(key)]
    components = {name: component_name(config[name]) for name in COMPONENTS if config.get(name)}
    return components | {
        key: value if isinstance(value := flat[key], str | int | float | bool) else str(value)
        for key in keys
        if key not in shared
    }


def component_name(node: dict[str, Any]) -> str:
    """`nt_xent` for contrastive.loss.nt_xent.NTXent, the class for other code."""
    module, _, name = str(node["_target_"]).rpartition(".")
    return module.rpartition(".")[2] if module.startswith("contrastive.") else name
