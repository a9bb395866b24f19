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
from contrastive.text import clock

with warnings.catch_warnings(action="ignore", category=TqdmWarning):  # a notebook without ipywidgets gets lines
    from tqdm.auto import tqdm

LINES = 20  # of a run, at most, unless its epochs are long
PATIENCE, LONGEST_SILENCE = 5, 60  # seconds until a task is named, and between the lines of a long one
SHOWN = {"train/loss": "loss {:#.3g}", "test/knn_top1": "kNN {:.1f}", "time/views_per_s": "{:,.0f} views/s"}


class Progress:
    """Shows the progress of the main process.

    A bar goes to the terminal, or to a notebook that has ipywidgets. Lines go to stdout unless both stdout and stderr
    are a terminal: `python train.py > log` shows the bar and writes the lines. Runs that share a terminal, as those of
    a sweep do, have lines that begin with their name.

    Args:
        name: of the run.
        start: batches that are done already.
        epochs: of the whole run.
        per_epoch: batches.
        quiet: show nothing.
        before: what the encoder is called before the first batch.
    """

    def __init__(
        self, *, name: str, start: int, epochs: int, per_epoch: int, quiet: bool, before: str = "untrained"
    ) -> None:
        is_silent, is_notebook = quiet or not is_main() or epochs == 0, issubclass(tqdm, notebook_bar)
        is_alone = not is_in_pool()
        has_bar = not is_silent and is_alone and (is_notebook or sys.stderr.isatty())
        self._prefix, self._before = "" if is_alone else f"{name}: ", before
        self._has_lines = not is_silent and not (has_bar and (is_notebook or sys.stdout.isatty()))
        self._epochs, self._per_epoch, self._start = epochs, per_epoch, start
        self._done, self._shown, self._at = start, dict[str, str](), dict[str, int]()
        self._since = self._last_line = time.monotonic()
        self._bar = tqdm(
            total=epochs * per_epoch,
            initial=start,
            desc="pretraining",
            unit="batch",
            mininterval=1,
            disable=not has_bar,
        )

    def update(self) -> None:
        """A batch is done."""
        self._done += 1
        self._bar.update()
        if time.monotonic() - self._last_line >= LONGEST_SILENCE:
            self._line()

    def show(self, metrics: dict[str, float]) -> None:
        """There are new metrics: show those that have a place."""
        for key, form in SHOWN.items():
            if key in metrics:
                self._shown[key], self._at[key] = form.format(metrics[key]), self._epoch
        self._bar.set_postfix_str("  ".join([f"epoch {self._epoch}", *self._words()]))

    def end_epoch(self, epoch: int) -> None:
        """An epoch, counted from 1, is trained and evaluated."""
        if epoch % line_every(self._epochs) == 0 or epoch == self._epochs:
            self._line()

    def close(self) -> None:
        """Training is over, or has ended."""
        self._bar.close()

    @property
    def _epoch(self) -> int:
        """The one that is trained, counted from 1, or that has just ended; 0 before the first batch."""
        return math.ceil(self._done / self._per_epoch)

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
        width = len(str(self._epochs))
        seconds, n_left = self._last_line - self._since, self._epochs * self._per_epoch - self._done
        left = f"{clock(seconds / max(1, self._done - self._start) * n_left)} left"
        end = left if n_left else f"trained in {clock(seconds)}"
        epoch = f"{self._done / self._per_epoch:.4g}".rjust(width)
        print("  ".join([f"{self._prefix}epoch {epoch}/{self._epochs}", *self._words(), end]), flush=True)


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
    magnitude = 1
    while True:
        for step in (magnitude, 2 * magnitude, 5 * magnitude):
            if epochs / step <= LINES:
                return step
        magnitude *= 10
