"""A GPU without a GPU: tensors on `cuda` that hold no data (torch's FakeTensorMode).

Mixed devices and waits for the host (`item`, `nonzero`, shapes that depend on data) raise here as they would fail or
stall there, and copies that block are counted.
"""

import functools
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode

from contrastive.augmentation.base import Augmentation
from contrastive.distributed import batch_norm
from contrastive.experiment.make import make
from contrastive.testing.loss import in_tiles
from contrastive.training.loader import Loader
from contrastive.training.objective import Embedded, Objective
from contrastive.training.precision import Normalize
from contrastive.training.step import TrainStep
from contrastive.types import Batch, Split
from tests import batch_norm_kernels
from tests.augmentation.test_augmentation import EVERY
from tests.gpu.fake_cuda import CUDA, Counter, FakeGenerator, bf16, fake_cuda, on_fake_cuda
from tests.helpers import TERMS, unless_quick

NOTHING = make("augmentation/none")
B, VIEWS, SIDE, CLASSES = 8, 3, 8, 4


@pytest.fixture(autouse=True)
def fake() -> Iterator[None]:
    """Every new tensor is fake; what was built before can be copied to the fake device."""
    with fake_cuda():
        yield


@functools.cache
def images() -> Split:
    """Real data of the host: terms count its labels and biases before the first step."""
    with unset_fake_temporarily():
        image = torch.zeros(2 * B, 3, SIDE, SIDE, dtype=torch.uint8)
        bias = torch.arange(2 * B) // 2 % 3
        return Split(image, torch.arange(2 * B) % CLASSES, bias, torch.eye(3)[bias], mistaken=bias == 0)


def on_device() -> Split:
    """The same on the fake device."""
    data = images()
    return Split(*(torch.empty_like(value, device=CUDA) for value in (data.image, data.label, data.bias)))


def make_step(
    group: str = "loss",
    name: str = "nt_xent",
    *,
    forward: str = "fused",
    tiled: bool = False,
    encoder: str = "resnet18",
    optimizer: str = "adam",
    augmentation: Augmentation = EVERY,
) -> TrainStep:
    """A step on the fake device with this term and a narrow encoder."""
    with unset_fake_temporarily():
        options = {"width": 2} if encoder == "resnet18" else {"kernel_size": 3}
        network = make(f"encoder/{encoder}", **options)
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
    modules = [on_fake_cuda(module) for module in (network, head, objective)]
    return TrainStep(
        encoder=modules[0],
        head=modules[1],
        objective=modules[2],
        optimizer=make(f"optimizer/{optimizer}")([p for module in modules for p in module.parameters()]),
        augmentation=augmentation,
        normalize=Normalize((0.5,) * 3, (0.2,) * 3, device=CUDA, channels_last=True),
        autocast=bf16,
        scaler=torch.amp.GradScaler("cuda", enabled=False),
        n_views=VIEWS,
        views_forward=forward,
    )


def make_loader(split: Split, **options) -> Loader:
    """A loader that has checked the real labels, and then reads those of `split`."""
    with unset_fake_temporarily():
        loader = Loader(images(), batch_size=B, seed=0, device=CUDA, **options)
    loader.split = loader.noise.split = split
    return loader


def batch() -> Batch:
    data = on_device()
    return Batch(data.image[:B], data.label[:B], bias=data.bias[:B])


def test_fake_device_refuses_mixed_devices_and_syncs():
    x = torch.zeros(3, device=CUDA)
    with pytest.raises(RuntimeError, match="devices"):
        x + torch.ones(3)
    with pytest.raises(DataDependentOutputException):
        x.sum().item()
    with pytest.raises(DynamicOutputShapeException):
        x[x > 0]


def test_counter_names_what_blocks():
    x, host = torch.zeros(3, device=CUDA), torch.ones(3)
    with Counter() as counter:
        (x + 1).view(3, 1)
        host.pin_memory().to(CUDA, non_blocking=True)
        x.copy_(host.pin_memory(), non_blocking=True)
    assert (counter.waits, counter.launches["other"]) == ([], 3)
    with Counter() as counter, counter.part("here"):
        host.to(CUDA)
        host.to(CUDA, non_blocking=True)  # CUDA drains the stream before it reads memory that can be paged out
        x.copy_(host)
        torch.tensor([1.0], device=CUDA)
        x.to("cpu", non_blocking=True)
        x[x > 0] = host.to("meta").new_zeros((), device="cpu")
    assert len(counter.waits) == 6
    assert all(wait.startswith("here: ") for wait in counter.waits)


def test_backward_is_that_of_autograd():
    """Node by node, on real numbers: broadcasting, a leaf used twice, several outputs, a function without gradient."""
    with unset_fake_temporarily():
        torch.manual_seed(0)
        x, layer, norm = torch.randn(6, 3), nn.Linear(3, 4), nn.BatchNorm1d(4)
        gradients = []
        for run in (torch.autograd.backward, torch.Tensor.backward):  # the fixture has replaced the second one
            left, right = norm(layer(x)).chunk(2, dim=1)
            loss = (left * right.amax(0)).sum() + (layer.weight.unbind()[0] ** 2).sum() + (left > 0).sum()
            run(loss)
            gradients.append([p.grad for p in (*layer.parameters(), *norm.parameters())])
            layer.zero_grad(), norm.zero_grad()
        torch.testing.assert_close(gradients[1], gradients[0])


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
    assert per_view.count("native_batch_norm") == VIEWS * fused.count("native_batch_norm") > 0


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
        batch_norm._ByKernels.forward(context, x, *layer, n_views)
        dx, of_weight, of_bias, *_ = batch_norm._ByKernels.backward(context, out)
    assert (dx.shape, dx.dtype) == (x.shape, x.dtype)
    assert of_weight.shape == of_bias.shape == (4,)
    assert exchanged == [(1, 2 * n_views, 4)] * 2 + [(2 * n_views, 4)]  # two forwards and a backward


@pytest.mark.parametrize("tiled", [False, True], ids=["dense", "tiled"])
@pytest.mark.parametrize(("group", "name"), [pytest.param(*term, marks=unless_quick(term[1])) for term in TERMS])
def test_the_objective_of_every_term(group, name, tiled):
    step = make_step(group, name, tiled=tiled)
    data = batch()
    h, z = (torch.empty(B, VIEWS, dim, device=CUDA, dtype=torch.bfloat16, requires_grad=True) for dim in (16, 128))
    outputs = {"features": h, "projections": z, "map": h[..., None, None]}
    value = step.objective(Embedded(outputs, data.label, data.bias))
    assert (value.shape, value.dtype, value.device) == ((), torch.float32, CUDA)


@pytest.mark.parametrize(
    ("group", "name", "options"),
    [
        *(
            pytest.param(group, name, {"encoder": "simple_convnet", "augmentation": NOTHING}, marks=pytest.mark.slow)
            for group, name in TERMS
        ),
        ("loss", "nt_xent", {"forward": "per_view", "optimizer": "lars"}),  # and every operation
    ],
)
def test_batches_and_steps_never_wait(group, name, options):
    step = make_step(group, name, **options)
    noise = {"noise_frac": 0.5, "blur_frac": 0.5, "second_batch_size": step.objective.second_batch_size(B)}
    with Counter() as counter:
        for split in (on_device(), images()):  # the second one is streamed from the host
            batches = make_loader(split, **noise).epoch(0)
            step(next(batches).to(CUDA), FakeGenerator())
    assert counter.waits == []
    assert any(p.grad is not None for p in step.encoder.parameters())
