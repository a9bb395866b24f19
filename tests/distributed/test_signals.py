"""Signals that end a run."""

import signal

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


def test_what_others_do_before_a_timeout_is_done_after_the_work_is_saved():
    """As submitit does, which puts the job back into the queue."""
    done: list[str] = []

    def job() -> None:
        with stop_signals() as run:
            with run.held():
                signal.raise_signal(signal.SIGUSR2)
                done.append("saved")
            run.check()

    before = signal.signal(signal.SIGUSR2, lambda *_: done.append("requeued"))
    with pytest.raises(Stop):
        job()
    signal.signal(signal.SIGUSR2, before)
    assert done == ["saved", "requeued"]
