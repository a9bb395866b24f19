"""A training step: chunked, compiled, with frozen statistics, it is the same step."""

import functools
import shutil

import pytest
import torch
from torch import nn

from contrastive.experiment.build import build
from contrastive.seeding import generator
from contrastive.training.step import TrainStep, freeze_running_stats
from tests.helpers import TINY, TWO_STREAMS

QUICK = [*TINY, "epochs=1", "precision=fp32", "batch_size=64"]
CONVNET = [*QUICK, "encoder=simple_convnet", "encoder.width=2", "optimizer=sgd", "optimizer.lr=0.01"]


def without_norm(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            setattr(module, name, nn.Identity())
        without_norm(child)


def one_step(cfg, *, norm: bool, forward=None) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
    """Buffers and gradients after one step in float64."""
    built = build(cfg)
    step, normalize = built.step, built.step.normalize
    for module in (step.encoder, step.head, step.objective):
        if not norm:
            without_norm(module)
        module.double().train()
    step.normalize = lambda x: normalize(x).double()
    if forward is not None:
        step.forward = forward.__get__(step)
    step(next(built.loader.epoch(0)), generator("cpu", 0))
    return dict(step.encoder.named_buffers()), [p.grad for p in step.parameters() if p.grad is not None]


def whole_graph_in_chunks(self: TrainStep, views: torch.Tensor, reads: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """What the chunks compute, with the activations of all of them held."""
    outputs = [self.encode(chunk, reads) for chunk in views.tensor_split(3, dim=1)]
    return {name: torch.cat([output[name] for output in outputs]) for name in reads}


@pytest.mark.parametrize(
    "words",
    [[*QUICK, "views_forward=fused"], [*QUICK, "views_forward=per_view"], TWO_STREAMS],
    ids=["fused", "per view", "two streams"],
)
def test_the_gradient_is_that_of_the_whole_batch(composed, words):
    plain, cached = (one_step(composed(*words, *more), norm=False)[1] for more in ([], ["grad_cache_chunk=24"]))
    torch.testing.assert_close(cached, plain, rtol=1e-7, atol=1e-10)  # 22 + 21 + 21 images


def test_batch_norm_sees_each_chunk_once(composed):
    plain, cached = composed(*QUICK), composed(*QUICK, "grad_cache_chunk=24")
    buffers, gradients = one_step(cached, norm=True)
    expected_buffers, expected = one_step(plain, norm=True, forward=whole_graph_in_chunks)
    assert buffers["bn1.num_batches_tracked"] == 3
    torch.testing.assert_close(buffers, expected_buffers)
    for found, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-7, atol=1e-10)


class Strict(nn.BatchNorm1d):
    """Insists, as SyncBatchNorm does, on a counter."""

    def forward(self, x):
        assert self.num_batches_tracked is not None
        return super().forward(x)


def test_statistics_are_left_alone():
    norm = Strict(3)
    with freeze_running_stats(norm):
        norm(torch.randn(5, 3))
    assert norm.num_batches_tracked == 0
    assert (norm.running_mean == 0).all()
    norm(torch.randn(5, 3))
    assert norm.num_batches_tracked == 1
    assert (norm.running_mean != 0).all()


def test_fewer_activations_are_held(composed):
    def held(*words: str) -> int:
        step = build(composed(*QUICK, *words)).step
        count = 0

        def pack(x: torch.Tensor) -> torch.Tensor:
            nonlocal count
            count += x.numel()
            return x

        views = torch.rand(2, 64, 3, 8, 8)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            step.forward(views)
        return count

    assert held("grad_cache_chunk=8") < 0.05 * held()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.parametrize(
    ("words", "backend"),
    [
        ([*CONVNET, "loss=debiased_pos"], "inductor"),
        ([*CONVNET, "loss=eps_supinfonce"], "aot_eager"),
        ([*TWO_STREAMS, "optimizer=sgd", "optimizer.lr=0.01"], "aot_eager"),
    ],
    ids=["convolutions", "eps", "two streams"],
)
def test_compiled_pieces_take_the_same_steps(composed, words, backend, monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))

    def steps(*more):
        # the jitter is traced in tests/test_augmentation.py, as every operation is
        built = build(composed(*words, "augmentation.ops.jitter=null", *more))
        rng, losses, gradients = generator("cpu", 0), [], []
        for _, batch in zip(range(4), built.loader.epoch(0), strict=False):
            losses.append(built.step(batch, rng)[0])
            gradients = gradients or [p.grad.clone() for p in built.step.encoder.parameters()]
        return gradients, torch.stack(losses)

    (gradients, losses), (compiled_gradients, compiled_losses) = steps(), steps("compile=true")
    assert losses.std() > 0
    torch.testing.assert_close(compiled_gradients, gradients, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(compiled_losses, losses, rtol=1e-4, atol=0)  # after four steps of rounding
