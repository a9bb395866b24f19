"""`check_encoder`: the properties that every encoder must have, checked on an encoder you wrote."""

import copy

import torch
from torch import Tensor, nn

N_IMAGES = 4


def check_encoder(encoder: nn.Module, size: int = 32, *, channels: int = 3) -> None:
    """Check that an encoder can be trained and evaluated by the program; the encoder itself is not changed.

    It has an int attribute `dim`; maps float32 images to finite float32 features, one row per image even for a single
    one; can be trained, with a gradient for every parameter that requires one; is deterministic in eval mode and
    does not change its state there; and its state_dict restores its features.

    Args:
        encoder: maps (N, K, H, W) to (N, dim).
        size: H and W of the images that it is checked with.
        channels: K, of these images.

    Raises:
        AssertionError: naming the property that does not hold.
    """
    encoder = copy.deepcopy(encoder)
    dim = getattr(encoder, "dim", None)
    assert isinstance(dim, int) and not isinstance(dim, bool), (
        f"the encoder needs an int attribute dim, the number of its features, and has {dim!r}"
    )
    image = torch.randn(N_IMAGES, channels, size, size, generator=torch.Generator().manual_seed(0))
    _check_training(encoder, image, dim)
    encoder.eval()
    with torch.no_grad():
        _check_evaluation(encoder, image, dim)
        _check_state(encoder, image)


def _check_output(h: Tensor, n: int, dim: int, mode: str) -> None:
    assert isinstance(h, Tensor), f"in {mode} mode the encoder returns a {type(h).__name__} instead of a tensor"
    assert tuple(h.shape) == (n, dim), (
        f"in {mode} mode {n} images give features of shape {tuple(h.shape)} instead of (N, dim) = {(n, dim)}"
    )
    assert h.dtype == torch.float32, f"in {mode} mode the features of float32 images are {h.dtype}"
    assert h.isfinite().all(), f"in {mode} mode the features are not finite"


def _check_training(encoder: nn.Module, image: Tensor, dim: int) -> None:
    h = encoder.train()(image)
    _check_output(h, len(image), dim, "train")
    encoder.zero_grad()
    assert h.requires_grad, "the features have no gradient: no parameter requires one, or the encoder detaches them"
    (h * torch.randn(h.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
    for name, parameter in encoder.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, f"no gradient reaches the parameter {name}"
            assert parameter.grad.isfinite().all(), f"the gradient of the parameter {name} is not finite"


def _check_evaluation(encoder: nn.Module, image: Tensor, dim: int) -> None:
    state = copy.deepcopy(encoder.state_dict())
    h = encoder(image)
    _check_output(h, len(image), dim, "eval")
    _check_output(encoder(image[:1]), 1, dim, "eval")
    assert torch.equal(encoder(image), h), "in eval mode the same images give other features at the second call"
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, state[name]), f"eval mode changes the state {name}"


def _check_state(encoder: nn.Module, image: Tensor) -> None:
    """Load the state into a copy whose parameters and buffers were overwritten."""
    other = copy.deepcopy(encoder)
    for value in [*other.parameters(), *other.buffers()]:
        value.fill_(0)
    try:
        other.load_state_dict(encoder.state_dict())
    except RuntimeError as error:
        raise AssertionError(f"the state_dict does not load back: {error}") from error
    assert torch.equal(other(image), encoder(image)), "the state_dict loads back but the features are others"
