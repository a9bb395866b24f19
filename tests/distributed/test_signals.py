"""Signals that end a run."""

import signal
import subprocess
import sys

import pytest

from contrastive.distributed.signals import Stop, StopSignals, explain_stop, stop_signals


def test_a_stop_of_another_process_is_not_interrupted_by_the_same_signal_here() -> None:
    signals = StopSignals()
    signals.check()
    with pytest.raises(Stop):
        signals.check(elsewhere=True)
    signals.receive(signal.SIGTERM, None)  # while the work is saved
    assert signals.pending == signal.SIGTERM


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 143), (signal.SIGINT, 130)])
def test_a_run_takes_the_signals_of_the_command_around_it(signum, code):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which another test may have left to a second Ctrl-C
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)]
    done = []

    def step() -> None:
        with stop_signals() as command, stop_signals() as run:
            with run.held():
                signal.raise_signal(signum)
                done.append((run.pending, command.pending))  # the step is finished
            run.check()

    with pytest.raises(Stop) as stop:
        step()
    assert done == [(signum, None)]
    assert explain_stop(stop.value)[1] == code
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the second Ctrl-C would have found
    assert before == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)]


WINDOWS = """
import multiprocessing.connection, signal, subprocess, sys  # Python's own look at what is really there
sys.platform = "win32"
for name in ("SIGUSR1", "SIGUSR2", "SIGPIPE", "pthread_sigmask"):
    delattr(signal, name)
from contrastive.distributed import pool
from contrastive.distributed.signals import Stop, explain_stop, interrupts_blocked, stop_signals, unblock_interrupts
try:
    with stop_signals(), interrupts_blocked():
        unblock_interrupts()
        signal.raise_signal(signal.SIGTERM)
except Stop as stop:
    print(explain_stop(stop))
"""


def test_a_system_without_masks_and_user_signals_still_stops():
    done = subprocess.run([sys.executable, "-c", WINDOWS], capture_output=True, text=True, check=True)
    assert done.stdout == "('ended by SIGTERM', 143)\n"
