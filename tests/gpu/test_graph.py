"""Steps as a CUDA graph, without a GPU: a graph could hold them, and on fixed memory they are the steps they were."""

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from contrastive.errors import ConfigError
from contrastive.experiment import build as building
from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.loss.nt_xent import NTXent
from contrastive.seeding import generator
from contrastive.teacher.ema import EMA
from contrastive.training import graph
from contrastive.training.graph import WARM_UP, Captured, GraphedStep, choose_graphs
from contrastive.training.step import StepOutput, TrainStep
from tests.augmentation.test_augmentation import EVERY
from tests.gpu.pretended_gpu import CPU, CUDA, PretendedGPU, pretended_gpu
from tests.gpu.test_pretended_gpu import NOTHING, B, images, make_loader, make_step
from tests.helpers import TERMS, TINY, TWO_STREAMS, check_same, further, logged_lines, run_until_step

SLOW = pytest.mark.slow
BIASED = ["dataset=biased_digits", "dataset.rho=0.9"]
SMALL = {"encoder": "simple_convnet", "augmentation": NOTHING}
CONVNET = ["encoder=simple_convnet", "encoder.kernel_size=3"]


def graphed(step: TrainStep) -> GraphedStep:
    return GraphedStep(**{field.name: getattr(step, field.name) for field in fields(step)})


# A graph could hold them


class CheckedCapture:
    """Stands for `Captured` on a pretended GPU: in all but the first step nothing waits, and nothing is of the host."""

    gpu: PretendedGPU

    def __init__(self, _: torch.Generator) -> None:
        self.n_run = 0

    def __call__(self, step: Callable[[], StepOutput]) -> StepOutput:
        self.n_run += 1
        self.gpu.waits.clear()
        self.gpu.on_host.clear()
        output = step()
        if self.n_run > 1:
            assert not +self.gpu.waits
            assert set(+self.gpu.on_host) <= {*COUNTERS}
        return output


COUNTERS = {"zeros", "add_"}  # of BatchNorms whose statistics are left alone: nobody reads them


@pytest.fixture
def gpu(monkeypatch) -> Iterator[PretendedGPU]:
    """A pretended one, on which a step is no graph."""
    with pretended_gpu() as pretended:
        monkeypatch.setattr(CheckedCapture, "gpu", pretended, raising=False)
        monkeypatch.setattr(graph, "Captured", CheckedCapture)
        yield pretended


def held(step: TrainStep) -> dict[str, Any]:
    """All that modules and optimizer keep from step to step, tensors by where they are."""
    kept: dict[str, Any] = {}
    for name, module in nn.ModuleList([step.encoder, step.head, step.objective]).named_modules():
        own = {key: value for key, value in vars(module).items() if not key.startswith("_")}
        kept[name] = {**own, **module._parameters, **module._buffers}
    for i, state in enumerate(step.optimizer.state.values()):
        kept[f"state {i}"] = dict(state)
    kept["groups"] = [{**group, "params": list(group["params"])} for group in step.optimizer.param_groups]
    return tree_map(lambda x: id(x) if isinstance(x, torch.Tensor | nn.Module) else copy.copy(x), kept)


@pytest.mark.parametrize(
    ("group", "name", "options"),
    [
        *(pytest.param(group, name, SMALL, marks=SLOW) for group, name in TERMS),
        *(pytest.param("loss", "nt_xent", SMALL | {"optimizer": name}, marks=SLOW) for name in ("sgd", "lars")),
        ("loss", "nt_xent", {"forward": "per_view", "augmentation": EVERY}),
    ],
)
def test_a_graph_could_hold_the_step(gpu, group, name, options):
    """Dense and in tiles, with and without noise; the first losses are those of steps on the CPU."""
    for tiled, noise in ((False, {}), (True, {"noise_frac": 0.5, "blur_frac": 0.5})):
        losses = []
        for device in (CUDA, CPU):
            step = make_step(group, name, device=device, tiled=tiled, **options)
            step = graphed(step) if device == CUDA else step
            rng, second = torch.Generator(device), step.objective.second_batch_size(B)
            first, second = islice(
                make_loader(images().to(device), device, **noise, second_batch_size=second).epoch(0), 2
            )
            outputs = [step(first, rng)]
            before = held(step)
            outputs.append(step(second, rng))
            assert device == CPU or held(step) == before
            assert {x.device for x in tree_leaves(outputs) if isinstance(x, torch.Tensor)} == {device}
            losses.append([output.loss.item() for output in outputs])
        if options["augmentation"] == NOTHING:
            assert losses[0][0] == losses[1][0]
            assert losses[0][1] == pytest.approx(losses[1][1], rel=1e-3, abs=1e-6)  # a graph rounds the learning rate


