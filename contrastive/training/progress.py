"""What a run shows while it works: a bar that counts batches on a terminal, lines in a file or a pipe."""

import math
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import TqdmWarning
from tqdm.notebook import tqdm as notebook_bar

from contrastive.distributed.pool import is_in_pool
from contrastive.distributed.process import is_main
from contrastive.run.figures import KNN
from contrastive.text import clock
from contrastive.training.hook import Hook, Training
from contrastive.training.step import StepOutput

with warnings.catch_warnings(action="ignore", category=TqdmWarning):  # a notebook without ipywidgets gets lines
    from tqdm.auto import tqdm

LINES = 20  # of a run, at most, unless its epochs are long
PATIENCE, LONGEST_SILENCE = 5, 60  # seconds until a task is named, and between the lines of a long one
SHOWN = {"train/loss": "loss {:#.3g}", f"test/{KNN}": "kNN {:.1f}", "time/views_per_s": "{:,.0f} views/s"}


class Progress(Hook):
    """Shows how far training is, in the main process.

    A bar goes to the terminal, or to a notebook that has ipywidgets. Lines go to stdout unless both stdout and stderr
    are a terminal: `python train.py > log` shows the bar and writes the lines. Runs that share a terminal, as those of
    a sweep do, have lines that begin with their name.

    Args:
        name: of the run.
        quiet: show nothing.
        before: what the encoder is called before the first batch.
    """

    def __init__(self, *, name: str, quiet: bool, before: str = "untrained") -> None:
        self._prefix, self._quiet, self._before = f"{name}: " if is_in_pool() else "", quiet, before
        self._shown, self._at = dict[str, str](), dict[str, int]()

    def on_start(self, training: Training) -> None:
        is_silent, is_notebook = self._quiet or training.epochs == 0, issubclass(tqdm, notebook_bar)
        has_bar = not is_silent and not is_in_pool() and (is_notebook or sys.stderr.isatty())
        self._has_lines = not is_silent and not (has_bar and (is_notebook or sys.stdout.isatty()))
        self._training, self._start = training, training.steps_done
        self._since = self._last_line = time.monotonic()
        self._bar = tqdm(
            total=training.epochs * len(training.loader),
            initial=self._start,
            desc="pretraining",
            unit="batch",
            mininterval=1,
            disable=not has_bar,
        )
        self._show()

    def on_step(self, training: Training, output: StepOutput) -> None:
        self._bar.update()
        if time.monotonic() - self._last_line >= LONGEST_SILENCE:
            self._line()
        self._show()

    def on_epoch(self, training: Training) -> None:
        self._show()
        done = training.epoch + 1
        if done % line_every(training.epochs) == 0 or done == training.epochs:
            self._line()
        if done == training.epochs:
            self.close()  # what comes now is no training

    def close(self) -> None:
        self._bar.close()

    @property
    def _epoch(self) -> int:
        """The one that is trained, counted from 1, or that has just ended; 0 before the first batch."""
        return math.ceil(self._training.epochs_done)

    def _show(self) -> None:
        """Show the metrics before training, of a step or of an epoch that have a place, if there are new ones."""
        metrics = self._training.metrics
        if not metrics:
            return
        for key, form in SHOWN.items():
            if key in metrics:
                self._shown[key], self._at[key] = form.format(metrics[key]), self._epoch
        self._bar.set_postfix_str("  ".join([f"epoch {self._epoch}", *self._words()]))

    def _words(self) -> list[str]:
        return [self._shown[key] + self._age(key) for key in SHOWN if key in self._shown]

    def _age(self, key: str) -> str:
        """Of which encoder a test figure is, if not of the one as it stands."""
        if not key.startswith("test/"):
            return ""
        epoch = self._at[key]
        return f" ({self._before})" if epoch == 0 else f" (epoch {epoch})" if epoch < self._epoch else ""

    def _line(self) -> None:
        self._last_line = time.monotonic()
        if not self._has_lines:
            return
        training, seconds = self._training, self._last_line - self._since
        done = training.steps_done
        n_left = training.epochs * len(training.loader) - done
        left = f"{clock(seconds / max(1, done - self._start) * n_left)} left"
        end = left if n_left else f"trained in {clock(seconds)}"
        epoch = f"{training.epochs_done:.4g}".rjust(len(str(training.epochs)))
        print("  ".join([f"{self._prefix}epoch {epoch}/{training.epochs}", *self._words(), end]), flush=True)


@contextmanager
def announced(task: str, *, name: str = "") -> Iterator[None]:
    """Say what the main process does, on a terminal too: once it has taken some seconds, and then every minute.

    Args:
        task: such as `evaluating: linear`.
        name: of the run, in front of its lines where runs share a terminal.
    """
    if not is_main():
        yield
        return
    prefix, since, done = f"{name}: " if name and is_in_pool() else "", time.monotonic(), threading.Event()

    def speak() -> None:
        so_far, wait = "", PATIENCE
        while not done.wait(wait):
            tqdm.write(f"{prefix}{task}{so_far}", file=sys.stdout)
            sys.stdout.flush()
            wait = LONGEST_SILENCE
            so_far = f", {clock(time.monotonic() - since + wait)} so far"

    speaker = threading.Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield
    finally:
        done.set()
        speaker.join()


def line_every(epochs: int) -> int:
    """Epochs between lines: the first of 1, 2, 5, 10, 20, 50, ... that gives at most LINES of them."""
    steps = (factor * magnitude for magnitude in (1, 10, 100, 1_000, 10_000, 100_000) for factor in (1, 2, 5))
    return next(step for step in steps if epochs / step <= LINES)
