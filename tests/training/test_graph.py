"""Steps as a CUDA graph: on fixed memory they are the steps they were, and what cannot be captured says so."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from contrastive.augmentation.callable import PerImage
from contrastive.errors import ConfigError
from contrastive.experiment import build as building
from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.loss.nt_xent import NTXent
from contrastive.training import graph
from contrastive.training.graph import choose_graphs
from contrastive.training.step import StepOutput
from tests.helpers import TINY, TWO_STREAMS, check_same, further, logged_lines, run_until_step


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
    [ADAM, "teacher=ema", "head=predictor", "teacher.queue=300", "average=ema", "evaluator=[online_probe]"],
    ["optimizer=sgd", SGD, "loss=debiased_pos", "noise_frac=0.3", "blur_frac=0.3", "views_forward=per_view"],
    ["optimizer=lars", LARS, "optimizer.nesterov=true", "loss=sigmoid", "resident=false"],
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
        *further(("false", ["optimizer=lars", LARS])),
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


SOUND = {
    "device": torch.device("cuda:0"), "precision": "bf16", "grad_cache_chunk": 0,
    "made_of": [nn.Linear(1, 1), NTXent()],
    "optimizer": torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1, fused=True),
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"device": torch.device("cpu")}, {"precision": "fp16"}, {"grad_cache_chunk": 64},
        {"made_of": [PerImage(transform="x.y", function=str)]},
        {"optimizer": torch.optim.Adam([nn.Parameter(torch.zeros(1))])}, {"processes": 2},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_what_cannot_be_captured_is_refused_and_auto_leaves_it(change, monkeypatch, capsys):
    assert choose_graphs("auto", **SOUND)
    monkeypatch.setattr(graph, "world_size", lambda: change.get("processes", 1))
    options = SOUND | {key: value for key, value in change.items() if key != "processes"}
    with pytest.raises(ConfigError, match=r"^graphs=true needs .*: try graphs=auto$"):
        choose_graphs(True, **options)
    for setting in ("auto", False):
        assert not choose_graphs(setting, **options)
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
