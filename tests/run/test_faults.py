"""Kills and signals: nothing is lost. What damage does to files is in test_run_directory.py."""

import functools
import json
import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from contrastive.evaluator.knn import KNN
from contrastive.run.directory import RunDirectory
from contrastive.training.step import TrainStep
from tests.forked import Program, at_call, kill_after, kill_me
from tests.helpers import check_same, logged_lines, saved_weights, without_time, write_files

pytestmark = pytest.mark.slow
WORDS = [
    "epochs=2", "encoder.width=4", "batch_size=256", "dataset.size=8", "device=cpu", "log_every=2", "evaluator=[knn]",
    "evaluator.knn.every=1", "checkpoint_every=1", "hydra.run.dir=run",
]  # fmt: skip
SUM = """from contrastive import Hook


class Sum(Hook):
    total = 0.0

    def on_step(self, training, output):
        self.total += float(output.loss)
        training.log({"sum/of_losses": self.total})

    def state_dict(self):
        return {"total": self.total}

    def load_state_dict(self, state):
        self.total = state["total"]
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The same run, uninterrupted."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder) == 0
    return folder / "run"


def run(folder: Path, *words: str, **options) -> int:
    folder.mkdir(exist_ok=True)
    return Program(*WORDS, *words, cwd=folder, **options).wait()


def points(path: Path) -> dict[str, list[tuple[int, float]]]:
    """{curve: [(step, value)]} of TensorBoard's files as they are read anew, curves of time left out."""
    events = EventAccumulator(str(path)).Reload()
    return {
        name: [(event.step, make_ndarray(event.tensor_proto).tolist()) for event in events.Tensors(name)]
        for name in events.Tags()["tensors"]
        if not name.startswith(("train-time/", "run/"))
    }


def assert_same(path: Path, whole: Path) -> None:
    """Weights, lines, result and curves equal those of the uninterrupted run."""
    check_same(path, whole)
    for name in ("encoder.safetensors", "head.safetensors"):
        mine, theirs = load_file(path / name), load_file(whole / name)
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert points(path) == points(whole)
    assert not list(path.rglob("*.part"))


def kill_at(owner: type, name: str, n: int) -> None:
    at_call(owner, name, n, kill_me)


def kill_in_rename(n: int) -> None:
    """Of a run: environment, config, metrics, two checkpoints (last; previous and last), head, encoder, result."""
    at_call(Path, "replace", n, kill_me)


def strike_while_writing(signum: int) -> None:
    """Send the signal in a step of the second epoch, while a thread has yet to finish the first checkpoint."""
    released = threading.Event()

    def strike() -> None:
        kill(signum)
        threading.Timer(0.5, released.set).start()

    at_call(Path, "replace", 3, released.wait)
    at_call(TrainStep, "__call__", 7, strike)


MOMENTS = {
    "the second step": functools.partial(kill_at, TrainStep, "__call__", 1),
    "a step of the last epoch": functools.partial(kill_at, TrainStep, "__call__", 8),
    "an evaluation between epochs": functools.partial(kill_at, KNN, "__call__", 1),
    "the last evaluation": functools.partial(kill_at, KNN, "__call__", 2),
    "the first checkpoint": functools.partial(kill_in_rename, 3),
    "between both renames of a checkpoint": functools.partial(kill_in_rename, 5),
    "the encoder": functools.partial(kill_in_rename, 7),
    "the last rename": functools.partial(kill_in_rename, 8),
    "a checkpoint that a thread is writing": functools.partial(strike_while_writing, signal.SIGKILL),
}


@pytest.mark.parametrize(
    "moment", [pytest.param(m, marks=pytest.mark.smoke if m == "a step of the last epoch" else ()) for m in MOMENTS]
)
def test_a_run_killed_in(moment, whole, tmp_path):
    assert run(tmp_path, fault=MOMENTS[moment]) == -signal.SIGKILL
    assert not (tmp_path / "run/result.json").exists()
    assert run(tmp_path) == 0
    assert_same(tmp_path / "run", whole)


def test_a_run_of_all_that_has_a_state_is_killed_inside_an_epoch(tmp_path):
    """Noise, a teacher with its queue, an average, an observer, a hook of one's own with a state, and a tracker."""
    yaml = "# @package hook.sum\n_target_: sum_of_mine.Sum\n"
    write_files(tmp_path / "mine", {"hook/sum.yaml": yaml, "sum_of_mine.py": SUM})
    words = ["--config-dir", "../mine", "teacher=ema", "teacher.queue=64", "average=ema", "hook=[sum]"]
    words += ["tracker=[tensorboard]", "noise_frac=0.3", "evaluator=[knn,online_probe]", "resident=false"]
    often, moment = "checkpoint_every_minutes=0", MOMENTS["a step of the last epoch"]
    assert run(tmp_path / "whole", *words) == 0
    assert run(tmp_path / "killed", *words, often, fault=moment) == -signal.SIGKILL
    assert run(tmp_path / "killed", *words) == 0
    assert "of 5 batches" in (tmp_path / "killed/said.txt").read_text()  # it went on inside an epoch
    assert_same(tmp_path / "killed/run", tmp_path / "whole/run")
    assert sum("sum/of_losses" in line for line in logged_lines(tmp_path / "killed/run")) == 2 * 5


