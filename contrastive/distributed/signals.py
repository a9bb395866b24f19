"""Signals that end a run, held back while a step is half done: Ctrl-C, SIGTERM, the warning of a cluster."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, MethodType
from typing import Any

ON_WINDOWS = sys.platform == "win32"  # which has neither these two nor masks, and ends a process at SIGTERM at once
BEFORE_TIMEOUT = None if ON_WINDOWS else signal.SIGUSR1  # what most scripts for Slurm ask for before the time limit
WARNING = None if ON_WINDOWS else signal.SIGUSR2  # submitit's, before a job times out: its handler requeues the job
DEFAULTS: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
if BEFORE_TIMEOUT is not None:
    DEFAULTS[BEFORE_TIMEOUT] = signal.SIG_DFL


class Stop(KeyboardInterrupt):
    """A signal asked this process to end.

    Attributes:
        signum: the signal.
    """

    def __init__(self, signum: int = signal.SIGTERM) -> None:
        super().__init__(signum)
        self.signum = signum


def explain_stop(stop: KeyboardInterrupt) -> tuple[str, int]:
    """What ended the program, in words, and its exit code: 128 + the signal, of SIGUSR1 that of SIGTERM."""
    signum = stop.signum if isinstance(stop, Stop) else signal.SIGINT
    said = "interrupted" if signum == signal.SIGINT else f"ended by {signal.Signals(signum).name}"
    return said, 128 + (signal.SIGTERM if signum == BEFORE_TIMEOUT else signum)


class StopSignals:
    """Raises `Stop` at a signal: at once, or inside `held` when asked to by `check`.

    Args:
        on_stop: called in the handler, before anything else.
    """

    def __init__(self, on_stop: Callable[[], None] | None = None) -> None:
        self.pending: int | None = None
        self._on_stop = on_stop
        self._held, self._n_interrupts = False, 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within the body signals are only remembered."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    @contextmanager
    def released(self) -> Iterator[None]:
        """Within the body, inside that of `held`, a signal raises `Stop` at once; so does one that came before."""
        self._held = False
        try:
            self.check()
            yield
        finally:
            self._held = True

    def check(self, *, elsewhere: bool = False) -> None:
        """Raise `Stop` if a signal was held back, here or in another process."""
        if elsewhere and self.pending is None:
            self.pending = signal.SIGTERM  # the same signal may still come here, while the work is saved
        if self.pending is not None:
            raise Stop(self.pending)

    def receive(self, signum: int, _: FrameType | None) -> None:
        """The handler. The second Ctrl-C ends the process; another SIGTERM, which clusters repeat, changes nothing."""
        if self._on_stop is not None:
            self._on_stop()
        self._n_interrupts += signum == signal.SIGINT
        if self._n_interrupts > 1:
            os._exit(128 + signal.SIGINT)
        if self.pending is None:
            self.pending = signum
            if not self._held:
                raise Stop(signum)


@contextmanager
def stop_signals(*, on_stop: Callable[[], None] | None = None) -> Iterator[StopSignals]:
    """Turn signals that would end this process into `Stop`, so that the body can save its work first.

    Within another `stop_signals`, which a command puts around all that it does, the inner one takes them. A signal that
    somebody else handles stays theirs. SIGUSR2 is taken only where somebody handles it, and their handler runs after
    the body, as submitit's does, which requeues the job.

    Args:
        on_stop: called in the handler, before anything else.
    """
    signals = StopSignals(on_stop)
    previous = _take_over(signals)
    try:
        yield signals
    except Stop as stop:
        theirs = previous.get(stop.signum)
        if stop.signum == WARNING and callable(theirs):
            theirs(stop.signum, None)
        raise
    finally:
        for signum, action in previous.items():
            if not (signum == signal.SIGINT and signals.pending is not None):  # the second Ctrl-C still ends at once
                signal.signal(signum, action)


def _take_over(signals: StopSignals) -> dict[int, Any]:
    """Install the handler where nobody else's would be lost; returns the handlers that it replaced."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        return {}
    before = {signum: signal.getsignal(signum) for signum in DEFAULTS}
    taken = [signum for signum, default in DEFAULTS.items() if before[signum] == default or _is_ours(before[signum])]
    if WARNING is not None and callable(signal.getsignal(WARNING)):
        taken.append(WARNING)
    return {signum: signal.signal(signum, signals.receive) for signum in taken}


def _is_ours(handler: Any) -> bool:
    return isinstance(handler, MethodType) and isinstance(handler.__self__, StopSignals)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Ctrl-C waits within the body, and in processes that are started there until `unblock_interrupts`."""
    if ON_WINDOWS:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_interrupts() -> None:
    """Let Ctrl-C through in a process that was started in `interrupts_blocked`."""
    if not ON_WINDOWS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
