"""What TensorBoard shows of a run: curves, texts, settings, and the pictures that training shows.

Event files lie in the run directory itself: under `--logdir outputs` a run is then called by its path, which is made of
the settings that were typed.
"""

import os
import re
import shlex
import threading
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from contrastive.config.identity import flatten, is_identity, option_name
from contrastive.files import YAML_LOADER
from contrastive.run.files import read_config, read_environment
from contrastive.tracker.base import NewLines
from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput

BINS = 50  # of a histogram


def but_of_event_files(failed: threading.ExceptHookArgs) -> None:
    """The traceback of a thread, but not of the one that writes event files: its tracker tells that error."""
    if not type(failed.thread).__module__.startswith("tensorboard."):
        threading.__excepthook__(failed)


class TensorBoard(Hook):
    """Event files in the run directory.

    A resumed run cuts them to what they were at its checkpoint, as it does with metrics.jsonl, and goes on from there.
    """

    def __init__(self) -> None:
        self.restored: dict[str, Any] | None = None

    def on_start(self, training: Training) -> None:
        threading.excepthook = but_of_event_files
        self.path, restored = training.run.path, self.restored
        cut_events(self.path, restored["events"] if restored else {})
        self.writer: Any = SummaryWriter(str(self.path), purge_step=training.steps_done + 1 if restored else 0)
        self.described = set[str]()
        if restored is None:
            for name, text in texts(self.path).items():
                self.writer.add_text(name, text, 0)
        self.lines = NewLines(self.path, skip=restored["lines"] if restored else 0)
        self._follow(training)

    def on_step(self, training: Training, output: StepOutput) -> None:
        if training.metrics or training.shown:
            self._follow(training)

    def on_epoch(self, training: Training) -> None:
        self._follow(training)

    def on_end(self, training: Training) -> None:
        """Add the settings, which the HParams page sets beside the last figures.

        Without an experiment summary TensorBoard lists the settings of all runs together, those that differ first.
        """
        self._follow(training)
        _, start, end = hparams(hyperparameters(self.path), {})
        self.writer.file_writer.add_summary(start)
        self.writer.file_writer.add_summary(end)

    def _follow(self, training: Training) -> None:
        for line in self.lines():
            step, _ = int(line.pop("step")), line.pop("epoch")
            for key, value in line.items():
                self._add_scalar(key, value, step)
        for name, shown in training.shown.items():
            if shown.ndim == 3:
                self.writer.add_image(name, shown, training.steps_done)
            elif len(shown):
                values = shown.float().cpu().numpy()
                bins = histogram_pb(tensorboard_tag(name), values, BINS, description(name))
                self.writer.file_writer.add_summary(bins, training.steps_done)

    def _add_scalar(self, key: str, value: float, step: int) -> None:
        """A point of a curve, the first one with its description, which SummaryWriter.add_scalar does not take."""
        about = None if key in self.described else description(key)
        self.described.add(key)
        self.writer.file_writer.add_summary(scalar_pb(tensorboard_tag(key), value, about), step)

    def state_dict(self) -> dict[str, Any]:
        self.writer.flush()
        return {"lines": self.lines.n, "events": {file.name: file.stat().st_size for file in event_files(self.path)}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.restored = state

    def close(self) -> None:
        self.writer.close()
        self.lines.close()


def event_files(folder: Path) -> list[Path]:
    """TensorBoard's files."""
    return sorted(folder.glob("events.*"))


def cut_events(folder: Path, sizes: dict[str, int]) -> None:
    """Cut TensorBoard's files to the sizes they had at the checkpoint, and remove those that came later."""
    for file in event_files(folder):
        size = sizes.get(file.name)
        if size is None:
            file.unlink()
        elif file.stat().st_size > size:
            os.truncate(file, size)


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
