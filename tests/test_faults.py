"""Kills, signals and damaged files: nothing is lost, and nothing is taken for what it is not."""

import functools
import json
import random
import signal
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from contrastive.evaluator.knn import KNN
from contrastive.training.step import TrainStep
from tests.forked import Program, at_call, kill_me
from tests.helpers import logged_lines, saved_weights, without_time

pytestmark = pytest.mark.slow
WORDS = [
    "epochs=2", "encoder.width=4", "batch_size=256", "dataset.size=8", "device=cpu", "log_every=2", "evaluator=[knn]",
    "evaluator.knn.every=1", "hydra.run.dir=run",
]  # fmt: skip


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
    curves = EventAccumulator(str(path / "tb")).Reload()
    return {
        name: [(event.step, event.value) for event in curves.Scalars(name)]
        for name in curves.Tags()["scalars"]
        if not name.startswith("time/")
    }


def assert_same(path: Path, whole: Path) -> None:
    """Weights, lines, result and curves equal those of the uninterrupted run."""
    expected, actual = saved_weights(whole), saved_weights(path)
    assert all(torch.equal(actual[key], expected[key]) for key in expected)
    assert (path / "encoder.safetensors").read_bytes() == (whole / "encoder.safetensors").read_bytes()
    assert logged_lines(path) == logged_lines(whole)
    mine, theirs = (json.loads((p / "result.json").read_text()) for p in (path, whole))
    assert without_time(mine) == without_time(theirs)
    assert points(path) == points(whole)
    assert not list(path.rglob("*.part"))


def kill_at(owner: type, name: str, n: int) -> None:
    at_call(owner, name, n, kill_me)


def kill_in_rename(n: int) -> None:
    """Of a run: environment, config, metrics, then two checkpoints (last; previous and last), encoder, result."""
    at_call(Path, "replace", n, kill_me)


MOMENTS = {
    "the second step": functools.partial(kill_at, TrainStep, "__call__", 1),
    "a step of the last epoch": functools.partial(kill_at, TrainStep, "__call__", 8),
    "an evaluation between epochs": functools.partial(kill_at, KNN, "__call__", 1),
    "the last evaluation": functools.partial(kill_at, KNN, "__call__", 2),
    "the first checkpoint": functools.partial(kill_in_rename, 3),
    "between both renames of a checkpoint": functools.partial(kill_in_rename, 5),
    "the encoder": functools.partial(kill_in_rename, 6),
    "the last rename": functools.partial(kill_in_rename, 7),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_killed_in(moment, whole, tmp_path):
    assert run(tmp_path, fault=MOMENTS[moment]) == -signal.SIGKILL
    assert not (tmp_path / "run/result.json").exists()
    assert run(tmp_path) == 0
    assert_same(tmp_path / "run", whole)


def test_kills_at_random_moments_between_batches_too(whole, tmp_path):
    rng, n_kills = random.Random(0), 0
    for _ in range(30):
        program = Program(*WORDS, "checkpoint_every_minutes=0", cwd=tmp_path)
        program.process.join(rng.uniform(0.5, 3.0))
        if program.process.exitcode == 0:
            break
        program.send(signal.SIGKILL)
        n_kills += program.wait() == -signal.SIGKILL
    else:
        raise AssertionError("it never ended")
    assert n_kills > 0
    assert_same(tmp_path / "run", whole)
