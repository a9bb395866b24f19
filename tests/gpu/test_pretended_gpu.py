"""Whole runs on a pretended GPU are those of the CPU, to the last bit; and where they wait for the device is known."""

from collections import Counter
from typing import Any
from unittest import mock

import pytest
import torch

from contrastive.experiment.run import run_experiment
from contrastive.training import loader as loading
from contrastive.training.features import extract
from contrastive.training.graph import copied
from contrastive.training.loader import Loader
from contrastive.training.step import TrainStep
from contrastive.types import Split, tensors
from tests.gpu.fake_cuda import CUDA
from tests.gpu.pretended_gpu import on_gpu, pretended_gpu
from tests.helpers import ROOT, logged_lines, run_until_step, saved_weights, without_time

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


def test_the_pretended_gpu_refuses_what_another_stream_may_not_have_written_yet():
    with pretended_gpu() as gpu:
        side, host = torch.cuda.Stream(), torch.ones(3).pin_memory()
        with torch.cuda.stream(side):
            x = host.to(CUDA, non_blocking=True)
            y = x + 1
        with pytest.raises(RuntimeError, match="waited for"):
            x + 1
        torch.cuda.current_stream().wait_event(side.record_event())
        with pytest.raises(RuntimeError, match="reuse its memory"):
            x + 1
        for value in (x, y):
            value.record_stream(torch.cuda.current_stream())
        assert (x + y).cpu().tolist() == [3, 3, 3] and gpu.waits.total() == 1


def test_streamed_batches_are_copied_on_a_stream_of_their_own():
    rows = torch.arange(100)
    split = Split((rows % 251).to(torch.uint8).view(100, 1, 1, 1).expand(-1, 3, 4, 4).contiguous(), rows % 10, rows % 2)
    options = {"batch_size": 20, "seed": 0, "noise_frac": 0.3, "second_batch_size": 20}
    with pretended_gpu() as gpu:
        loader = Loader(split, device=CUDA, streaming=True, **options)
        found = [[x.clone() for x in tensors(batch)] for epoch in (0, 1) for batch in loader.epoch(epoch)]  # read, too
        taken = next(loader.epoch(2))
        for buffer, value in zip(tensors(copied(taken)), tensors(taken), strict=True):  # as a step in a graph does
            buffer.copy_(value)
        assert {x.made[0] for x in tensors(taken)} == {loading.copy_stream(CUDA)}
        assert loading.copy_stream(CUDA) is not gpu.default and not gpu.waits
    plain = Loader(split, **options)
    expected = [tensors(batch) for epoch in (0, 1) for batch in plain.epoch(epoch)]
    assert all(
        torch.equal(a, b)
        for mine, theirs in zip(found, expected, strict=True)
        for a, b in zip(mine, theirs, strict=True)
    )


def test_extraction_copies_on_a_stream_of_its_own():
    image = torch.randint(0, 256, (1200, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    split, net = Split(image, torch.arange(1200)), torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
    expected = extract(net, split, lambda x: x / 255)
    with pretended_gpu():
        found = extract(net.to(CUDA), split, lambda x: x / 255)
        h, label = found.h.cpu(), found.label.cpu()
    assert torch.equal(h, expected.h) and torch.equal(label, expected.label)


# As short as they allow; those that name groups of images come after the ones that they read.
EVALUATORS = [path.stem for path in sorted((ROOT / "configs/evaluator").glob("*.yaml"))]
EVALUATORS.sort(key=lambda name: name.endswith("audit"))
BRIEF = ["evaluator.fine_tune.epochs=1", "evaluator.fine_tune.min_steps=2", "evaluator.fine_tune.lr=[0.1]"]
BRIEF += ["evaluator.adam_probe.epochs=1", "evaluator.sgd_probe.epochs=1", "evaluator.few_label.draws=1"]
BRIEF += ["evaluator.linear_sgd.epochs=1"]
BRIEF += ["evaluator.dfr.draws=1", "evaluator.dfr.l2=[0.1]"]
BRIEF += [f"evaluator.{name}.max_iter=4" for name in ("linear", "few_shot", "few_label", "dfr", "transfer")]


@pytest.mark.slow
def test_every_evaluator_gives_the_figures_of_the_cpu(composed, tmp_path):
    words = [*SMALL, *BIASED, *BRIEF, "loss=cross_entropy", "epochs=1", f"evaluator=[{','.join(EVALUATORS)}]"]
    expected = without_time(run_experiment(composed(*words, "device=cpu"), tmp_path / "cpu"))
    with pretended_gpu():
        found = without_time(run_experiment(composed(*words, "device=cuda", "graphs=false"), tmp_path / "gpu"))
    for figures in ("test", "val", "untrained"):
        assert found[figures] == pytest.approx(expected[figures], rel=1e-5)
    assert found["audit"] == expected["audit"]
    assert all(any(key.startswith(name) for key in found["test"]) for name in EVALUATORS if "audit" not in name)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["evaluator=[knn,few_shot,online_probe]", "evaluator.knn.every=1"],
        ["resident=false", "loss=sogclr", "optimizer=lars", "views_forward=per_view", "noise_frac=0.3", "average=ema"],
        ["teacher=ema", "head=predictor", "teacher.queue=300", "teacher.schedule=cosine"],
        [*BIASED, "regularizer=fairkl", "loss=supcon", "sampler=bias_balanced"],
    ],
)
def test_a_run_and_its_continuation_are_those_of_the_cpu(composed, tmp_path, words):
    words = [*SMALL, "epochs=2", "log_every=3", "evaluator=[knn]", *words]
    run_experiment(composed(*words, "device=cpu"), tmp_path / "cpu")
    settings, step, in_steps = composed(*words, "device=cuda", "graphs=false"), TrainStep.__call__, Counter[str]()
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