@pytest.mark.slow
@pytest.mark.parametrize("forward", ["fused", "per_view"])
def test_a_graph_could_hold_a_step_with_a_teacher(gpu, forward):
    """The teacher's own update, whose momentum changes, is a hook's and no part of the graph."""
    step = make_step(forward=forward, augmentation=NOTHING)
    teacher = EMA(step.encoder, step.head, schedule="cosine", queue=3 * B)
    step, loader = graphed(replace(step, teacher=teacher, n_views=2)), make_loader(images().to(CUDA))
    first, second = islice(loader.epoch(0), 2)
    followed, rng = SimpleNamespace(step=step, epochs=1, loader=loader, steps_done=0), torch.Generator("cuda")
    teacher.on_step(followed, step(first, rng))
    memory = [id(x) for x in (*teacher.network.parameters(), *teacher.network.buffers(), teacher.queue.z)]
    output = step(second, rng)
    gpu.waits.clear()
    teacher.on_step(followed, output)
    assert not gpu.waits
    assert memory == [id(x) for x in (*teacher.network.parameters(), *teacher.network.buffers(), teacher.queue.z)]


def test_what_no_graph_could_hold_is_noticed(gpu):
    x, host = torch.zeros(3, device=CUDA), torch.ones(3)
    scalar = host[0]
    gpu.on_host.clear()
    assert (x + x)[0].device == CUDA
    assert not +gpu.on_host
    for touch in (
        lambda: x + scalar, lambda: host + 1, lambda: torch.tensor([1.0]), lambda: x.to("cpu"), host.pin_memory,
    ):  # fmt: skip
        gpu.on_host.clear()
        touch()
        assert +gpu.on_host, touch


# On fixed memory they are the steps they were


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


# The capture itself


@pytest.fixture
def driver(monkeypatch) -> list[str]:
    """What torch.cuda is told to do, which there is no GPU for."""
    told: list[str] = []
    stream = SimpleNamespace(wait_stream=lambda other: told.append("wait"))

    @contextmanager
    def capture(cuda_graph: Any, *, stream: Any, capture_error_mode: str) -> Iterator[None]:
        told.append(f"capture {capture_error_mode}")
        yield
        told.append("end")

    class Graph:
        def register_generator_state(self, rng: torch.Generator) -> None:
            told.append("register")

        def replay(self) -> None:
            told.append("replay")

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: capture(None, stream=stream, capture_error_mode="aside"))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    return told


def test_the_first_steps_run_the_next_is_captured_and_the_rest_replayed(driver):
    captured = Captured(torch.Generator())

    def step() -> str:
        driver.append("step")
        return "output"

    assert [captured(step) for _ in range(WARM_UP)] == ["output"] * WARM_UP
    assert driver == ["wait", "capture aside", "step", "end", "wait"] * WARM_UP
    driver.clear()
    assert [captured(step) for _ in range(2)] == ["output"] * 2
    assert driver == ["register", "capture thread_local", "step", "end", "replay", "replay"]


def test_optimizers_hear_of_a_capture_while_it_lasts(on_cpu, composed, monkeypatch):
    step = build(composed(*QUICK, "graphs=true")).step
    (group,) = step.optimizer.param_groups
    heard = []
    step.optimizer.register_step_pre_hook(lambda optimizer, *_: heard.append(optimizer.param_groups[0]["capturable"]))
    batch = next(build(composed(*QUICK)).loader.epoch(0))
    for capturing in (False, True):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", partial(bool, capturing))
        step(batch, generator("cpu", 0))
        assert group["capturable"] is False
    assert heard == [False, True]


def test_a_step_that_waits_is_one_sentence(driver):
    captured = Captured(torch.Generator())

    def waits() -> None:
        try:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nSearch for it in ...")
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    captured.n_run = WARM_UP
    sentence = (
        "the step cannot be captured as a CUDA graph (CUDA error: operation not permitted when stream is capturing)"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}: try graphs=false$"):
        captured(waits)


def test_too_little_memory_stays_what_it_is(driver):
    captured = Captured(torch.Generator())
    captured.n_run = WARM_UP

    def large() -> None:
        try:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    with pytest.raises(torch.OutOfMemoryError):
        captured(large)


# What cannot be captured says so


def test_a_cpu_is_refused_before_data_is_loaded(composed, monkeypatch):
    monkeypatch.setattr(building, "load_data", lambda *_: pytest.fail("data was loaded"))
    with pytest.raises(ConfigError, match=r"^graphs=true captures steps on a GPU: try graphs=false$"):
        build(composed(*TINY, "graphs=true"))


SOUND = {
    "device": CUDA, "precision": "bf16", "grad_cache_chunk": 0, "made_of": [nn.Linear(1, 1), NTXent()],
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
