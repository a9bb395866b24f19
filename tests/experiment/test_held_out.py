"""held_out=N: a run is judged on training images that it does not train on, and never sees a test image."""

import json
from dataclasses import replace

import pytest
import torch

from contrastive.dataset.biased_digits import biased_digits
from contrastive.dataset.digits import digits
from contrastive.dataset.splits import fingerprint, judged_on_training
from contrastive.errors import ConfigError
from contrastive.experiment.components import load_data
from contrastive.experiment.run import run_experiment
from contrastive.report.frame import runs
from contrastive.types import Split
from tests.helpers import TINY, compose_settings, without_time


def as_set(split: Split) -> set[bytes]:
    return {image.numpy().tobytes() for image in split.image}


def test_a_tenth_of_the_training_images_takes_the_place_of_the_test_images():
    data = digits(size=8)
    one, other = judged_on_training(data, 0), judged_on_training(data, 1)
    for drawn in (one, other):
        assert len(drawn.test) + len(drawn.pretrain) == len(data.pretrain)
        assert len(drawn.test) == pytest.approx(0.1 * len(data.pretrain), abs=6)
        assert not as_set(drawn.test) & as_set(data.test)
        assert as_set(drawn.test) | as_set(drawn.pretrain) == as_set(data.pretrain)
        assert sorted([*drawn.probe_train.tolist(), *drawn.probe_val_index.tolist()]) == [*range(len(drawn.pretrain))]
        assert torch.equal(judged_on_training(data, 0).test.image, one.test.image)
    assert as_set(one.test) != as_set(other.test)
    assert len({fingerprint(data), fingerprint(one), fingerprint(other)}) == 3


def test_recolored_validation_images_are_judged_on_and_not_trained_on():
    node = {"_target_": "contrastive.dataset.biased_digits.biased_digits", "rho": 0.9, "size": 8, "hold_out": False}
    judged = load_data(node, 0).data
    held_out = biased_digits(rho=0.9, size=8, hold_out=True)
    assert torch.equal(judged.test.image, held_out.probe_val.image)
    assert torch.equal(judged.pretrain.image, held_out.pretrain.image)


def test_without_labels_there_is_nothing_to_judge():
    with pytest.raises(ConfigError, match="try held_out=null"):
        judged_on_training(replace(digits(size=8), classes=()), 0)


def test_a_run_holds_no_figure_of_a_test_image(tmp_path):
    settings = compose_settings(*TINY, "held_out=1", "evaluator=[knn,linear,few_shot]")
    result = run_experiment(settings, tmp_path / "run")
    assert result["test"] == result["untrained"] == result["audit"] == {}
    assert {"knn_top1", "linear_top1"} <= result["val"].keys()
    logged = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert not any(key.startswith("test/") for line in logged for key in line)
    assert logged[-1]["val/knn_top1"] == result["val"]["knn_top1"]
    assert runs(tmp_path)["val/knn_top1"].item() == result["val"]["knn_top1"]
    assert without_time(run_experiment(settings, tmp_path / "run")) == without_time(result)
