"""A profiled run: what is written, and that nothing else changes. The same of a deterministic one."""

import gzip
import json
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch

from contrastive.experiment.run import run_experiment
from contrastive.hook.profiling import Profiling
from contrastive.run.directory import clear
from tests.helpers import BARE, compose_settings, saved_weights

WORDS = [*BARE, "epochs=1", "evaluator=[knn]"]


def recorded(folder):
    with gzip.open(folder / "profile/trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    return {event["name"] for event in events if event.get("name", "").startswith("ProfilerStep#")}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = tmp_path_factory.mktemp("plain")
    run_experiment(compose_settings(*WORDS), path)
    return saved_weights(path)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["profile=true", "deterministic=true"])
def test_weights_are_the_same_bit_for_bit(composed, tmp_path, plain, word):
    try:
        run_experiment(composed(*WORDS, word), tmp_path)
    finally:
        torch.use_deterministic_algorithms(False)
    weights = saved_weights(tmp_path)
    assert all(torch.equal(weights[key], value) for key, value in plain.items())
    assert (tmp_path / "profile").exists() == (word == "profile=true")
    if word == "profile=true":
        assert len(recorded(tmp_path)) == 3  # of 5 steps two warm up
        table = (tmp_path / "profile/operations.txt").read_text()
        assert "convolution" in table and "Self CPU" in table
        clear(tmp_path)  # as rerun=true does
        assert not list((tmp_path / "profile").iterdir())


@pytest.mark.parametrize(
    ("steps", "taken", "waited", "kept"),
    [(100, 100, 10, 20), (25, 25, 5, 20), (100, 15, 10, 6), (2, 2, 1, 1), (1, 1, 0, 1)],
)
@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_twenty_steps_or_what_there_is(tmp_path, steps, taken, waited, kept):
    loader = MagicMock(device=torch.device("cpu"), __len__=lambda _: steps)
    training, hook = SimpleNamespace(epochs=1, steps_done=0, loader=loader), Profiling(tmp_path / "profile")
    hook.on_start(training)
    for _ in range(taken):
        torch.ones(2, 2) @ torch.ones(2, 2)
        hook.on_step(training, None)
    hook.close()
    assert recorded(tmp_path) == {f"ProfilerStep#{i}" for i in range(waited, waited + kept)}
