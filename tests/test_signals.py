"""Signals that end a run."""

import signal

import pytest

from contrastive.distributed.signals import Stop, StopSignals


def test_a_stop_of_another_process_is_not_interrupted_by_the_same_signal_here() -> None:
    signals = StopSignals()
    signals.check()
    with pytest.raises(Stop):
        signals.check(elsewhere=True)
    signals.receive(signal.SIGTERM, None)  # while the work is saved
    assert signals.pending == signal.SIGTERM
