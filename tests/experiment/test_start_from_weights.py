"""encoder.weights and epochs=0: evaluate or train on what a file holds."""

import json

import pytest
import torch

from contrastive import load_encoder
from contrastive.encoder.resnet import ResNet
from contrastive.experiment.build import build
from contrastive.experiment.dry_run import estimate
from contrastive.experiment.run import run_experiment
from contrastive.files import file_hash
from contrastive.run.weights import read_weights
from contrastive.training.step import TrainStep
from tests.helpers import TINY, logged_lines, without_time

NODE = {"_target_": "contrastive.encoder.resnet.ResNet", "depth": 18, "width": 2, "stem": "small"}


@pytest.fixture
def file(tmp_path):
    """A ResNet-18 of width 2 as MoCo saves it."""
    torch.manual_seed(3)
    network = ResNet(width=2)
    state = {f"module.encoder_q.{key}": value for key, value in network.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "moco.pth.tar")
    return tmp_path / "moco.pth.tar", network


def test_no_epoch_evaluates_the_encoder_as_it_stands(composed, tmp_path, file, monkeypatch, capsys):
    monkeypatch.setattr(TrainStep, "__call__", None)  # a call would fail
    (path, network), run = file, tmp_path / "run"
    settings = composed(*TINY, "epochs=0", f"encoder.weights={path}")
    result = run_experiment(settings, run)
    printed = capsys.readouterr().out
    features = "features: 16 values, average of layer4 over all positions"
    place = "tensors below state_dict.module.encoder_q"
    assert all(said in printed for said in (place, "no training", features, "as loaded"))
    assert "untrained" not in printed
    assert result["untrained"] == {}
    assert result["encoder"]["weights"] == str(path)
    assert json.loads((run / "environment.json").read_text())["weights"] == file_hash(path)
    encoder, _ = load_encoder(run)
    assert all(torch.equal(value, network.state_dict()[key]) for key, value in encoder.state_dict().items())
    assert len(logged_lines(run)) == 1
    assert read_weights(run / "encoder.safetensors")[1]["node"] == NODE
    assert without_time(run_experiment(settings, run)) == without_time(result)  # shown again


@pytest.mark.slow
def test_the_figures_are_those_of_the_run_that_wrote_the_file(composed, tmp_path):
    trained = run_experiment(composed(*TINY, "epochs=1"), tmp_path / "trained")
    words = (*TINY, "epochs=0", f"encoder.weights={tmp_path / 'trained'}")
    assert run_experiment(composed(*words), tmp_path / "again")["test"] == trained["test"]
    more = run_experiment(composed(*TINY, "epochs=1", f"encoder.weights={tmp_path / 'trained'}"), tmp_path / "more")
    compared = {key: trained["test"][key] for key in more["untrained"]}
    assert compared
    assert more["untrained"] == compared
    assert more["test"] != trained["test"]


@pytest.mark.slow
def test_epochs_0_reports_nothing_that_was_not_trained(composed, tmp_path):
    evaluators = "evaluator=[knn,online_probe,classifier,bias_audit]"
    settings = composed("dataset=biased_digits", "epochs=0", "device=cpu", "loss=cross_entropy", evaluators)
    assert "0 epochs of" in estimate(build(settings)).text
    assert {key.partition("_")[0] for key in run_experiment(settings, tmp_path / "run")["test"]} == {"knn"}


def test_head_does_not_depend_on_the_weights_file(composed, file):
    fresh = build(composed(*TINY))
    loaded = build(composed(*TINY, f"encoder.weights={file[0]}"))
    for key, value in fresh.step.head.state_dict().items():
        assert torch.equal(value, loaded.step.head.state_dict()[key])
    assert not torch.equal(fresh.step.encoder.conv1.weight, loaded.step.encoder.conv1.weight)
