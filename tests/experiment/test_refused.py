"""What cannot run is answered with what to type: settings of a run, and components from Python."""

import math
import re

import pytest

from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.make import make
from tests.helpers import CONTIGUOUS

COLORED = "dataset=biased_digits evaluator=[linear,bias_audit]"
BASE = ["dataset.size=8", "encoder.width=2", "device=cpu", CONTIGUOUS]
TYPED = {
    "epochs=-1": "epochs=50",
    "held_out=-1": "held_out=0",
    "encoder.frozen=-1": "encoder.frozen=0.5",
    "encoder.layer_decay=0": "encoder.layer_decay=0.75",
    "loss.push=-1": "loss.push=4",
    "views_forward=both": "views_forward=fused",
    "precision=fp8": "precision=auto",
    "resident=maybe": "resident=auto",
    "batch_size=1": "batch_size=128",
    "n_views=0": "n_views=2",
    "log_every=0": "log_every=100",
    "threads=99999999999999999999999": "threads=auto",
    "noise_frac=0.3 n_views=1": "n_views=2",
    "+evaluator._target_=mine.RankMe": "'# @package evaluator.NAME'",
    "+hook._target_=mine.Diary": "'# @package hook.NAME'",
    "reproducible=true device=cuda": "device=cpu precision=fp32 compile=false",
    "reproducible=true precision=bf16": "device=cpu precision=fp32 compile=false",
    "reproducible=true compile=true": "device=cpu precision=fp32 compile=false",
    f"{COLORED} bias_as=errors": "bias_from=RUN",
    # where components are built
    "device=cuda:99": "device=auto",
    "precision=fp16": "precision=auto",
    "n_views=1": "n_views=2",
    "n_views=3 loss.aggregation=pos_grouping": "loss.aggregation=loss_combination",
    "loss=combination tau_plus=0.001": "batch_size=500",
    "loss=bcl loss.alpha=2": "loss.alpha=0.8",
    "loss=debiased_pos tau_plus=0": "tau_plus=0.1",
    "regularizer=cross_entropy regularizer.stream=x": "regularizer.stream=main",
    "loss.drop_false_negatives=no": "loss.drop_false_negatives=false",
    "augmentation.ops.crop.scale=0.2": "augmentation.ops.crop.scale=[0.08,1.0]",
    "+hook.mine={_target_:builtins.dict}": "from contrastive.training.hook import Hook",
    "+evaluator.mine={_target_:builtins.dict}": "from contrastive.evaluator.base import Evaluator",
    f"{COLORED} evaluator.bias_audit.reported=online_probe_best_test": "evaluator=[linear,online_probe,bias_audit]",
    "loss=byol": "teacher=ema head=predictor",
    "teacher=ema n_views=3": "n_views=2",
    "teacher=ema loss=vicreg": "loss=nt_xent",
    "teacher=ema loss=byol teacher.queue=9": "loss=nt_xent",
    "teacher=ema teacher.queue_only=true": "teacher.queue=4096",
    "teacher=ema loss=debiased_pos tau_plus=0.003 batch_size=256": "tau_plus=0.004, or a larger teacher.queue",
    "teacher=ema loss=combination tau_plus=0.003 batch_size=256": "tau_plus=0.004, or a larger teacher.queue",
    "teacher=ema teacher.momentum=2": "teacher.momentum=0.99",
    "teacher=ema teacher.evaluated=true average=ema": "average=none",
}
WITH_DATA = {
    f"{COLORED} loss=jtt": "bias_from=RUN",
    f"{COLORED} loss=softcon": "bias_from=RUN, or loss=bias_contrastive",
    "augmentation.ops.blur.kernel_size=17": "augmentation.ops.blur.kernel_size=3",
    "loss=group_dro": "dataset=biased_digits, or bias_from=RUN",
    "batch_size=2000": "batch_size=128",
    "optimizer.lr=-1": "optimizer.lr=1e-3",
    "sampler=bias_balanced": "dataset=biased_digits",
}


@pytest.mark.parametrize(("typed", "advice"), [*TYPED.items(), *WITH_DATA.items()])
def test_a_command_is_answered_with_what_to_type_and_mostly_before_data_is_read(composed, monkeypatch, typed, advice):
    if typed in TYPED:
        monkeypatch.setattr("contrastive.experiment.build.load_data", lambda *_: pytest.fail("data was read"))
    with pytest.raises(ConfigError, match=rf"try (.* )?{re.escape(advice)}"):
        build(composed(*BASE, *typed.split()))


def op(name: str, target: str, **arguments: object) -> dict:
    return {"ops": {name: {"_target_": f"contrastive.augmentation.{target}", **arguments}}}


