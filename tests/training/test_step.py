"""A training step: chunked, compiled, with frozen statistics, it is the same step; the layout of its maps."""

import copy
import functools
import shutil
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from contrastive.distributed import batch_norm
from contrastive.distributed.batch_norm import convert_batch_norm, views_apart
from contrastive.encoder.resnet import ResNet
from contrastive.encoder.simple_convnet import SimpleConvNet
from contrastive.experiment.build import build
from contrastive.seeding import generator
from contrastive.training.precision import bears_channels_last
from contrastive.training.step import TrainStep
from tests.helpers import BARE, TINY, TWO_STREAMS, further

QUICK = [*TINY, "epochs=1", "precision=fp32", "batch_size=64"]
CONVNET = [*QUICK, "encoder=simple_convnet", "encoder.width=2", "optimizer=sgd", "optimizer.lr=0.01"]
TAUGHT = [*CONVNET, "teacher=ema", "teacher.momentum=0.5"]


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
    [[*QUICK, "views_forward=fused"], *further([*QUICK, "views_forward=per_view"]), TWO_STREAMS],
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


def test_a_loss_scaler_changes_neither_the_gradient_norm_nor_the_step(composed):
    """That of fp16, which needs a GPU, around a step in float32: powers of two round nothing."""
    plain, scaled = (build(composed(*QUICK)) for _ in range(2))
    scaled.step.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    norms = [built.step(next(built.loader.epoch(0)), generator("cpu", 0)).grad_norm.item() for built in (plain, scaled)]
    assert norms[0] == norms[1] > 0
    assert all(map(torch.equal, plain.step.parameters(), scaled.step.parameters()))


