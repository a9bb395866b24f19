"""`check_dataset`: the properties that every dataset must have, checked on a dataset you wrote."""

import torch
from torch import Tensor

from contrastive.types import LEVELS, Data, Split


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
