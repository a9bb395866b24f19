"""Weights & Biases."""

from pathlib import Path

from contrastive.run.files import read_config
from contrastive.text import as_typed
from contrastive.tracker.base import Tracker


class WandB(Tracker):
    """A run at wandb.ai or on a server of your own; with mode=offline in RUN/wandb, for `wandb sync`.

    Args:
        project: at Weights & Biases.
        entity: user or team; None is that of your login.
        mode: online, offline or disabled; None is WANDB_MODE, else online.
    """

    package = "wandb"

    def __init__(self, *, project: str = "contrastive", entity: str | None = None, mode: str | None = None) -> None:
        super().__init__()
        self.project, self.entity, self.mode = project, entity, mode

    def connect(self, run: Path, known: str | None) -> str:
        import wandb  # slow to import

        self.run = wandb.init(
            project=self.project,
            entity=self.entity,
            mode=self.mode,
            id=known,
            resume="allow",
            name=as_typed(run),
            config=read_config(run),
            dir=str(run),
            reinit="create_new",
            settings=wandb.Settings(console="off"),  # the program's output stays its own
        )
        # its own counter of steps would drop what a resumed run logs at the step that was sent last
        self.run.define_metric("*", step_metric="step")
        return str(self.run.id)

    def send(self, step: int, metrics: dict[str, float]) -> None:
        self.run.log({"step": step, **metrics})

    def disconnect(self, *, finished: bool) -> None:
        self.run.finish(exit_code=0 if finished else 1)
