"""From settings to objects: every option builds, and what cannot run is refused at once."""

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.machine import is_resident
from tests.helpers import ROOT, TINY

GROUPS = ("augmentation", "encoder", "head", "loss", "optimizer", "schedule")
OPTIONS = [(group, path.stem) for group in GROUPS for path in sorted((ROOT / "configs" / group).glob("*.yaml"))]
EVALUATORS = sorted(path.stem for path in (ROOT / "configs/evaluator").glob("*.yaml"))


@pytest.mark.slow
@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_builds(composed, group, option):
    words = [*TINY[:1], *TINY[2:], f"{group}={option}"]
    if option == "timm":
        pytest.importorskip("timm")
        words.append("dataset.size=16")  # a patch
    if option in ("bias_contrastive", "bias_balanced"):  # the digits have no bias
        with pytest.raises(ConfigError, match="needs bias labels of every training image"):
            build(composed(*words))
    else:
        build(composed(*words))


def test_every_evaluator_builds(composed):
    words = ["dataset.size=8", "encoder.width=2", "device=cpu", f"evaluator=[{','.join(EVALUATORS)}]"]
    evaluators = build(composed(*words)).evaluators
    assert list(evaluators) == EVALUATORS
    assert all(len(evaluator.protocol.split()) > 5 for evaluator in evaluators.values())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["batch_size=2000"], "try batch_size=128"),
        (["loss=debiased_pos", "batch_size=4"], "try batch_size=5"),
        (["n_views=1"], "try n_views=2"),
        (["device=tpu"], "try device=auto"),
        (["device=cuda:99"], "try device=auto"),
        (["precision=fp16", "device=cpu"], "try precision=auto"),
        (["optimizer.lr=-1"], "try optimizer.lr"),
        (["optimizer.lr=abc"], "try optimizer.lr"),
        (["loss=combination", "tau_plus=0.001"], "try batch_size=500"),
        (["n_views=3", "loss.aggregation=pos_grouping"], "loss_combination"),
        (["regularizer=fairkl"], "dataset=biased_digits"),
        (["regularizer=lnl"], "dataset=biased_digits"),
        (["loss=bias_contrastive"], "dataset=biased_digits"),
        (["sampler=bias_balanced"], "dataset=biased_digits"),
        (["+evaluator.mine={_target_: builtins.dict}"], "from contrastive.evaluator.base import Evaluator"),
    ],
)
def test_impossible_combinations_are_refused(composed, words, message):
    with pytest.raises(ConfigError, match=message):
        build(composed("dataset.size=8", *words))


def test_images_stay_on_the_device_when_they_fit(composed, monkeypatch):
    data = build(composed(*TINY)).data
    assert is_resident(data, torch.device("cpu"), "auto")
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_AVPHYS_PAGES": 2 * data.nbytes - 1, "SC_PAGE_SIZE": 1}[name])
    assert not is_resident(data, torch.device("cpu"), "auto")
    assert is_resident(data, torch.device("cpu"), True)


def test_the_base_learning_rate_is_kept_in_initial_lr(composed):
    optimizer = build(composed(*TINY, "optimizer.lr=0.02")).step.optimizer
    assert [group["initial_lr"] for group in optimizer.param_groups] == [0.02]
