"""check_encoder names what is wrong with broken encoders; tests/dataset/test_channels.py has those that ship."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from contrastive.testing.components import check_encoder


class Pixels(nn.Module):
    """A correct small encoder; each broken one below overrides one method."""

    dim = 6

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 6)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x.mean((2, 3))))


class Unused(Pixels):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(2, 2)


class Counting(Pixels):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


def with_output(change: Callable[[Tensor], object]) -> Pixels:
    """An encoder that returns something else than its features h."""
    return type("Changed", (Pixels,), {"forward": lambda self, x: change(Pixels.forward(self, x))})()


def with_attribute(**attributes: object) -> Pixels:
    return type("Changed", (Pixels,), attributes)()


def test_an_encoder_with_a_frozen_parameter_is_accepted_and_not_changed():
    encoder = Pixels().eval()
    encoder.linear.weight.requires_grad_(False)
    state = copy.deepcopy(encoder.state_dict())
    check_encoder(encoder)
    assert not encoder.training
    assert all(torch.equal(value, state[key]) for key, value in encoder.state_dict().items())
    assert all(parameter.grad is None for parameter in encoder.parameters())


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (with_attribute(dim=None), "needs an int attribute dim"),
        (with_attribute(dim=7), r"shape \(4, 6\) instead of \(N, dim\) = \(4, 7\)"),
        (with_attribute(load_state_dict=lambda *_, **__: None), "loads back but the features are others"),
        (with_output(lambda h: h[:, :, None, None]), r"shape \(4, 6, 1, 1\) instead of"),
        (with_output(lambda h: h.squeeze()), r"1 images give features of shape \(6,\)"),
        (with_output(lambda h: h.half()), "torch.float16"),
        (with_output(lambda h: (h, h)), "returns a tuple"),
        (with_output(lambda h: h / 0), "not finite"),
        (with_output(lambda h: h.detach()), "have no gradient"),
        (with_output(lambda h: h + torch.rand(6)), "other features at the second call"),
        (Unused(), "no gradient reaches the parameter spare.weight"),
        (Counting(), "eval mode changes the state calls"),
        (with_attribute(state_dict=lambda self: {"old": self.linear.weight}), "does not load back"),
    ],
)
def test_a_broken_encoder_is_named(encoder, message):
    with pytest.raises(AssertionError, match=message):
        check_encoder(encoder)
