"""average=ema: the formula, what evaluators read, and nothing while it is off."""

import shutil
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from contrastive import load_encoder
from contrastive.average.ema import EMA
from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.run.files import read_result
from tests.helpers import TINY, compose_settings, logged_lines, saved_weights

BARE = [word for word in TINY if "linear" not in word and "few" not in word]
WORDS = [*BARE, "evaluator=[knn,online_probe]", "log_every=2", "checkpoint_every_minutes=0"]
EMA_WORDS = [*WORDS, "average=ema", "average.decay=0.9"]


def trained(encoder: nn.Module, n: int) -> SimpleNamespace:
    """Training after n steps."""
    return SimpleNamespace(step=SimpleNamespace(encoder=encoder), steps_done=n)


def test_weights_and_buffers_follow_the_formula():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    average = EMA(net, decay=0.6)
    expected = {key: value.clone() for key, value in net.state_dict().items()}
    for t in range(1, 9):
        with torch.no_grad():
            for value in net.parameters():
                value.add_(torch.randn_like(value))
        net(torch.randn(2, 3, 5, 5))
        average.on_step(trained(net, t), None)
        d = min(0.6, (1 + t) / (10 + t))  # 0.6 from the thirteenth step on
        for key, value in net.state_dict().items():
            expected[key] = d * expected[key] + (1 - d) * value if value.is_floating_point() else value.clone()
    for key, value in average.encoder.state_dict().items():
        torch.testing.assert_close(value, expected[key])
    assert average.encoder[1].num_batches_tracked == 8
    assert not average.encoder.training


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    path = tmp_path_factory.mktemp("average") / "run"
    run_experiment(compose_settings(*EMA_WORDS), path)
    return path


def saved_average(path):
    return torch.load(path / "checkpoints/last.pt", weights_only=True)["hooks"]["average"]["encoder"]


@pytest.mark.slow
def test_training_is_the_same_and_what_is_read_and_written_is_the_average(averaged, tmp_path):
    run_experiment(compose_settings(*WORDS), tmp_path)
    mine, theirs = saved_weights(averaged), saved_weights(tmp_path)
    assert all(torch.equal(mine[key], value) for key, value in theirs.items())
    for line, other in zip(logged_lines(averaged), logged_lines(tmp_path), strict=True):
        assert line == other or any(key.startswith("test/knn") for key in line)
    knn = [
        [line["test/knn_top1"] for line in logged_lines(path) if "test/knn_top1" in line]
        for path in (averaged, tmp_path)
    ]
    assert knn[0][0] == knn[1][0]  # before training there is nothing to average
    assert knn[0][1:] != knn[1][1:]
    written, average = load_file(averaged / "encoder.safetensors"), saved_average(averaged)
    assert all(torch.equal(written[key], value) for key, value in average.items())
    assert not torch.equal(average["conv1.weight"], mine["conv1.weight"])
    assert not torch.equal(average["bn1.running_mean"], mine["bn1.running_mean"])
    assert torch.equal(load_encoder(averaged)[0].state_dict()["conv1.weight"], average["conv1.weight"])
    result, said = read_result(averaged), "weights averaged over the steps (EMA, decay 0.9)"
    assert result["encoder"]["average"] == said
    assert all(protocol.endswith(f"; {said}") for protocol in result["protocol"].values())


@pytest.mark.slow
def test_lost_weights_are_written_from_its_checkpoint(averaged, tmp_path):
    shutil.copytree(averaged, tmp_path / "run")
    for name in ("encoder.safetensors", "result.json"):
        (tmp_path / "run" / name).unlink()
    run_experiment(compose_settings(*EMA_WORDS), tmp_path / "run")
    written, before = (load_file(path / "encoder.safetensors") for path in (tmp_path / "run", averaged))
    assert all(torch.equal(written[key], value) for key, value in before.items())


def test_without_one_nothing_is_held():
    built = build(compose_settings(*WORDS))
    assert built.average is built.teacher is None
