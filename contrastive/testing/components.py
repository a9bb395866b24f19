"""`check_encoder` and `check_dataset`: the properties that every encoder and dataset must have, checked on your own."""

import copy

import torch
from torch import Tensor, nn

from contrastive.types import LEVELS, Data, Split

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


def check_dataset(data: Data) -> None:
    """Check that a dataset can be trained on and evaluated by the program.

    Images are uint8 or uint16 (N, K, H, W) with as many channels K in each split; labels are int64 from 0 to the number
    of classes - 1, of training images also -1 where there is none. Every image has a bias, int64 from 0 to the number
    of biases - 1, or none has. Where there are class names, the validation images are labeled and not among those that
    probes are fitted on, and all test images are labeled. Mean and standard deviation are those of images scaled to
    [0, 1].

    Args:
        data: what your function returns.

    Raises:
        AssertionError: naming the property that does not hold.
    """
    assert isinstance(data, Data), f"the function returns a {type(data).__name__} instead of contrastive.types.Data"
    splits = {"pretrain": data.pretrain, "test": data.test}
    if data.classes:  # without labels no probe is fitted
        splits["probe_val"] = data.probe_val
    for name, split in splits.items():
        _check_split(split, name, data)
    _check_probe(data)
    for name, values in (("mean", data.mean), ("std", data.std)):
        assert len(values) == data.n_channels and all(0 <= value <= 1 for value in values), (
            f"{name} must be that of {data.n_channels} channels, of images scaled to [0, 1], not {values}"
        )


def _check_split(split: Split, name: str, data: Data) -> None:
    image, n = split.image, len(split.image)
    assert n > 0, f"{name} is empty"
    assert image.dtype in LEVELS, f"the images of {name} are {image.dtype} instead of uint8 or uint16"
    assert image.dtype == data.pretrain.image.dtype, f"the images of {name} are {image.dtype}, others not"
    assert len(image.shape) == 4 and image.shape[1] == data.n_channels, (
        f"the images of {name} are {tuple(image.shape)}, not (N, {data.n_channels}, H, W)"
    )
    is_last = image.shape[3] <= 4 < image.shape[1]
    assert not is_last, f"the images of {name} are {tuple(image.shape)}: try image.permute(0, 3, 1, 2)"
    _check_labels(split.label, n, len(data.classes), f"the labels of {name}")
    assert (split.bias is None) == (not data.biases), f"{name} and the names of the biases disagree: both or neither"
    if split.bias is not None:
        _check_labels(split.bias, n, len(data.biases), f"the biases of {name}")
        assert split.bias.min() >= 0, f"{name} has images without a bias: every image needs one"


def _check_labels(label: Tensor, n: int, n_names: int, what: str) -> None:
    assert tuple(label.shape) == (n,), f"{what} are {tuple(label.shape)}, not one for each of {n} images"
    assert label.dtype == torch.int64, f"{what} are {label.dtype} instead of int64"
    assert label.min() >= -1 and label.max() < n_names, f"{what} must be -1 or below the {n_names} names there are"


def _check_probe(data: Data) -> None:
    if not data.classes:  # images without labels: no probe is fitted
        return
    fitted = data.probe_train
    assert len(fitted) and fitted.min() >= 0 and fitted.max() < len(data.pretrain), "probe_train must index pretrain"
    assert (data.pretrain.label[fitted] >= 0).all(), "probe_train holds images without a label"
    assert (data.probe_val.label >= 0).all(), "probe_val holds images without a label"
    if data.probe_val_index is not None:
        assert not torch.isin(data.probe_val_index, fitted).any(), "probe_val and probe_train share images"
    assert (data.test.label >= 0).all(), "the test split has images without a label"
