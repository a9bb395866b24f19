"""What trackers share: the lines that are new in metrics.jsonl, and failures that end no run."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput


class NewLines:
    """`lines()` gives the lines that were written to a metrics.jsonl since it was last called.

    Attributes:
        n: lines that were given or skipped so far.

    Args:
        run: the directory.
        skip: lines at the beginning of the file that are not given.
    """

    def __init__(self, run: Path, *, skip: int = 0) -> None:
        self._file, self._left, self.n = (run / "metrics.jsonl").open(), skip, skip

    def __call__(self) -> Iterator[dict[str, float]]:
        for line in self._file:
            if self._left:
                self._left -= 1
                continue
            self.n += 1
            yield json.loads(line)

    def close(self) -> None:
        self._file.close()


class Harmless(Hook):
    """A tracker whose first failure is a warning: the run goes on without it.

    Args:
        tracker: it is called until it fails.
        name: in the warning.
    """

    def __init__(self, tracker: Hook, *, name: str) -> None:
        self.tracker, self.name, self.has_failed = tracker, name, False

    def on_start(self, training: Training) -> None:
        self._try(self.tracker.on_start, training)

    def on_epoch_start(self, training: Training) -> None:
        self._try(self.tracker.on_epoch_start, training)

    def on_step(self, training: Training, output: StepOutput) -> None:
        self._try(self.tracker.on_step, training, output)

    def on_epoch(self, training: Training) -> None:
        self._try(self.tracker.on_epoch, training)

    def on_end(self, training: Training) -> None:
        self._try(self.tracker.on_end, training)

    def close(self) -> None:
        self._try(self.tracker.close)

    def state_dict(self) -> dict[str, Any]:
        return self._try(self.tracker.state_dict) or {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._try(self.tracker.load_state_dict, state)

    def _try(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if self.has_failed:
            return None
        try:
            return method(*arguments)
        except Exception as error:  # whatever a library or its service raises
            self.has_failed = True
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            tqdm.write(f"warning: tracker {self.name} failed ({reason}): the run goes on without it")
            return None
