"""check_dataset accepts every dataset here and names what is wrong with another."""

from dataclasses import replace

import pytest
import torch

from contrastive import check_dataset, make
from contrastive.dataset.splits import channel_stats, name_splits
from contrastive.types import Split


@pytest.mark.parametrize("name", ["digits", "biased_digits"])
def test_the_embedded_datasets_pass(name):
    check_dataset(make(f"dataset/{name}", size=8))


def test_images_without_labels_pass():
    data = make("dataset/digits", size=8)
    train, test = (Split(part.image, torch.full_like(part.label, -1)) for part in (data.pretrain, data.test))
    check_dataset(name_splits(train, test, classes=(), hold_out=False, stats=channel_stats(train.image)))


def wrong_split(change):
    return lambda data: replace(data, test=replace(data.test, **change(data.test)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wrong_split(lambda split: {"image": split.image.float()}), "instead of uint8"),
        (wrong_split(lambda split: {"image": split.image[:, :1]}), r"not \(N, 3, H, W\)"),
        (wrong_split(lambda split: {"label": split.label[:5]}), "not one for each"),
        (wrong_split(lambda split: {"label": split.label.int()}), "instead of int64"),
        (wrong_split(lambda split: {"label": split.label + 5}), "below the 10 names"),
        (wrong_split(lambda split: {"label": torch.full_like(split.label, -1)}), "has images without a label"),
        (wrong_split(lambda split: {"bias": split.label}), "disagree"),
        (lambda data: replace(data, probe_train=data.probe_val_index), "share images"),
        (lambda data: replace(data, probe_train=data.probe_train + 10_000), "must index pretrain"),
        (lambda data: replace(data, mean=(120.0, 120.0, 120.0)), r"scaled to \[0, 1\]"),
        (lambda data: replace(data, std=(0.0, 0.1, 0.1)), "above 0"),
        (lambda data: data.pretrain, "returns a Split"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(AssertionError, match=message):
        check_dataset(change(make("dataset/digits", size=8)))


def test_an_image_without_a_bias_is_named():
    data = make("dataset/biased_digits", size=8)
    bias = data.test.bias.clone()
    bias[0] = -1
    with pytest.raises(AssertionError, match="test has images without a bias"):
        check_dataset(replace(data, test=replace(data.test, bias=bias)))
