"""Steps as a CUDA graph: on fixed memory they are the steps they were, and what cannot be captured says so."""

import copy
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from contrastive.errors import ConfigError
from contrastive.experiment import build as building
from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.loss.nt_xent import NTXent
from contrastive.seeding import generator
from contrastive.training import graph
from contrastive.training.graph import choose_graphs
from contrastive.training.step import StepOutput
from tests.helpers import TINY, TWO_STREAMS, check_same, further, logged_lines, run_until_step

BIASED = ["dataset=biased_digits", "dataset.rho=0.9"]
CONVNET = ["encoder=simple_convnet", "encoder.kernel_size=3"]


class CalledAgain:
    """Stands for `Captured` on a CPU: runs every step, and gives its output in the memory of the first one's."""

    def __init__(self, _: torch.Generator) -> None:
        self.output: StepOutput | None = None

    def __call__(self, step: Callable[[], StepOutput]) -> StepOutput:
        output = step()
        if self.output is None:
            self.output = copy.deepcopy(output)
        for buffer, value in zip(tree_leaves(self.output), tree_leaves(output), strict=True):
            if isinstance(buffer, torch.Tensor):
                buffer.copy_(value)
        return self.output


@pytest.fixture
def on_cpu(monkeypatch) -> None:
    """Runs with graphs=true on a CPU."""
    monkeypatch.setattr(graph, "Captured", CalledAgain)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(building, "choose_graphs", lambda setting, **_: setting is True)


# Learning rates that float32 holds: powers of two, halved after the first epoch.
RATES = ["schedule=step", "schedule.milestones=[1]", "schedule.gamma=0.5"]
QUICK = ["device=cpu", "dataset.size=8", "encoder.width=2", "epochs=2", "batch_size=256", "log_every=1"]
QUICK += ["precision=fp32", "evaluator=[]", *RATES]
ADAM, SGD, LARS = (f"optimizer.lr={2.0**k}" for k in (-10, -4, 0))
RUNS = further(
    [ADAM, "loss=nt_xent", "evaluator=[online_probe]"],
    ["optimizer=lars", LARS, "optimizer.nesterov=true", "loss=sigmoid", "resident=false"],
    ["optimizer=sgd", SGD, "loss=debiased_pos", "noise_frac=0.3", "blur_frac=0.3", "views_forward=per_view"],
    ["optimizer=lars", LARS, "loss=supcon"],
    [ADAM, "teacher=ema", "head=predictor", "teacher.schedule=cosine", "teacher.queue=300", "average=ema"],
    [*BIASED, ADAM, "regularizer=fairkl", "sampler=bias_balanced"],
    [*BIASED, *CONVNET, "optimizer=sgd", SGD, "loss=cross_entropy", "regularizer=lnl"],
    [*TWO_STREAMS, "optimizer=adam", ADAM, "evaluator=[]"],
)


@pytest.mark.parametrize("words", RUNS, ids=" ".join)
def test_a_run_is_the_same_bit_for_bit(on_cpu, composed, tmp_path, words):
    for graphs in ("false", "true"):
        run_experiment(composed(*QUICK, *words, f"graphs={graphs}"), tmp_path / graphs)
    assert len({line["train/lr"] for line in logged_lines(tmp_path / "false") if "train/lr" in line}) == 2
    check_same(tmp_path / "true", tmp_path / "false")


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("true", [ADAM]),
        *further(("false", [ADAM]), ("true", ["optimizer=sgd", SGD]), ("false", ["optimizer=lars", LARS])),
    ],
)
def test_a_run_goes_on_with_and_without(on_cpu, composed, tmp_path, first, words, capsys):
    """Inside an epoch, from a checkpoint of the other kind: learning rate, optimizer and generators are the same."""
    settings = [composed(*QUICK, *words, "checkpoint_every_minutes=0", f"graphs={x}") for x in ("true", "false")]
    run_experiment(settings[1], tmp_path / "whole")
    before, after = settings if first == "true" else settings[::-1]
    run_until_step(8, before, tmp_path / "cut")
    state = torch.load(tmp_path / "cut/checkpoints/last.pt", weights_only=True)
    (group,) = state["optimizer"]["param_groups"]
    assert isinstance(group["lr"], float) and not group.get("capturable")
    run_experiment(after, tmp_path / "cut")
    assert "resuming after epoch 1 and" in capsys.readouterr().out
    check_same(tmp_path / "cut", tmp_path / "whole")


