"""average=ema: what evaluators read, and nothing while it is off; tests/encoder/test_teacher.py has its formula."""

import pytest
import torch
from safetensors.torch import load_file

from contrastive import load_encoder
from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.run.files import read_result
from tests.helpers import BARE, compose_settings, logged_lines, saved_weights

WORDS = [*BARE, "evaluator=[knn,online_probe]", "evaluator.knn.every=1", "log_every=2", "checkpoint_every_minutes=0"]
EMA_WORDS = [*WORDS, "average=ema", "average.decay=0.9"]


@pytest.mark.slow
def test_training_is_the_same_and_what_is_read_and_written_is_the_average(tmp_path):
    averaged, plain = tmp_path / "averaged", tmp_path / "plain"
    run_experiment(compose_settings(*EMA_WORDS), averaged)
    run_experiment(compose_settings(*WORDS), plain)
    mine, theirs = saved_weights(averaged), saved_weights(plain)
    assert all(torch.equal(mine[key], value) for key, value in theirs.items())
    for line, other in zip(logged_lines(averaged), logged_lines(plain), strict=True):
        assert line == other or any(key.startswith("test/knn") for key in line)
    key = "test/knn_top1"
    knn = [[line[key] for line in logged_lines(path) if key in line] for path in (averaged, plain)]
    assert knn[0][0] == knn[1][0]  # before training there is nothing to average
    assert knn[0][1:] != knn[1][1:]
    written = load_file(averaged / "encoder.safetensors")
    average = torch.load(averaged / "checkpoints/last.pt", weights_only=True)["hooks"]["average"]["encoder"]
    assert all(torch.equal(written[key], value) for key, value in average.items())
    assert not torch.equal(average["conv1.weight"], mine["conv1.weight"])
    assert not torch.equal(average["bn1.running_mean"], mine["bn1.running_mean"])
    assert torch.equal(load_encoder(averaged)[0].state_dict()["conv1.weight"], average["conv1.weight"])
    result, said = read_result(averaged), "weights averaged over the steps (EMA, decay 0.9)"
    assert result["encoder"]["average"] == said
    assert all(protocol.endswith(f"; {said}") for protocol in result["protocol"].values())
    for name in ("encoder.safetensors", "result.json"):  # lost, they are written from the checkpoint
        (averaged / name).unlink()
    run_experiment(compose_settings(*EMA_WORDS), averaged)
    again = load_file(averaged / "encoder.safetensors")
    assert all(torch.equal(again[key], value) for key, value in written.items())


def test_without_one_nothing_is_held():
    built = build(compose_settings(*WORDS))
    assert built.average is built.teacher is None
