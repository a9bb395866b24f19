"""encoder.weights and epochs=0: evaluate or train on what a file holds."""

import json
import os

import pytest
import torch

from contrastive import load_encoder
from contrastive.encoder.resnet import ResNet
from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.components import build_encoder
from contrastive.experiment.dry_run import estimate
from contrastive.experiment.run import run_experiment
from contrastive.run.weights import read_weights
from contrastive.training.features import extract
from contrastive.training.step import TrainStep
from tests.helpers import TINY, logged_lines, program, without_time

NODE = {"_target_": "contrastive.encoder.resnet.ResNet", "depth": 18, "width": 2, "stem": "small"}


@pytest.fixture
def file(tmp_path):
    """A ResNet-18 of width 2 as MoCo saves it."""
    torch.manual_seed(3)
    network = ResNet(width=2)
    state = {f"module.encoder_q.{key}": value for key, value in network.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "moco.pth.tar")
    return tmp_path / "moco.pth.tar", network


def no_step(*_):
    raise AssertionError("it trained")


def test_no_epoch_evaluates_the_encoder_as_it_stands(composed, tmp_path, file, monkeypatch, capsys):
    monkeypatch.setattr(TrainStep, "__call__", no_step)
    path, network = file
    settings = composed(*TINY, "epochs=0", f"encoder.weights={path}")
    result = run_experiment(settings, tmp_path / "run")
    printed = capsys.readouterr().out
    assert "tensors, layout of MoCo" in printed
    assert "no training" in printed
    assert "features: 16 values, average of layer4 over all positions" in printed
    assert "as loaded" in printed
    assert "untrained" not in printed
    assert result["untrained"] == {}
    assert result["encoder"]["weights"] == str(path)
    encoder, _ = load_encoder(tmp_path / "run")
    assert all(torch.equal(value, network.state_dict()[key]) for key, value in encoder.state_dict().items())
    assert len(logged_lines(tmp_path / "run")) == 1
    assert read_weights(tmp_path / "run" / "encoder.safetensors").metadata["node"] == NODE
    assert without_time(run_experiment(settings, tmp_path / "run")) == without_time(result)  # shown again


def test_the_figures_are_those_of_the_run_that_wrote_the_file(composed, tmp_path):
    trained = run_experiment(composed(*TINY, "epochs=1"), tmp_path / "trained")
    words = (*TINY, "epochs=0", f"encoder.weights={tmp_path / 'trained'}")
    again = run_experiment(composed(*words), tmp_path / "again")
    assert again["test"] == trained["test"]
    more = run_experiment(composed(*TINY, "epochs=1", f"encoder.weights={tmp_path / 'trained'}"), tmp_path / "more")
    compared = {key: trained["test"][key] for key in more["untrained"]}
    assert compared
    assert more["untrained"] == compared
    assert more["test"] != trained["test"]


def test_untrained_classifier_is_not_reported(composed, tmp_path):
    result = run_experiment(composed(*TINY, "epochs=0", "loss=cross_entropy"), tmp_path / "run")
    assert not any(key.startswith("classifier") for key in result["test"])


@pytest.mark.slow
def test_epochs_0_with_biased_data_and_online_probe(composed, tmp_path):
    evaluators = "evaluator=[knn,online_probe,bias_audit]"
    words = ("dataset=biased_digits", "epochs=0", "device=cpu", "loss=cross_entropy", evaluators)
    result = run_experiment(composed(*words), tmp_path / "run")
    assert "knn_top1" in result["test"]
    assert not any(key.startswith("online_probe") for key in result["test"])


def test_an_interrupted_run_is_not_continued_from_another_file(composed, tmp_path, file, monkeypatch):
    path, network = file
    settings = composed(*TINY, f"encoder.weights={path}")
    step, calls = TrainStep.__call__, []

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 8:  # in the second epoch
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(TrainStep, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(settings, tmp_path / "run")
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert len(environment["weights"]) == 64
    torch.save({key: value + 1 for key, value in network.state_dict().items()}, path)
    with pytest.raises(ConfigError, match="interrupted under other weights"):
        run_experiment(settings, tmp_path / "run")


def test_configuration_without_weights_is_unchanged(composed):
    assert composed().encoder.keys() == {"_target_", "depth", "width", "stem"}
    assert composed("encoder.weights=a.pth").encoder["weights"] == "a.pth"


def test_every_encoder_takes_weights(composed, tmp_path):
    for words in (["dataset=biased_digits"], ["encoder=torchvision"], ["encoder=timm"]):
        assert composed(*words, "encoder.weights=a.pth", "encoder.prefix=b").encoder["prefix"] == "b"


def test_a_prefix_needs_a_file():
    with pytest.raises(ConfigError, match=r"try encoder\.weights=PATH"):
        build_encoder({**NODE, "prefix": "online."}, 16)


def test_head_does_not_depend_on_the_weights_file(composed, file):
    fresh = build(composed(*TINY))
    loaded = build(composed(*TINY, f"encoder.weights={file[0]}"))
    for key, value in fresh.step.head.state_dict().items():
        assert torch.equal(value, loaded.step.head.state_dict()[key])
    sample = fresh.data.test[torch.arange(4)]
    assert not torch.equal(
        extract(fresh.step.encoder, sample, fresh.step.normalize).h,
        extract(loaded.step.encoder, sample, loaded.step.normalize).h,
    )


def test_a_dry_run_estimates_the_evaluation(composed):
    settings = composed(*TINY, "epochs=0")
    assert "0 epochs of 5 steps" in estimate(build(settings))


@pytest.mark.slow
def test_the_program_answers_in_one_sentence(tmp_path):
    words = (*TINY, "epochs=0", f"hydra.run.dir={tmp_path / 'run'}")
    missing = program(*words, f"encoder.weights={tmp_path / 'none.pth'}")
    assert missing.returncode == 2
    assert "there is no weights file" in missing.stderr
    torch.save(ResNet(width=4, stem="large").state_dict(), tmp_path / "wide.pth")
    wide = program(*words, f"encoder.weights={tmp_path / 'wide.pth'}")
    assert wide.returncode == 2
    assert "try encoder=resnet18 encoder.width=4 encoder.stem=large" in wide.stderr
    assert len(wide.stderr.splitlines()) == 1
    assert not os.path.exists(tmp_path / "run")
