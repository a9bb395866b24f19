"""A GPU without a GPU: tensors on `cuda` that hold no data (torch's FakeTensorMode).

Mixed devices and waits for the host (`item`, `nonzero`, shapes that depend on data) raise here as they would fail or
stall there. The backward pass needs a real device: tests/test_cuda.py runs it where there is one.
"""

import functools
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode

from contrastive.distributed import batch_norm
from contrastive.evaluator.knn import knn_scores
from contrastive.experiment.make import make
from contrastive.testing.loss import in_tiles
from contrastive.training.objective import Embedded, Objective
from contrastive.training.precision import Normalize, autocast
from contrastive.training.step import TrainStep
from contrastive.types import Batch, Split
from tests import batch_norm_kernels
from tests.helpers import TERMS
from tests.test_augmentation import EVERY

CUDA = torch.device("cuda:0")
B, VIEWS, SIDE, CLASSES = 8, 3, 8, 4


@pytest.fixture(autouse=True)
def fake() -> Iterator[None]:
    """Every new tensor is fake; what was built before can be copied to the fake device."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def on_fake_cuda(module: nn.Module) -> nn.Module:
    """The module with parameters and buffers of the same shapes on the fake device (`Module.to` cannot do it)."""
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None:
                part._parameters[name] = nn.Parameter(torch.empty_like(value, device=CUDA))
        for name, value in part._buffers.items():
            if value is not None:
                part._buffers[name] = torch.empty_like(value, device=CUDA)
    return module


class DrawnOnHost:
    """All operations; their parameters are drawn on the CPU: a generator of the fake device cannot be made."""

    def __init__(self) -> None:
        self.apply, self.output_size = EVERY.apply, EVERY.output_size

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> dict[str, dict[str, Tensor]]:
        parameters = EVERY.draw(n, height, width, generator)
        return {name: {key: value.to(CUDA) for key, value in drawn.items()} for name, drawn in parameters.items()}


@functools.cache
def images() -> Split:
    """Real data of the host: terms count its labels and biases before the first step."""
    with unset_fake_temporarily():
        image = torch.zeros(B, 3, SIDE, SIDE, dtype=torch.uint8)
        return Split(image, torch.arange(B) % CLASSES, torch.arange(B) // 2 % 3)


def make_step(group: str = "loss", name: str = "nt_xent", *, forward: str = "fused", tiled: bool = False) -> TrainStep:
    """A step on the fake device with this term, a narrow ResNet and float32: autocast asks for a real device."""
    with unset_fake_temporarily():
        encoder = make("encoder/resnet18", width=2)
        head = make("head/mlp", in_dim=encoder.dim)
        terms = [make(f"{group}/{name}")] if group == "loss" else [make("loss/nt_xent"), make(f"{group}/{name}")]
        objective = Objective(
            *map(in_tiles, terms) if tiled else terms,
            train=images(),
            n_classes=CLASSES,
            feature_dim=encoder.dim,
            projection_dim=head.dim,
            map_dim=encoder.dim,
        )
    return TrainStep(
        encoder=on_fake_cuda(encoder),
        head=on_fake_cuda(head),
        objective=on_fake_cuda(objective),
        optimizer=None,
        augmentation=DrawnOnHost(),
        normalize=Normalize((0.5,) * 3, (0.2,) * 3, device=CUDA, channels_last=True),
        autocast=autocast("fp32", CUDA),
        scaler=None,
        n_views=VIEWS,
        views_forward=forward,
    )


def batch() -> Batch:
    data = images()
    return Batch(
        *(torch.empty_like(value, device=CUDA) for value in (data.image, data.label)),
        bias=torch.empty_like(data.bias, device=CUDA),
    )


def test_fake_device_refuses_mixed_devices_and_syncs():
    x = torch.zeros(3, device=CUDA)
    with pytest.raises(RuntimeError, match="devices"):
        x + torch.ones(3)
    with pytest.raises(DataDependentOutputException):
        x.sum().item()
    with pytest.raises(DynamicOutputShapeException):
        x[x > 0]


@pytest.mark.parametrize("forward", ["fused", "per_view"])
def test_a_step_up_to_the_loss_stays_on_the_device(forward):
    step = make_step(forward=forward)
    views = step.views(batch(), torch.Generator().manual_seed(0))
    h, z = step.forward(views).values()
    assert views.shape == (VIEWS, B, 3, 12, 12)
    assert h.shape == (B, VIEWS, 16)
    assert z.shape == (B, VIEWS, 128)
    assert {views.device, h.device, z.device} == {CUDA}
    data = batch()
    assert step.objective(Embedded(step.forward(views), data.label, data.bias)).device == CUDA


class Launches(TorchDispatchMode):
    """The names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_views_apart_share_every_convolution():
    def launched(forward):
        step, views = make_step(forward=forward), torch.empty(VIEWS, B, 3, SIDE, SIDE, device=CUDA)
        with Launches() as launches:
            step.forward(views)
        return launches.names

    fused, per_view = launched("fused"), launched("per_view")
    for shared in ("convolution", "relu_", "addmm"):
        assert per_view.count(shared) == fused.count(shared) > 0
    assert per_view.count("cudnn_batch_norm") == VIEWS * fused.count("cudnn_batch_norm") > 0


