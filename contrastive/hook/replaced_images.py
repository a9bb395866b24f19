"""How many damaged images others stood in for: what a run was really trained and evaluated on."""

from typing import Any

from contrastive.dataset.shard.images import StoredImages
from contrastive.distributed.process import from_all
from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput
from contrastive.types import Data


class ReplacedImages(Hook):
    """Counts them: distinct images of each split, read by a step or an evaluation, of all processes and sessions.

    Args:
        data: before it moves to a device. Its images count from now on.
    """

    def __init__(self, data: Data) -> None:
        splits = {"pretrain": data.pretrain, "probe_val": data.probe_val_split, "test": data.test}
        images: dict[str, object] = {name: split.image for name, split in splits.items() if split is not None}
        self.images = {
            name: image
            for name, image in images.items()
            if isinstance(image, StoredImages) and image.on_damage == "replace"
        }
        self.rows = {name: set[int]() for name in self.images}
        for image in self.images.values():
            image.damaged.clear()  # what an earlier run of this process met

    @property
    def counts(self) -> dict[str, int]:
        """{split: images}, without those of no such image, as of the last `exchange`."""
        return {name: len(rows) for name, rows in self.rows.items() if rows}

    def exchange(self) -> None:
        """Add what all processes have met since; every process must call this."""
        if self.images:
            for met in from_all({name: image.replaced for name, image in self.images.items()}):
                for name, rows in met.items():
                    self.rows[name].update(rows)

    def on_step(self, training: Training, output: StepOutput) -> None:
        """Before the evaluation of an epoch, which a signal may interrupt in one process alone."""
        if training.ends_epoch:
            self.exchange()

    def on_epoch(self, training: Training) -> None:
        self.exchange()

    def state_dict(self) -> dict[str, Any]:
        return {name: sorted(rows) for name, rows in self.rows.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rows = {name: set(state.get(name, [])) for name in self.images}
