"""Trackio, of Hugging Face."""

import uuid
from pathlib import Path

from contrastive.run.files import read_config
from contrastive.text import as_typed
from contrastive.tracker.base import Tracker


class Trackio(Tracker):
    """A run in a database on this machine, for `trackio show`, or in a Space.

    Trackio hands its points on every half second: kill -9 may lose those of the last one.

    Args:
        project: of Trackio.
        space_id: a Hugging Face Space, such as user/name; None is TRACKIO_SPACE_ID, else this machine.
    """

    package = "trackio"

    def __init__(self, *, project: str = "contrastive", space_id: str | None = None) -> None:
        super().__init__()
        self.project, self.space_id = project, space_id

    def connect(self, run: Path, known: str | None) -> str:
        import trackio  # slow to import

        name = known or f"{as_typed(run)}-{uuid.uuid4().hex[:8]}"  # Trackio resumes a run by its name alone
        self.run = trackio.init(
            project=self.project,
            name=name,
            space_id=self.space_id,
            config=read_config(run),
            resume="allow",
            auto_log_cpu=False,
            auto_log_gpu=False,
        )
        return name

    def send(self, step: int, metrics: dict[str, float]) -> None:
        self.run.log(metrics, step=step)

    def disconnect(self, *, finished: bool) -> None:
        self.run.finish()