@pytest.mark.parametrize("n_views", [1, VIEWS])
def test_batch_norm_of_several_processes_never_waits(monkeypatch, n_views):
    exchanged = []

    def gather(x):
        exchanged.append(x.shape)
        return torch.cat([x, x])

    batch_norm_kernels.use(monkeypatch)
    monkeypatch.setattr(batch_norm, "world_size", lambda: 2)
    monkeypatch.setattr(batch_norm, "gather", gather)
    monkeypatch.setattr(dist, "all_reduce", lambda x: exchanged.append(x.shape))
    norm = nn.BatchNorm2d(4, device=CUDA)
    norms = batch_norm.convert_batch_norm(norm)
    x = torch.empty(n_views * B, 4, SIDE, SIDE, device=CUDA, dtype=torch.bfloat16)
    with batch_norm.views_apart(norms, n_views):
        out = norm(x)
    assert (out.shape, out.dtype, out.device) == (x.shape, x.dtype, CUDA)
    context = SimpleNamespace()  # stands in for autograd, which needs a real device
    context.save_for_backward = lambda *tensors: setattr(context, "saved_tensors", tensors)
    layer = (norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.momentum, norm.eps)
    with torch.no_grad():
        batch_norm._Normalize.forward(context, x, *layer, n_views)
        dx, of_weight, of_bias, *_ = batch_norm._Normalize.backward(context, out)
    assert (dx.shape, dx.dtype) == (x.shape, x.dtype)
    assert of_weight.shape == of_bias.shape == (4,)
    assert exchanged == [(1, 2 * n_views, 4)] * 2 + [(2 * n_views, 4)]  # two forwards and a backward


@pytest.mark.parametrize("tiled", [False, True], ids=["dense", "tiled"])
@pytest.mark.parametrize(("group", "name"), TERMS)
def test_the_objective_of_every_term(group, name, tiled):
    step = make_step(group, name, tiled=tiled)
    data = batch()
    h, z = (torch.empty(B, VIEWS, dim, device=CUDA, dtype=torch.bfloat16, requires_grad=True) for dim in (16, 128))
    outputs = {"features": h, "projections": z, "map": h[..., None, None]}
    value = step.objective(Embedded(outputs, data.label, data.bias))
    assert (value.shape, value.dtype, value.device) == ((), torch.float32, CUDA)


def test_knn_votes_stay_on_the_device():
    bank, label, query = torch.empty(50, 6, device=CUDA), batch().label.repeat(7)[:50], torch.empty(9, 6, device=CUDA)
    scores = knn_scores(bank, label, query, n_classes=CLASSES, k=5, temperature=0.5)
    assert (scores.shape, scores.device) == ((9, CLASSES), CUDA)