MADE = [
    ("loss/nt_xent", {"temperature": 0}, "temperature="),
    ("loss/nt_xent", {"temprature": 1}, ""),
    ("loss/debiased_neg", {"tau_plus": 1.5}, "tau_plus="),
    ("loss/debiased_pos", {"semantics": "both"}, "loss.semantics=paper"),
    ("loss/debiased_neg", {"aggregation": "sum"}, "loss.aggregation="),
    ("loss/rince", {"temperature": 0.005, "q": 1.0}, "temperature="),
    ("loss/soft_supcon", {"weights": [[1, 2]]}, "loss.weights="),
    ("loss/soft_supcon", {"weights": [[1, -1], [-1, 1]]}, "loss.weights="),
    ("loss/triplet", {"push": 4}, "loss=nt_xent"),
    ("regularizer/lnl", {"weight": -1.0}, "weight=0.01"),
    ("regularizer/fairkl", {"momentum": 1.0}, "momentum=0.9"),
    ("regularizer/fairkl", {"variance_floor": 0.0}, "variance_floor=0.001"),
    ("regularizer/fairkl", {"semantics": "literal"}, "semantics=released"),
    ("head/mlp", {"in_dim": 8, "n_layers": 1}, "head.n_layers=2, or head=linear"),
    ("head/mlp", {"in_dim": 8, "batch_norm": "last"}, "head.batch_norm=hidden"),
    ("head/mlp", {"in_dim": 8, "hidden_dim": 0}, "head.hidden_dim=128"),
    ("schedule/cosine", {"warmup_epochs": -1}, "schedule.warmup_epochs=10"),
    ("schedule/cosine", {"warmup_from": 1.5}, "schedule.warmup_from=0.02"),
    ("schedule/cosine", {"final": -0.1}, "schedule.final=0"),
    ("schedule/cosine", {"decay_from": "warm"}, "schedule.decay_from=warmup"),
    ("evaluator/knn", {"temperature": math.inf}, "evaluator.knn.temperature="),
    ("evaluator/knn_sweep", {"temperature": (0.1, math.nan)}, "evaluator.knn_sweep.temperature="),
    ("evaluator/knn_sweep", {"temperature": ()}, "evaluator.knn_sweep.temperature="),
    ("evaluator/few_label", {"fractions": ()}, "evaluator.few_label.fractions="),
    ("evaluator/few_label", {"fractions": (0.1, 1.5)}, "evaluator.few_label.fractions="),
    ("evaluator/fine_tune", {"fractions": (2.0,)}, "evaluator.fine_tune.fractions="),
    ("evaluator/bias_audit", {"metric": "top7"}, "evaluator.bias_audit.metric=top1"),
    ("dataset/digits", {"size": 7}, "dataset.size=16"),
    ("dataset/biased_digits", {"rho": 1.1}, "dataset.rho=0.99"),
    ("dataset/biased_digits", {"colors": "mine"}, "dataset.colors=barbano"),
    ("dataset/biased_digits", {"data_seed": -1}, "dataset.data_seed=0"),
    ("dataset/biased_mnist", {"size": 2}, "dataset.size=14"),
    ("dataset/cifar10", {"size": 2}, "dataset.size=16"),
    ("dataset/stl10", {"size": 97}, "dataset.size=96"),
    ("dataset/stl10", {"stats": "imagenet"}, "dataset.stats=stl10"),
    ("dataset/arrays", {}, "dataset.images=x.npy dataset.labels=y.npy"),
    ("encoder/torchvision", {"name": "googlenet"}, "encoder.name=resnet18"),
    ("encoder/torchvision", {"name": "squeezenet1_1"}, "encoder.name=resnet18"),
    ("augmentation/none", op("crop", "crop.RandomResizedCrop", scale=[0, 1]), "augmentation.ops.crop.scale=[0.08,1]"),
    ("augmentation/none", op("crop", "crop.RandomResizedCrop", ratio=[2, 1]), "augmentation.ops.crop.ratio="),
    ("augmentation/none", op("flip", "flip.HorizontalFlip", p="often"), "augmentation.ops.flip.p=0.5"),
    ("augmentation/none", op("jitter", "jitter.ColorJitter", hue=0.6), "augmentation.ops.jitter.hue=0.1"),
    ("augmentation/none", op("blur", "blur.GaussianBlur", kernel_size=4), "augmentation.ops.blur.kernel_size=3"),
    ("augmentation/none", op("blur", "blur.GaussianBlur", sigma=[0, 1]), "augmentation.ops.blur.sigma=[0.1,2.0]"),
    ("augmentation/none", op("ink", "solarize.Solarize", threshold=128), "augmentation.ops.solarize.threshold=0.5"),
    ("augmentation/none", {"ops": {"blur": {"p": 0.5}}}, "'+augmentation.ops.blur={_target_: "),
    ("augmentation/callable", {"transform": "builtins.id", "image": "png"}, "augmentation.image=auto"),
    ("augmentation/callable", {"transform": "builtins.id", "workers": -1}, "augmentation.workers=auto"),
    ("augmentation/callable", {"transform": "builtins.id", "workers": "all"}, "augmentation.workers=auto"),
    ("loss/nt_xen", {}, "loss=nt_xent"),
    ("losses/nt_xent", {}, 'make("loss/nt_xent")'),
]


@pytest.mark.parametrize(("component", "arguments", "advice"), MADE, ids=str)
def test_a_component_is_answered_with_what_to_type(component, arguments, advice):
    with pytest.raises(ConfigError, match=rf"(try|did you mean) (.* )?{re.escape(advice)}"):
        make(component, **arguments)
