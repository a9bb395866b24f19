"""Named splits, channel statistics and the fingerprint."""

from dataclasses import replace

import pytest
import torch

from contrastive.dataset.digits import digits
from contrastive.dataset.splits import channel_stats, fingerprint, first_per_class, long_tail, name_splits
from contrastive.errors import ConfigError
from contrastive.types import LEVELS, Data, Split


def split(n: int, *, n_classes: int = 2) -> Split:
    return Split(torch.arange(n * 3, dtype=torch.uint8).view(n, 3, 1, 1), torch.arange(n) % n_classes)


def named(train: Split, test: Split) -> Data:
    return name_splits(train, test, classes=("ant", "bee"), hold_out=False, stats=((0.5,) * 3, (0.5,) * 3))


@pytest.mark.parametrize("dtype", LEVELS, ids=str)
def test_channel_stats_equal_mean_and_standard_deviation(dtype):
    image = torch.randint(0, LEVELS[dtype], (50, 5, 4, 4)).to(dtype)
    mean, std = channel_stats(image)
    scaled = image.double() / (LEVELS[dtype] - 1)
    assert mean == pytest.approx(scaled.mean((0, 2, 3)).tolist())
    assert std == pytest.approx(scaled.std((0, 2, 3), correction=0).tolist())


def test_hold_out_leaves_the_validation_images_out():
    whole, held_out = (digits(size=8, hold_out=hold_out) for hold_out in (False, True))
    assert len(held_out.pretrain) == len(whole.pretrain) - len(whole.probe_val)
    assert whole.nbytes == held_out.nbytes == 1797 * 3 * 8 * 8  # every image once
    assert torch.equal(held_out.probe_val.image, whole.probe_val.image)
    assert torch.equal(held_out.pretrain.image[held_out.probe_train], whole.pretrain.image[whole.probe_train])


def test_fingerprint_depends_on_images_labels_and_biases():
    data = named(split(8), split(4))
    assert fingerprint(data) == fingerprint(named(split(8), split(4)))
    image, label = data.test.image.clone(), data.test.label.clone()
    image[0, 0] += 1
    label[0] = 1
    changed = [Split(image, data.test.label), Split(data.test.image, label), replace(data.test, bias=label)]
    assert len({fingerprint(data), *(fingerprint(replace(data, test=test)) for test in changed)}) == 4
    assert fingerprint(replace(data, digest="known")) == "known"  # which the dataset supplies


def test_splits_too_small_are_refused():
    with pytest.raises(ConfigError, match="class bee has fewer than two labeled training images"):
        named(split(3), split(2))
    with pytest.raises(ConfigError, match="test split is empty"):
        named(split(8), split(0))


def test_the_first_images_of_each_class_are_taken_in_order():
    label = torch.tensor([1, 0, 1, 1, -1, 0, 0])
    image = torch.arange(7, dtype=torch.uint8).view(7, 1, 1, 1).expand(7, 3, 2, 2)
    assert first_per_class(Split(image, label), 2).image[:, 0, 0, 0].tolist() == [0, 1, 2, 4, 5]
    assert len(first_per_class(Split(image, label), None)) == 7
    with pytest.raises(ConfigError, match=r"per_class=500"):
        first_per_class(Split(image, label), 1)


def test_a_long_tail_falls_in_equal_ratios_from_the_smallest_class():
    label = torch.cat([torch.full((n,), c) for c, n in enumerate((120, 100, 130))] + [torch.full((7,), -1)])
    split = Split(torch.zeros(len(label), 3, 1, 1, dtype=torch.uint8), label)
    tail = long_tail(split, 25).label
    assert [int((tail == c).sum()) for c in (0, 1, 2, -1)] == [100, 20, 4, 7]
    assert [int((long_tail(split, 1).label == c).sum()) for c in (0, 1, 2)] == [100, 100, 100]
    assert len(long_tail(split, None)) == len(split)
    with pytest.raises(ConfigError, match=r"dataset\.imbalance must be at least 1, got 0\.5: try"):
        long_tail(split, 0.5)
