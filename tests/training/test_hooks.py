"""Hooks: when they are called, in which order, exactly once each; hooks of one's own, and what they are to a run."""

import os
import re
import signal

import pytest
import torch

from contrastive import Hook
from contrastive.config.identity import differences, identity
from contrastive.evaluator.knn import KNN
from contrastive.experiment import run as run_module
from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.training.loop import train
from contrastive.training.step import TrainStep
from tests.forked import at_call
from tests.helpers import BARE, ROOT, run_named, run_until_step

WORDS = [*BARE, "epochs=2", "evaluator=[knn]", "evaluator.knn.every=1", "log_every=2", "checkpoint_every=1"]
N = 5  # steps of an epoch


class Diary(Hook):
    """Remembers every event."""

    def __init__(self, *, scale: float = 1.0) -> None:
        self.scale = scale
        self.events: list[tuple[str, float]] = []

    def note(self, name, training) -> None:
        self.events.append((name, training.epochs_done))

    def on_start(self, training):
        self.note("start", training)

    def on_epoch_start(self, training):
        self.note("epoch_start", training)

    def on_step(self, training, output):
        assert output.loss.isfinite()
        assert ("train/loss" in training.metrics) == (training.batch in (2, 4, N))
        self.note("step", training)

    def on_epoch(self, training):
        assert ("test/knn_top1" in training.metrics) == (training.epoch == 0)
        self.note("epoch", training)

    def on_end(self, training):
        assert "test/knn_top1" in training.metrics
        self.note("end", training)

    def close(self):
        self.events.append(("close", 0))

    def state_dict(self):
        return {"events": self.events, "seen": torch.tensor(len(self.events))}

    def load_state_dict(self, state):
        assert len(state["events"]) == state["seen"]
        self.events = [tuple(event) for event in state["events"]]


DIARY = f"+hook.diary={{_target_:{__name__}.Diary}}"


@pytest.fixture
def hooks(monkeypatch):
    """The hooks of each run that is started, by name and in order."""
    runs = []

    def recorded(step, loader, schedule, epochs, hooks, **options):
        runs.append(hooks)
        return train(step, loader, schedule, epochs, hooks, **options)

    monkeypatch.setattr(run_module, "train", recorded)
    return runs


def test_events_come_in_their_order_and_the_log_before_them(composed, tmp_path, hooks):
    run_experiment(composed(*WORDS, DIARY), tmp_path)
    steps = [[("step", epoch + batch / N) for batch in range(1, N + 1)] for epoch in (0, 1)]
    assert hooks[0]["hook.diary"].events == [
        ("start", 0), ("epoch_start", 0), *steps[0], ("epoch", 1), ("epoch_start", 1), *steps[1], ("epoch", 2),
        ("end", 2), ("close", 0),
    ]  # fmt: skip


@pytest.mark.slow
def test_the_order_is_the_documented_one(composed, tmp_path, hooks):
    words = [*WORDS, "evaluator=[knn,online_probe]", "teacher=ema", "average=ema", "profile=true", DIARY]
    run_experiment(composed(*words), tmp_path)
    page = (ROOT / "docs/components.md").read_text()
    (order,) = re.findall(r"^```text\n(log, .*?)```", page, re.DOTALL | re.MULTILINE)
    used = [re.sub(r"^(hook|tracker)\..*", r"\1.NAME", name) for name in hooks[0]]
    assert used == re.split(r",\s+", order.strip())


@pytest.mark.parametrize(
    ("owner", "n", "resumed_at"),
    [
        pytest.param(TrainStep, 1, 0.4, marks=pytest.mark.slow),  # inside an epoch
        (TrainStep, N - 1, 1.0),  # at its end, before the evaluation
        pytest.param(KNN, 1, 1.0, marks=pytest.mark.slow),  # in the evaluation
        pytest.param(KNN, 2, 2.0, marks=pytest.mark.slow),  # in the last evaluation
    ],
)
def test_a_hook_sees_each_step_once_across_a_signal(composed, tmp_path, monkeypatch, hooks, owner, n, resumed_at):
    settings = composed(*WORDS, DIARY)
    with monkeypatch.context() as patch:
        patch.setattr(owner, "__call__", owner.__call__)  # which is what is restored
        at_call(owner, "__call__", n, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(KeyboardInterrupt):
            run_experiment(settings, tmp_path)
    assert hooks[0]["hook.diary"].events[-1] == ("close", 0)
    run_experiment(settings, tmp_path)
    events = hooks[1]["hook.diary"].events
    seen = [event for event in events if event[0] in ("step", "epoch", "end")]
    steps = [[("step", epoch + batch / N) for batch in range(1, N + 1)] for epoch in (0, 1)]
    assert seen == [*steps[0], ("epoch", 1), *steps[1], ("epoch", 2), ("end", 2)]
    assert [place for name, place in events if name == "start"] == [0, resumed_at]


@pytest.mark.slow
def test_a_run_is_resumed_with_other_hooks(composed, tmp_path, hooks):
    run_until_step(8, composed(*WORDS), tmp_path)
    run_until_step(3, composed(*WORDS, DIARY, "checkpoint_every_minutes=0"), tmp_path)
    assert hooks[1]["hook.diary"].events[0] == ("start", 1.0)
    assert run_experiment(composed(*WORDS), tmp_path)["test"]


@pytest.mark.slow
def test_a_hook_that_fails_ends_the_run_and_the_others_are_closed(composed, tmp_path, monkeypatch, hooks):
    def fail(self, training):
        raise OSError("full")

    monkeypatch.setattr(Diary, "on_epoch", fail)
    with pytest.raises(OSError, match="full"):
        run_experiment(composed(*WORDS, f"+hook.other={{_target_:{__name__}.Diary}}", DIARY), tmp_path)
    assert [hooks[0][f"hook.{name}"].events[-1] for name in ("other", "diary")] == [("close", 0)] * 2


def test_a_hook_that_changes_training_is_part_of_it(composed):
    word = f"+hook.diary={{_target_:{__name__}.Diary,scale:2.0,changes_training:true}}"
    settings = composed(*WORDS, word)
    assert differences(composed(*WORDS).to_dict(), composed(*WORDS, DIARY).to_dict()) == []  # one that only watches
    assert {key for key in identity(settings.to_dict()) if key.startswith("hook")} == {
        "hook.diary._target_", "hook.diary.scale", "hook.diary.changes_training",
    }  # fmt: skip
    assert "hook.diary" in run_named(word) != run_named(word.replace("2.0", "3.0"))
    assert build(settings).hooks["diary"].scale == 2.0
