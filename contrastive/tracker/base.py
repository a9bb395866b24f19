"""The base of trackers: each line of metrics.jsonl is sent to a service once, and a failure does not end the run."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from tqdm import tqdm

from contrastive.config.targets import check_package
from contrastive.files import write_text
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


class Tracker(Hook, ABC):
    """Sends each line of metrics.jsonl to a service, once.

    RUN/trackers/PACKAGE.json holds the name that the service gave the run, and how many lines it received. It is
    written after each line. It is not part of the checkpoint, which may be older: a resumed run logs the lines since
    its checkpoint again, to the same bits, and only new lines are sent.

    Attributes:
        package: the library that it needs, by the name of its import and of its installation.

    Raises:
        ConfigError: the library is not installed.
    """

    package: ClassVar[str]

    def __init__(self) -> None:
        check_package(self.package)

    @abstractmethod
    def connect(self, run: Path, known: str | None) -> str:
        """Begin or continue the run of a directory with the service; returns its name there.

        Args:
            known: the name, if this run was there before.
        """

    @abstractmethod
    def send(self, step: int, metrics: dict[str, float]) -> None:
        """Send a line, its `epoch` among the metrics."""

    @abstractmethod
    def disconnect(self, *, finished: bool) -> None:
        """Training has ended, or was interrupted and may go on later."""

    def on_start(self, training: Training) -> None:
        path, self.finished = training.run.path, False
        self.record = path / "trackers" / f"{self.package}.json"
        before = json.loads(self.record.read_text()) if self.record.exists() else {}
        self.name = self.connect(path, before.get("name"))
        self.lines = NewLines(path, skip=before.get("lines", 0))
        self._follow()

    def on_step(self, training: Training, output: StepOutput) -> None:
        if training.metrics:
            self._follow()

    def on_epoch(self, training: Training) -> None:
        self._follow()

    def on_end(self, training: Training) -> None:
        self._follow()
        self.finished = True

    def _follow(self) -> None:
        for line in self.lines():
            self.send(int(line.pop("step")), line)
            write_text(self.record, json.dumps({"name": self.name, "lines": self.lines.n}))

    def close(self) -> None:
        self.disconnect(finished=self.finished)
        self.lines.close()


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
