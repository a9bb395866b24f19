"""Steps and whole runs on a pretended GPU are those of the CPU, to the last bit; and where they wait is known."""

from collections import Counter
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import nn

from contrastive.augmentation.base import Augmentation
from contrastive.distributed import batch_norm
from contrastive.experiment.make import make
from contrastive.experiment.run import run_experiment
from contrastive.testing.loss import in_tiles
from contrastive.training import loader as loading
from contrastive.training.checkpointer import on_host
from contrastive.training.features import extract
from contrastive.training.graph import copied
from contrastive.training.loader import Loader
from contrastive.training.objective import Objective
from contrastive.training.precision import Normalize, autocast
from contrastive.training.step import TrainStep
from contrastive.types import Split, tensors
from tests.augmentation.test_augmentation import EVERY
from tests.gpu.pretended_gpu import CUDA, on_gpu, pretended_gpu
from tests.helpers import ROOT, check_same, run_until_step, without_time

NOTHING = make("augmentation/none")
B, VIEWS, SIDE, CLASSES = 8, 3, 8, 4


def images() -> Split:
    """Data of the host: terms count its labels and biases before the first step."""
    rng = torch.Generator().manual_seed(0)
    image = torch.randint(0, 256, (2 * B, 3, SIDE, SIDE), dtype=torch.uint8, generator=rng)
    bias = torch.arange(2 * B) // 2 % 3
    return Split(image, torch.arange(2 * B) % CLASSES, bias, torch.eye(3)[bias], mistaken=bias == 0)


def make_step(
    group: str = "loss",
    name: str = "nt_xent",
    *,
    device: torch.device = CUDA,
    forward: str = "fused",
    tiled: bool = False,
    encoder: str = "resnet18",
    optimizer: str = "adam",
    augmentation: Augmentation = EVERY,
) -> TrainStep:
    """A step with this term and a narrow encoder."""
    torch.manual_seed(0)
    network = make(f"encoder/{encoder}", **({"width": 2} if encoder == "resnet18" else {"kernel_size": 3}))
    head = make("head/mlp", in_dim=network.dim)
    terms = [make(f"{group}/{name}")] if group == "loss" else [make("loss/nt_xent"), make(f"{group}/{name}")]
    objective = Objective(
        *map(in_tiles, terms) if tiled else terms,
        train=images(),
        n_classes=CLASSES,
        feature_dim=network.dim,
        projection_dim=head.dim,
        map_dim=getattr(network, "map_dim", network.dim),
    )
    modules = [module.to(device) for module in (network, head, objective)]
    return TrainStep(
        encoder=network,
        head=head,
        objective=objective,
        optimizer=make(f"optimizer/{optimizer}")([p for module in modules for p in module.parameters()]),
        augmentation=augmentation,
        normalize=Normalize((0.5,) * 3, (0.2,) * 3, device=device, channels_last=True),
        autocast=autocast("bf16", device),
        scaler=torch.amp.GradScaler("cuda", enabled=False),
        n_views=VIEWS,
        views_forward=forward,
    )


def make_loader(split: Split, device: torch.device = CUDA, **options: Any) -> Loader:
    return Loader(split, batch_size=B, seed=0, device=device, **options)


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


def test_extraction_copies_on_a_stream_of_its_own_and_waits_as_often_for_more_images():
    image = torch.randint(0, 256, (2700, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    split, net = Split(image, torch.arange(2700)), nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
    expected = extract(net, split, lambda x: x / 255)
    with pretended_gpu() as gpu:
        net, waits = net.to(CUDA), []
        for source in (split.to(CUDA), split):
            for n in (700, 2700):
                gpu.waits.clear()
                found = extract(net, source, lambda x: x / 255, torch.arange(n))
                waits.append(gpu.waits.copy())
            h, label = found.h.cpu(), found.label.cpu()
            assert torch.equal(h, expected.h) and torch.equal(label, expected.label)
    assert waits[0] == waits[1] and waits[2] == waits[3]


@pytest.mark.parametrize("of", ["resident", "streamed"])
def test_batches_and_steps_with_every_operation_never_wait(of):
    noise = {"noise_frac": 0.5, "blur_frac": 0.5}
    with pretended_gpu() as gpu:
        step, split = make_step(forward="per_view", optimizer="lars"), images()
        batches = make_loader(split.to(CUDA) if of == "resident" else split, **noise).epoch(0)
        rng = torch.Generator("cuda")
        gpu.waits.clear()
        step(next(batches).to(CUDA), rng)
        assert not gpu.waits
        assert all(on_gpu(p.grad) for p in step.encoder.parameters())


@pytest.mark.parametrize("n_views", [1, VIEWS])
def test_batch_norm_of_several_processes_never_waits(monkeypatch, n_views):
    exchanged = []

    def gather(x):
        exchanged.append(x.shape)
        return torch.cat([x, x])

    monkeypatch.setattr(batch_norm, "world_size", lambda: 2)
    monkeypatch.setattr(batch_norm, "gather", gather)
    monkeypatch.setattr(dist, "all_reduce", lambda x: exchanged.append(x.shape))
    with pretended_gpu() as gpu:
        norm = nn.BatchNorm2d(4, device=CUDA)
        x = torch.ones(n_views * B, 4, SIDE, SIDE, device=CUDA, dtype=torch.bfloat16, requires_grad=True)
        gpu.waits.clear()
        with batch_norm.views_apart(batch_norm.convert_batch_norm(norm), n_views):
            out = norm(x)
        assert (out.shape, out.dtype, out.device) == (x.shape, x.dtype, CUDA)
        out.sum().backward()
        assert (x.grad.shape, x.grad.dtype, norm.bias.grad.shape) == (x.shape, x.dtype, (4,))
        assert not gpu.waits
    assert exchanged == [(1, 2 * n_views, 4), (2 * n_views, 4)]  # a forward and a backward


def test_a_checkpoint_waits_once():
    """Its copies go to pinned memory and block nothing; one wait makes them whole."""
    with pretended_gpu() as gpu:
        state = {"weights": [torch.ones(3, device=CUDA) for _ in range(5)], "process": torch.ones(2)}
        copied = on_host(state, CUDA)
        assert gpu.waits.total() == 1
        assert not any(map(on_gpu, (*copied["weights"], copied["process"])))


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
    check_same(tmp_path / "gpu", tmp_path / "cpu")