def test_other_learning_rates_are_rounded_to_float32(on_cpu, composed):
    step = build(composed(*QUICK, "graphs=true", "optimizer.lr=0.1")).step
    (group,) = step.optimizer.param_groups
    seen = []
    step.optimizer.register_step_pre_hook(lambda optimizer, *_: seen.append(optimizer.param_groups[0]["lr"].item()))
    batch = next(build(composed(*QUICK)).loader.epoch(0))
    step(batch, generator("cpu", 0))
    assert seen == [torch.tensor(0.1).item()]
    assert group["lr"] == 0.1


def test_a_loss_outlives_the_next_step_and_features_do_not(on_cpu, composed):
    built = build(composed(*QUICK, "graphs=true"))
    batches, rng = built.loader.epoch(0), generator("cpu", 0)
    first = built.step(next(batches), rng)
    value, norm, features = first.loss.item(), first.grad_norm.item(), first.main.outputs["features"].clone()
    second = built.step(next(batches), rng)
    assert (first.loss.item(), first.grad_norm.item()) == (value, norm) != (second.loss.item(), second.grad_norm.item())
    assert first.main.outputs["features"].equal(second.main.outputs["features"])  # which is fixed memory
    assert not first.main.outputs["features"].equal(features)


def test_a_loaded_state_is_captured_anew(on_cpu, composed):
    built = build(composed(*QUICK, "graphs=true"))
    step, batches, rng = built.step, built.loader.epoch(0), generator("cpu", 0)
    step(next(batches), rng)
    state = copy.deepcopy(step.state())
    captured = step._captured
    step(next(batches), rng)
    assert step._captured is captured
    step.load(state)
    step(next(batches), rng)
    assert step._captured is not captured


def test_a_cpu_is_refused_before_data_is_loaded(composed, monkeypatch):
    monkeypatch.setattr(building, "load_data", lambda *_: pytest.fail("data was loaded"))
    with pytest.raises(ConfigError, match=r"^graphs=true captures steps on a GPU: try graphs=false$"):
        build(composed(*TINY, "graphs=true"))


SOUND = {
    "device": torch.device("cuda:0"), "precision": "bf16", "grad_cache_chunk": 0,
    "made_of": [nn.Linear(1, 1), NTXent()],
    "optimizer": torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1, fused=True),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({"device": torch.device("cpu")}, "graphs=false"),
        ({"precision": "fp16"}, "precision=bf16"),
        ({"grad_cache_chunk": 64}, "grad_cache_chunk=0"),
        ({"optimizer": torch.optim.Adam([nn.Parameter(torch.zeros(1))])}, "optimizer.fused=true, or graphs=false"),
    ],
    ids=["cpu", "fp16", "chunks", "optimizer"],
)
def test_what_cannot_be_captured_names_a_way_out_and_auto_leaves_it(change, advice, capsys):
    assert choose_graphs("auto", **SOUND)
    with pytest.raises(ConfigError, match=f"^graphs=true .*: try {re.escape(advice)}$"):
        choose_graphs(True, **(SOUND | change))
    for setting in ("auto", False):
        assert not choose_graphs(setting, **(SOUND | change))
    assert capsys.readouterr().out == ""


class OwnLoss(NTXent):
    """Might decide something in Python from one step to the next."""


def test_auto_captures_no_code_of_the_user_and_says_what_to_type(capsys):
    own = SOUND | {"made_of": [*SOUND["made_of"], OwnLoss()]}
    assert not choose_graphs("auto", **own)
    assert capsys.readouterr().out == "steps could be faster: try graphs=true if OwnLoss does the same in every step\n"
    assert choose_graphs(True, **own)


HOOK = """
from contrastive.training.hook import Hook


class Cooling(Hook):
    def on_epoch_start(self, training, epoch): ...
"""


@pytest.mark.parametrize("changes", [False, True])
def test_auto_captures_no_step_that_a_hook_changes(composed, monkeypatch, tmp_path, changes):
    (tmp_path / "cooling.py").write_text(HOOK)
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[object] = []
    monkeypatch.setattr(building, "choose_graphs", lambda *_, made_of, **__: seen.extend(made_of))
    settings = composed(*TINY, "epochs=1")
    node = {"_target_": "cooling.Cooling", "changes_training": changes}
    build(replace(settings, hook={**settings.hook, "cooling": node}))
    assert ("Cooling" in [type(part).__name__ for part in seen]) == changes


def test_several_processes_are_refused_and_auto_leaves_them(monkeypatch):
    monkeypatch.setattr(graph, "world_size", lambda: 2)
    assert not choose_graphs("auto", **SOUND)
    with pytest.raises(ConfigError, match="there are 2: try graphs=false"):
        choose_graphs(True, **SOUND)
