"""check_dataset accepts every dataset here and names what is wrong with another."""

from dataclasses import replace

import pytest
import torch

from contrastive import check_dataset, make
from contrastive.dataset.arrays import given_data
from contrastive.dataset.splits import channel_stats, check_data, name_splits
from contrastive.errors import ConfigError
from contrastive.experiment.components import build_data
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


unbiased = wrong_split(lambda split: {"bias": split.bias - 1})


def last(split):
    """With channels last."""
    return replace(split, image=split.image.permute(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wrong_split(lambda split: {"image": split.image.float()}), "instead of uint8"),
        (wrong_split(lambda split: {"image": split.image[:, :1]}), r"not \(N, 3, H, W\)"),
        (lambda data: replace(data, pretrain=last(data.pretrain), test=last(data.test)), r"try image\.permute\(0, 3"),
        (wrong_split(lambda split: {"label": split.label[:5]}), "not one for each"),
        (wrong_split(lambda split: {"label": split.label.int()}), "instead of int64"),
        (wrong_split(lambda split: {"label": split.label + 5}), "below the 10 names"),
        (wrong_split(lambda split: {"label": torch.full_like(split.label, -1)}), "has images without a label"),
        (wrong_split(lambda split: {"bias": split.label}), "disagree"),
        (lambda data: replace(data, probe_train=data.probe_val_index), "share images"),
        (lambda data: replace(data, probe_train=data.probe_train + 10_000), "must index pretrain"),
        (lambda data: replace(data, mean=(120.0, 120.0, 120.0)), r"scaled to \[0, 1\]"),
        (lambda data: data.pretrain, "returns a Split"),
        (lambda _: unbiased(make("dataset/biased_digits", size=8)), "test has images without a bias"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(AssertionError, match=message):
        check_dataset(change(make("dataset/digits", size=8)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda split: {"image": split.image.permute(0, 2, 3, 1)}, r"\(359, 8, 8, 3\): try \(N, K, H, W\), as by"),
        (lambda split: {"label": split.label[:5]}, "labels of test that cannot be: try an int64 tensor"),
        (lambda split: {"label": split.label.tolist()}, "labels of test that cannot be"),
        (lambda split: {"label": split.label + 5}, "labels of test .*359 images, -1 to 9, a number for each name"),
        (lambda split: {"bias": split.label}, "biases of test .*, -1 to -1"),
    ],
)
def test_a_run_refuses_data_that_it_could_not_use(change, said, monkeypatch):
    odd = wrong_split(change)(make("dataset/digits", size=8))
    monkeypatch.setattr("contrastive.dataset.digits.name_splits", lambda *_, **__: odd)
    with pytest.raises(ConfigError, match=rf"digits\.digits gives .*{said}"):
        build_data({"_target_": "contrastive.dataset.digits.digits", "size": 8})
    with pytest.raises(ConfigError, match=f"data gives .*{said}"):
        given_data(odd, name="odd")


def test_narrow_images_and_images_without_a_label_are_data():
    image = torch.randint(256, (40, 1, 64, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    label = torch.arange(40) % 2
    check_data(name_splits(Split(image, label), Split(image, label - 1), classes=("a", "b"), hold_out=False,
                           stats=channel_stats(image)), "it")  # fmt: skip


def test_images_of_floats_are_refused_where_they_are_counted():
    with pytest.raises(ConfigError, match=r"images are torch\.float32 and must be uint8 or uint16: try \(x \* 255\)"):
        channel_stats(torch.rand(4, 3, 8, 8))
