"""Hooks: what watches training, and what they see of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from contrastive.run.directory import RunDirectory
from contrastive.training.loader import Loader
from contrastive.training.step import StepOutput, TrainStep


@dataclass(kw_only=True)
class Training:
    """The current state of training; `train` advances it, hooks read it.

    Attributes:
        step: encoder, head, objective and optimizer, with the weights as they are now.
        loader: the batches.
        run: the run directory; only the main process writes into it.
        hooks: all of them by name, in the order in which they are called.
        epochs: of the whole run.
        epoch: the one that is trained, from 0.
        batch: batches of it that are done.
        rng: the generator of the augmentation.
        metrics: what was logged since training last moved.
        shown: what was shown since training last moved, see `show`.
    """

    step: TrainStep
    loader: Loader
    run: RunDirectory
    hooks: Mapping[str, "Hook"]
    epochs: int
    epoch: int
    batch: int
    rng: torch.Generator
    metrics: dict[str, float] = field(default_factory=dict)
    shown: dict[str, Tensor] = field(default_factory=dict)

    @property
    def steps_done(self) -> int:
        """Steps of all epochs."""
        return self.epoch * len(self.loader) + self.batch

    @property
    def epochs_done(self) -> float:
        """2.5 is halfway through the third epoch."""
        return self.epoch + self.batch / len(self.loader)

    @property
    def ends_epoch(self) -> bool:
        """Whether every batch of the epoch is done."""
        return self.batch == len(self.loader)

    def log(self, metrics: Mapping[str, float]) -> None:
        """Write a line of metrics.jsonl, a point on each of these curves; `group/name` is the form of a name."""
        self.run.log(self.steps_done, self.epochs_done, dict(metrics))
        self.metrics |= metrics

    def show(self, name: str, value: Tensor) -> None:
        """Hand a picture to the trackers that show some.

        Args:
            name: `group/name`, or a name alone.
            value: an image (3, H, W) in [0, 1], or values (n,) for a histogram.
        """
        self.shown[name] = value

    def move(self, epoch: int, batch: int) -> None:
        """Training has come to this place."""
        self.epoch, self.batch = epoch, batch
        self.metrics, self.shown = {}, {}


class Hook:
    """Watches training. Every method may be left out.

    Each of several processes calls its own hooks. `training.log` writes only in the main process. The states of its
    hooks are saved, and every process restores them.
    """

    def on_start(self, training: Training) -> None:
        """Before the first step of this process; in a resumed run after `load_state_dict`."""

    def on_epoch_start(self, training: Training) -> None:
        """Before the first step of an epoch; in a resumed run also where it goes on inside one."""

    def on_step(self, training: Training, output: StepOutput) -> None:
        """After each step; `training.metrics` has what was logged of it."""

    def on_epoch(self, training: Training) -> None:
        """After each epoch, its evaluations included."""

    def on_end(self, training: Training) -> None:
        """After the last epoch and the evaluation that the result holds; not in a run that is interrupted."""

    def close(self) -> None:
        """When training ends in any way, by an error or a signal, too; not called if `on_start` failed."""

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs: plain containers, numbers, text and tensors. It becomes part of each checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned; called before `on_start`, with tensors on the CPU."""
