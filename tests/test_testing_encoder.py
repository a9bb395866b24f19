"""check_encoder accepts the encoders that ship and names what is wrong with broken ones."""

import copy

import pytest
import torch
from torch import Tensor, nn

from contrastive.experiment.make import make
from contrastive.testing.encoder import check_encoder


class Pixels(nn.Module):
    """A correct small encoder; each broken one below overrides one method."""

    dim = 6

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 6)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(x.mean((2, 3))))


class WithoutDim(Pixels):
    dim = None


class WrongDim(Pixels):
    dim = 7


class NotFlat(Pixels):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, :, None, None]


class Squeezed(Pixels):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).squeeze()


class Halved(Pixels):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).half()


class Tuple(Pixels):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(x), x


class Infinite(Pixels):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / 0


class Detached(Pixels):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class Unused(Pixels):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(2, 2)


class Random(Pixels):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.rand(6)


class Counting(Pixels):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


class NoState(Pixels):
    def load_state_dict(self, *_: object, **__: object) -> None:
        pass


class OtherState(Pixels):
    def state_dict(self, *args: object, **kwargs: object) -> dict[str, Tensor]:
        return {f"old.{key}": value for key, value in super().state_dict(*args, **kwargs).items()}


@pytest.mark.parametrize("name", ["resnet18_narrow", "simple_convnet"])
def test_the_encoders_that_ship_are_accepted(name):
    check_encoder(make(f"encoder/{name}"), size=16)


def test_a_frozen_parameter_is_accepted():
    encoder = Pixels()
    encoder.linear.weight.requires_grad_(False)
    check_encoder(encoder)


def test_the_encoder_is_not_changed():
    encoder = Pixels().eval()
    state = copy.deepcopy(encoder.state_dict())
    check_encoder(encoder)
    assert not encoder.training
    assert all(torch.equal(value, state[key]) for key, value in encoder.state_dict().items())
    assert all(parameter.grad is None for parameter in encoder.parameters())


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (WithoutDim, "needs an int attribute dim"),
        (WrongDim, r"shape \(4, 6\) instead of \(N, dim\) = \(4, 7\)"),
        (NotFlat, r"shape \(4, 6, 1, 1\) instead of"),
        (Squeezed, r"1 images give features of shape \(6,\)"),
        (Halved, "torch.float16"),
        (Tuple, "returns a tuple"),
        (Infinite, "not finite"),
        (Detached, "have no gradient"),
        (Unused, "no gradient reaches the parameter spare.weight"),
        (Random, "other features at the second call"),
        (Counting, "eval mode changes the state calls"),
        (NoState, "loads back but the features are others"),
        (OtherState, "does not load back"),
    ],
)
def test_a_broken_encoder_is_named(encoder, message):
    with pytest.raises(AssertionError, match=message):
        check_encoder(encoder())