def test_kills_at_random_moments_between_batches_too(whole, tmp_path):
    rng, n_kills = random.Random(0), 0
    for _ in range(5):
        moment = functools.partial(kill_after, rng.uniform(0.3, 1.0))
        n_kills += run(tmp_path, "checkpoint_every_minutes=0", fault=moment) == -signal.SIGPROF
    assert n_kills > 0
    assert run(tmp_path) == 0
    assert_same(tmp_path / "run", whole)


def test_a_signal_while_a_checkpoint_is_written_saves_the_next_after_it(whole, tmp_path):
    assert run(tmp_path, fault=functools.partial(strike_while_writing, signal.SIGTERM)) == 143
    states = [torch.load(tmp_path / f"run/checkpoints/{name}.pt", weights_only=True) for name in ("previous", "last")]
    assert [(state["epoch"], state["batch"]) for state in states] == [(1, 0), (1, 3)]
    assert run(tmp_path) == 0
    assert_same(tmp_path / "run", whole)


def kill(*signals: int) -> None:
    while len(signals) == 2 and not Path("run/checkpoints/last.pt").exists():  # which a thread is writing
        time.sleep(0.01)
    for signum in signals:
        os.kill(os.getpid(), signum)
    assert len(signals) == 1, "still running after the second"


# Of other signals the codes are in tests/distributed/test_signals.py.
SIGNALS = {  # when which signals arrive, the exit code, and what last.pt holds then: epochs and batches of the next one
    "SIGTERM in a step": (TrainStep, "__call__", 7, [signal.SIGTERM], 143, (1, 3)),  # which is finished
    "SIGTERM in an evaluation": (KNN, "__call__", 1, [signal.SIGTERM], 143, (0, 5)),
    "SIGTERM in the save at an epoch's end": (RunDirectory, "save", 0, [signal.SIGTERM], 143, (1, 0)),
    "Ctrl-C twice": (TrainStep, "__call__", 7, [signal.SIGINT, signal.SIGINT], 130, (1, 0)),  # which ends at once
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.smoke if n == "SIGTERM in a step" else ()) for n in SIGNALS]
)
def test_a_signal_saves_a_checkpoint(whole, tmp_path, name):
    owner, method, n, signals, code, saved = SIGNALS[name]
    assert run(tmp_path, fault=functools.partial(at_call, owner, method, n, functools.partial(kill, *signals))) == code
    said = (tmp_path / "said.txt").read_text()
    assert "the same command again" in said.splitlines()[-1] or len(signals) == 2
    assert "Traceback" not in said
    state = torch.load(tmp_path / "run/checkpoints/last.pt", weights_only=True)
    assert (state["epoch"], state["batch"]) == saved
    assert run(tmp_path) == 0
    if saved == (1, 3):
        assert "resuming after epoch 1 and 3 of 5 batches" in (tmp_path / "said.txt").read_text()
    assert_same(tmp_path / "run", whole)


@pytest.mark.parametrize("threads", [(1, 2), (2, 1)])
def test_a_run_goes_on_with_the_threads_it_was_started_with(tmp_path, threads):
    before, after = threads
    assert run(tmp_path / "whole", threads=before) == 0
    assert run(tmp_path / "moved", threads=before, fault=MOMENTS["a step of the last epoch"]) == -signal.SIGKILL
    assert run(tmp_path / "moved", threads=after) == 0
    assert f"{before} thread{'s' if before > 1 else ''}\n" in (tmp_path / "moved/said.txt").read_text()
    assert_same(tmp_path / "moved/run", tmp_path / "whole/run")
    environment = json.loads((tmp_path / "moved/run/environment.json").read_text())
    assert environment["threads"] == environment["earlier"][0]["threads"] == before


def test_frequency_of_logs_and_checkpoints_changes_nothing(whole, tmp_path):
    words = ["log_every=5", "checkpoint_every=2", "evaluator.knn.every=2", "checkpoint_every_minutes=0"]
    assert run(tmp_path, *words) == 0
    expected, actual = saved_weights(whole), saved_weights(tmp_path / "run")
    assert all(torch.equal(actual[key], expected[key]) for key in expected)
    results = [without_time(json.loads((path / "result.json").read_text())) for path in (tmp_path / "run", whole)]
    assert results[0]["test"] == results[1]["test"] and results[0]["val"] == results[1]["val"]


def test_a_killed_sweep_goes_on_in_its_second_run_and_does_the_first_once(whole, tmp_path):
    words = [*WORDS[:-1], "-m", "seed=1,0", "hydra/launcher=basic"]
    moment = functools.partial(at_call, TrainStep, "__call__", 16, kill_me)  # second epoch of the second job
    assert Program(*words, cwd=tmp_path, fault=moment).wait() == -signal.SIGKILL
    again = Program(*words, cwd=tmp_path)
    assert again.wait() == 0
    assert (again.said.count("done already"), again.said.count("resuming after")) == (1, 1)
    (run_1, run_0) = sorted((path.parent for path in tmp_path.rglob("result.json")), key=str, reverse=True)
    assert (run_1.name, run_0.name) == ("seed=1", "seed=0")
    assert_same(run_0, whole)
