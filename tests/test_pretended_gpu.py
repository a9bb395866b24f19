"""Whole runs on a pretended GPU are those of the CPU, to the last bit; and where they wait for the device is known."""

from collections import Counter
from typing import Any
from unittest import mock

import pytest
import torch

from contrastive.experiment.run import run_experiment
from contrastive.training.step import TrainStep
from tests.fake_cuda import CUDA
from tests.helpers import ROOT, logged_lines, run_until_step, saved_weights, without_time
from tests.pretended_gpu import on_gpu, pretended_gpu

SMALL = ["dataset.size=8", "encoder.width=2", "channels_last=false", "batch_size=256", "precision=fp32"]
SMALL += ["compile=false", "checkpoint_every_minutes=0"]
BIASED = ["dataset=biased_digits", "dataset.rho=0.9"]


def test_the_pretended_gpu_refuses_what_a_gpu_refuses():
    with pretended_gpu():
        x, host = torch.ones(3, device="cuda"), torch.ones(3)
        assert on_gpu(x * torch.tensor(2.0)) and x.device == CUDA == x[None].mT.device
        assert not on_gpu(x.cpu()) and (x.cpu() + host).tolist() == [2, 2, 2]
        for refused in (lambda: x + host, lambda: torch.cat([x, host]), lambda: host[x.long()], x.numpy,
                        lambda: torch.rand(3, generator=torch.Generator(), device=CUDA)):  # fmt: skip
            with pytest.raises((RuntimeError, TypeError)):
                refused()


def test_the_pretended_gpu_names_the_line_that_waits():
    with pretended_gpu() as gpu:
        x, host = torch.ones(3, device="cuda"), torch.ones(3)
        host.pin_memory().to(CUDA, non_blocking=True), x[x.argsort()], torch.where(x > 0, x, 0)
        assert not gpu.waits
        for waits in (
            lambda: x.sum().item(), lambda: x.cpu(), lambda: host.to(CUDA), lambda: bool(x.amax() > 0),
            lambda: x[x > 0], lambda: x[x.argmax()], lambda: x[torch.tensor([0])], lambda: x.unique(),
            lambda: torch.tensor([1.0], device=CUDA), lambda: x.copy_(host), lambda: torch.cuda.synchronize(),
        ):  # fmt: skip
            gpu.waits.clear()
            waits()
            ((place, n),) = gpu.waits.items()
            assert f"test_pretended_gpu.py:{waits.__code__.co_firstlineno} " in place and n == 1


def test_the_pretended_gpu_counts_launches_of_the_backward_pass_too():
    with pretended_gpu() as gpu:
        layer, x = torch.nn.Linear(3, 4).to(CUDA), torch.ones(2, 3, device=CUDA)
        before = gpu.launches.count
        loss = layer(x).sum()
        forward = gpu.launches.count - before
        loss.backward()
        assert gpu.launches.count - before > forward == 2  # the layer and the sum
        assert on_gpu(layer.weight.grad)


# As short as they allow; those that name groups of images come after the ones that they read.
EVALUATORS = [path.stem for path in sorted((ROOT / "configs/evaluator").glob("*.yaml"))]
EVALUATORS.sort(key=lambda name: name.endswith("audit"))
BRIEF = ["evaluator.fine_tune.epochs=1", "evaluator.fine_tune.min_steps=2", "evaluator.fine_tune.lr=[0.1]"]
BRIEF += ["evaluator.adam_probe.epochs=1", "evaluator.sgd_probe.epochs=1", "evaluator.few_label.draws=1"]
BRIEF += ["evaluator.dfr.draws=1", "evaluator.dfr.l2=[0.1]"]
BRIEF += [f"evaluator.{name}.max_iter=4" for name in ("linear", "few_shot", "few_label", "dfr", "transfer")]


@pytest.mark.slow
def test_every_evaluator_gives_the_figures_of_the_cpu(composed, tmp_path):
    words = [*SMALL, *BIASED, *BRIEF, "loss=cross_entropy", "epochs=1", f"evaluator=[{','.join(EVALUATORS)}]"]
    expected = without_time(run_experiment(composed(*words, "device=cpu"), tmp_path / "cpu"))
    with pretended_gpu():
        found = without_time(run_experiment(composed(*words, "device=cuda"), tmp_path / "gpu"))
    for figures in ("test", "val", "untrained"):
        assert found[figures] == pytest.approx(expected[figures], rel=1e-5)
    assert found["audit"] == expected["audit"]
    assert all(any(key.startswith(name) for key in found["test"]) for name in EVALUATORS if "audit" not in name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["evaluator=[knn,few_shot,online_probe]", "evaluator.knn.every=1"], marks=pytest.mark.smoke),
        ["resident=false", "loss=sogclr", "optimizer=lars", "views_forward=per_view", "noise_frac=0.3", "average=ema"],
        ["teacher=ema", "head=predictor", "teacher.queue=300", "teacher.schedule=cosine"],
        [*BIASED, "regularizer=fairkl", "loss=supcon", "sampler=bias_balanced"],
    ],
)
def test_a_run_and_its_continuation_are_those_of_the_cpu(composed, tmp_path, words):
    words = [*SMALL, "epochs=2", "log_every=3", "evaluator=[knn]", *words]
    run_experiment(composed(*words, "device=cpu"), tmp_path / "cpu")
    settings, step, in_steps = composed(*words, "device=cuda"), TrainStep.__call__, Counter[str]()
    with pretended_gpu() as gpu:

        def counted(*arguments: Any) -> Any:
            before = gpu.waits.copy()
            output = step(*arguments)
            in_steps.update(gpu.waits - before)
            return output

        with mock.patch.object(TrainStep, "__call__", counted):
            run_until_step(8, settings, tmp_path / "gpu")
            run_experiment(settings, tmp_path / "gpu")
    assert not in_steps
    assert logged_lines(tmp_path / "gpu") == logged_lines(tmp_path / "cpu")
    found, expected = (saved_weights(tmp_path / name) for name in ("gpu", "cpu"))
    assert all(torch.equal(found[key], value) for key, value in expected.items())
