"""What a step launches on a GPU and torch.compile generates for an H100: more kernels, waits or bytes are seen here."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from contrastive.distributed.batch_norm import convert_batch_norm, views_apart
from scripts.launches import RECIPES, compiled_network, count
from tests.gpu import generated_code
from tests.helpers import compose_settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.__version__.startswith(generated_code.TORCH), reason="it goes through private parts of torch 2.15"
    ),
]


def test_elementwise_operations_are_one_kernel_and_a_reduction_reads_once_more():
    n = 4 * 1_024 * 1_024
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(4, 1_024, 1_024, requires_grad=True)
        forward, backward = generated_code.generated(lambda x: 2 * x.sin() + 1, x)
        (centered, _) = generated_code.generated(lambda x: x - x.mean((1, 2), keepdim=True), x)
    assert (forward.kernels, forward.kernel_bytes, forward.calls) == (1, 2 * 4 * n, 0)
    assert (backward.kernels, backward.calls) == (1, 0)
    assert centered.kernel_bytes == pytest.approx(3 * 4 * n, rel=1e-3)


def test_a_step_of_the_default_launches_791_kernels_and_never_waits():
    """Those of docs/scaling.md."""
    launches, waits = count(RECIPES["default"])
    assert launches.total() == 791
    assert not waits


def test_kernels_and_gigabytes_of_the_compiled_default():
    """Those of studies/speed/README.md, by torch 2.15."""
    made = compiled_network(compose_settings(*RECIPES["default"]))
    for found, (kernels, gigabytes) in zip(made, ((99, 4.17), (121, 10.44)), strict=True):
        assert found.kernels == kernels
        assert found.kernel_bytes / 1e9 == pytest.approx(gigabytes, rel=0.01)


@pytest.mark.parametrize("n_views", [1, 2])
def test_views_apart_move_as_many_bytes_as_views_together(n_views):
    """Counted in passes over an activation in bf16, which is read or written."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        layers = [nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
        net = nn.Sequential(*layers, nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        norms = convert_batch_norm(net) if n_views > 1 else []
        x = torch.empty(64, 64, 32, 32).contiguous(memory_format=torch.channels_last)
        with views_apart(norms, n_views), torch.autocast("cpu", torch.bfloat16):
            forward, backward = generated_code.generated(net, x)
    passes = [made.kernel_bytes / (2 * x.numel()) for made in (forward, backward)]
    assert passes == pytest.approx([9.76, 13.18], rel=0.01)