def each_view_by_itself(self: TrainStep, views: torch.Tensor, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """A forward pass of its own for each view of each chunk."""
    chunks = views.tensor_split(3 if self.chunk else 1, dim=1)
    outputs = [[self.encode(view[None], names) for view in chunk] for chunk in chunks]
    return {name: torch.cat([torch.cat([out[name] for out in chunk], 1) for chunk in outputs]) for name in names}


@pytest.mark.parametrize("chunk", [24, *further(0)])
@pytest.mark.parametrize("words", [[], *further(CONVNET[len(QUICK) :])], ids=["resnet", "convnet"])
def test_batch_norm_sees_each_view_apart(composed, words, chunk):
    cfg = composed(*QUICK, *words, "views_forward=per_view", "n_views=3", f"grad_cache_chunk={chunk}")
    buffers, gradients = one_step(cfg, norm=True)
    expected_buffers, expected = one_step(cfg, norm=True, forward=each_view_by_itself)
    torch.testing.assert_close(buffers, expected_buffers, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradients, expected, rtol=1e-9, atol=1e-11)
    counts = {value.item() for name, value in buffers.items() if name.endswith("num_batches_tracked")}
    assert counts == {9 if chunk else 3}


def test_views_apart_share_every_convolution(composed):
    step, calls = build(composed(*QUICK, "views_forward=per_view", "n_views=3")).step, []
    step.encoder.conv1.register_forward_hook(lambda *_: calls.append("conv"))
    step.encoder.bn1.register_forward_hook(lambda *_: calls.append("norm"))
    step.forward(torch.rand(3, 8, 3, 8, 8), ("features",))
    assert calls == ["conv", "norm"]


class NormAndActivation(nn.BatchNorm2d):
    """As timm's BatchNormAct2d."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(super().forward(x))


@pytest.mark.parametrize("layer", [nn.BatchNorm2d(4, momentum=None), nn.SyncBatchNorm(4), NormAndActivation(4)])
def test_any_batch_norm_takes_views_apart(layer):
    x, expected = torch.randn(6, 4, 5, 5), copy.deepcopy(layer)
    (norm,) = convert_batch_norm(layer)
    assert norm is layer
    assert isinstance(norm, type(expected))
    with views_apart([norm], 3):
        assert torch.equal(norm(x), torch.cat([expected(view) for view in x.chunk(3)]))
    assert torch.equal(norm(x), expected(x))  # and afterwards it is what it was
    torch.testing.assert_close(norm.state_dict(), expected.state_dict(), rtol=0, atol=0)
    assert torch.equal(copy.deepcopy(norm).eval()(x), expected.eval()(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_statistics_of_several_processes_are_float32(monkeypatch, dtype):
    """Two processes that hold the same samples, under autocast."""
    monkeypatch.setattr(batch_norm, "world_size", lambda: 2)
    monkeypatch.setattr(batch_norm, "gather", lambda x: torch.cat([x, x]))
    x, norm = torch.randn(8, 4, 5, 5).to(dtype) * 3 + 10, NormAndActivation(4)
    convert_batch_norm(norm)
    with torch.autocast("cpu", torch.bfloat16):
        out = norm(x)
    wide = x.double().transpose(0, 1).flatten(1)
    assert out.dtype == dtype
    assert out.min() == 0  # the activation
    torch.testing.assert_close(out, NormAndActivation(4)(x))
    torch.testing.assert_close(norm.running_mean, (0.1 * wide.mean(1)).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(norm.running_var, (0.9 + 0.1 * wide.repeat(1, 2).var(1)).float(), rtol=1e-6, atol=0)


def test_fewer_activations_are_held(composed):
    def held(*words: str) -> int:
        step, kept = build(composed(*QUICK, *words)).step, []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
            step.forward(torch.rand(2, 64, 3, 8, 8))
        return sum(kept)

    assert held("grad_cache_chunk=8") < 0.05 * held()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler on a CPU")
@pytest.mark.parametrize(
    ("words", "backend"),
    [
        ([*CONVNET, "loss=debiased_pos"], "inductor"),
        ([*CONVNET, "loss=eps_supinfonce"], "aot_eager"),
        ([*CONVNET, "loss=debiased_pos", "views_forward=per_view"], "aot_eager"),
        ([*TWO_STREAMS, "optimizer=sgd", "optimizer.lr=0.01"], "aot_eager"),
        ([*TAUGHT, "loss=debiased_pos"], "aot_eager"),
        ([*TAUGHT, "teacher.queue=50", "views_forward=per_view"], "aot_eager"),
        ([*TAUGHT, "loss=byol", "head=predictor"], "aot_eager"),
    ],
    ids=["convolutions", "eps", "per view", "two streams", "teacher", "queue", "byol"],
)
def test_compiled_pieces_take_the_same_steps(composed, words, backend, monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))

    def steps(*more):
        # the jitter is traced in tests/augmentation/test_augmentation.py, as every operation is
        built = build(composed(*words, "augmentation.ops.jitter=null", *more))
        step, rng, losses, gradients, teacher = built.step, generator("cpu", 0), [], [], {}
        for k, batch in zip(range(1, 5), built.loader.epoch(0), strict=False):
            output = step(batch, rng)
            losses.append(output.loss)
            gradients = gradients or [p.grad.clone() for p in step.encoder.parameters()]
            if step.teacher is not None:
                step.teacher.on_step(SimpleNamespace(step=step, steps_done=k), output)
                teacher = step.teacher.network.state_dict()
        return gradients, torch.stack(losses), teacher

    (gradients, losses, teacher), compiled = steps(), steps("compile=true")
    assert losses.std() > 0
    torch.testing.assert_close(compiled[0], gradients, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(compiled[1], losses, rtol=1e-4, atol=0)  # after four steps of rounding
    torch.testing.assert_close(compiled[2], teacher, rtol=1e-4, atol=1e-6)


CPU, GPU = torch.device("cpu"), torch.device("cuda:0")


def test_narrow_networks_are_contiguous_on_a_cpu(composed) -> None:
    """Those that torch 2.15 has trained beyond their memory where a CPU has no AVX-512."""
    narrow = build(composed(*BARE, "channels_last=true", "evaluator=[]"))
    assert narrow.step.normalize.format == torch.contiguous_format
    assert not any(bears_channels_last(ResNet(width=width), CPU) for width in (1, 7))
    assert bears_channels_last(ResNet(width=8), CPU)
    assert bears_channels_last(ResNet(width=4), GPU)
    assert bears_channels_last(SimpleConvNet(width=4), CPU)  # none of its convolutions is 1 × 1
