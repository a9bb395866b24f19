"""From settings to objects: every option builds, what cannot run is refused at once, what can is estimated."""

import re

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment import dry_run
from contrastive.experiment.build import build
from contrastive.experiment.dry_run import estimate
from contrastive.experiment.machine import is_resident
from contrastive.text import clock
from tests.helpers import ROOT, TINY

GROUPS = ("augmentation", "encoder", "head", "loss", "optimizer", "schedule")
OPTIONS = [(group, path.stem) for group in GROUPS for path in sorted((ROOT / "configs" / group).glob("*.yaml"))]


@pytest.mark.slow
@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_builds(composed, group, option):
    words = [*TINY[:1], *TINY[2:], f"{group}={option}"]
    if option == "timm":
        pytest.importorskip("timm")
        words.append("dataset.size=16")  # a patch
    if option in ("bias_contrastive", "bias_balanced", "group_dro"):
        words.append("dataset=biased_digits")  # the digits have no bias
    if option in ("softcon", "jtt"):
        words.append(f"bias_from={ROOT}/contrastive/weights/digits/model.safetensors")
    if group == "augmentation" and option == "callable":
        words.append("augmentation.transform=torchvision.transforms.v2.functional.horizontal_flip")
    if option in ("byol", "simsiam"):
        words += ["teacher=ema", "head=predictor"]
    build(composed(*words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["batch_size=2000"], "try batch_size=128"),
        (["device=cuda:99"], "try device=auto"),
        (["precision=fp16", "device=cpu"], "try precision=auto"),
        (["optimizer.lr=-1"], "try optimizer.lr"),
        (["loss=combination", "tau_plus=0.001"], "try batch_size=500"),
        (["loss=group_dro"], "needs bias labels .*: try dataset=biased_digits, or bias_from=RUN"),
        (["loss=bcl", "loss.alpha=2"], "^loss.alpha must be between .*: try loss.alpha=0.8$"),
        (["loss=debiased_pos", "tau_plus=0"], "^tau_plus must be .*: try tau_plus=0.1$"),
        (["regularizer=cross_entropy", "regularizer.stream=x"], "^regularizer.stream .*: try regularizer.stream=main$"),
        (["sampler=bias_balanced"], "dataset=biased_digits"),
        (["+evaluator.mine={_target_: builtins.dict}"], "from contrastive.evaluator.base import Evaluator"),
    ],
)
def test_impossible_combinations_are_refused(composed, words, message):
    with pytest.raises(ConfigError, match=message):
        build(composed("dataset.size=8", *words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["n_views=1"], "compares 2 views of an image, got 1: try n_views=2$"),
        (["n_views=3", "loss.aggregation=pos_grouping"], "try loss.aggregation=loss_combination$"),
    ],
)
def test_a_number_of_views_is_refused_before_data_is_loaded(composed, monkeypatch, words, message):
    monkeypatch.setattr("contrastive.experiment.build.load_data", lambda *_: pytest.fail("the data was loaded"))
    with pytest.raises(ConfigError, match=message):
        build(composed(*TINY, *words))


def test_images_stay_on_the_device_when_they_fit(composed, monkeypatch):
    data = build(composed(*TINY)).data
    assert is_resident(data, torch.device("cpu"), "auto")
    monkeypatch.setattr("contrastive.experiment.machine.free_memory", lambda device: 2 * data.nbytes - 1)
    assert not is_resident(data, torch.device("cpu"), "auto")
    assert is_resident(data, torch.device("cpu"), True)


def test_the_estimate_of_a_dry_run_by_hand(composed, monkeypatch):
    """Ten epochs of 22 steps; kNN after each third epoch, and as linear before and after training."""
    monkeypatch.setattr(dry_run, "first_steps", lambda experiment, n: (0.5, []))
    monkeypatch.setattr(dry_run, "evaluation_seconds", lambda experiment: (4.0, {"knn": 2.0, "linear": 6.0}))
    words = [word for word in TINY if "few_shot" not in word]
    words += ["epochs=10", "batch_size=64", "evaluator=[knn,linear]", "evaluator.knn.every=3"]
    text = estimate(build(composed(*words))).text
    assert "10 epochs of 22 steps" in text
    assert "3 of knn, 2.0 s each, features 4.0 s\n" in text
    assert "before and after: features 4.0 s, knn 2.0 s, linear 6.0 s\n" in text
    assert re.search(r"peak memory +\d+\.\d\d GiB", text)
    rows = re.findall(r"^  (\w+(?: \w+)?) +(.+?) +(\d+) %", text, re.MULTILINE)
    training, curve, evaluation = 10 * 22 * 0.5, 3 * (4 + 2), 2 * (4 + 2 + 6)
    total = training + curve + evaluation
    parts = {"training": training, "curve points": curve, "evaluation": evaluation, "together": total}
    assert rows == [(name, clock(part), f"{100 * part / total:.0f}") for name, part in parts.items()]
    assert [clock(s) for s in (4.06, 187, 7510)] == ["4.1 s", "3 min 07 s", "2 h 05 min"]
