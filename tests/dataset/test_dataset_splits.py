"""What holds for the named splits of any data, whatever their labels; channel statistics and the fingerprint."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.dataset.splits import (
    channel_stats,
    fingerprint,
    first_per_class,
    judged_on_training,
    long_tail,
    name_splits,
)
from contrastive.errors import ConfigError
from contrastive.types import LEVELS, Data, Split

LABELS = st.lists(st.integers(-1, 2), min_size=12, max_size=60).filter(lambda x: all(x.count(c) > 3 for c in range(3)))


def of(label: list[int]) -> Split:
    """Images of one pixel, each of the value of three times its place."""
    return Split(torch.arange(len(label) * 3).view(-1, 3, 1, 1).to(torch.uint8), torch.tensor(label).long())


def named(label: list[int], test: tuple[int, ...] = (0, 1, 2), *, hold_out: bool = False) -> Data:
    stats = ((0.5,) * 3, (0.5,) * 3)
    return name_splits(of(label), of([*test]), classes=("ant", "bee", "cat"), hold_out=hold_out, stats=stats)


def places(split: Split) -> list[int]:
    return [value // 3 for value in split.image[:, 0, 0, 0].tolist()]


@settings(max_examples=40, deadline=None)
@given(LABELS, st.booleans(), st.integers(0, 2))
def test_validation_and_held_out_images_are_a_tenth_of_each_class_of_the_training_images(label, hold_out, draw):
    tenth, data = [max(1, round(label.count(c) / 10)) for c in range(3)], named(label, hold_out=hold_out)
    probe, val = data.pretrain.select(data.probe_train), data.probe_val
    assert sorted(places(probe) + places(val)) == [i for i, c in enumerate(label) if c >= 0]
    assert [int((val.label == c).sum()) for c in range(3)] == tenth
    assert (set(places(val)) <= set(places(data.pretrain))) != hold_out
    assert data.nbytes == 3 * len(label) + 9  # every image once
    judged = judged_on_training(named(label), draw)
    assert sorted(places(judged.test) + places(judged.pretrain)) == list(range(len(label)))
    assert [int((judged.test.label == c).sum()) for c in range(3)] == tenth


@pytest.mark.parametrize("dtype", LEVELS, ids=str)
def test_channel_stats_equal_mean_and_standard_deviation(dtype):
    image = torch.randint(0, LEVELS[dtype], (50, 5, 4, 4)).to(dtype)
    scaled = image.double() / (LEVELS[dtype] - 1)
    expected = scaled.mean((0, 2, 3)), scaled.std((0, 2, 3), correction=0)
    assert [list(x) for x in channel_stats(image)] == [pytest.approx(x.tolist()) for x in expected]


def test_fingerprint_depends_on_images_labels_biases_and_the_draw_of_held_out_images():
    data = named([0, 1, 2] * 8)
    assert fingerprint(data) == fingerprint(named([0, 1, 2] * 8))
    image, label = data.test.image.clone(), data.test.label.clone()
    image[0, 0] += 1
    label[0] = 1
    changed = [Split(image, data.test.label), Split(data.test.image, label), replace(data.test, bias=label)]
    others = [*(replace(data, test=test) for test in changed), *(judged_on_training(data, draw) for draw in (0, 1))]
    assert len({fingerprint(data), *map(fingerprint, others)}) == 6
    assert len({tuple(places(judged_on_training(data, draw).test)) for draw in range(5)}) > 1
    assert fingerprint(replace(data, digest="known")) == "known"  # which the dataset supplies


def test_the_first_images_of_each_class_are_taken_and_a_long_tail_falls_in_equal_ratios():
    some = of([1, 0, 1, 1, -1, 0, 0])
    assert places(first_per_class(some, 2)) == [0, 1, 2, 4, 5]
    assert len(first_per_class(some, None)) == len(long_tail(some, None)) == 7
    many = of([0] * 120 + [1] * 100 + [2] * 130 + [-1] * 7)
    for imbalance, counts in ((25, [100, 20, 4, 7]), (1, [100, 100, 100, 7])):
        tail = long_tail(many, imbalance).label
        assert [int((tail == c).sum()) for c in (0, 1, 2, -1)] == counts


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: named([0, 0, 1, 2, 2]), "class bee has fewer than two labeled training images"),
        (lambda: first_per_class(of([0, 1]), 1), r"per_class=500"),
        (lambda: long_tail(of([0, 1]), 0.5), r"dataset\.imbalance must be at least 1, got 0\.5: try"),
        (lambda: judged_on_training(replace(named([0, 1, 2] * 4), classes=()), 0), "try held_out=null"),
    ],
)
def test_splits_that_cannot_be_are_refused(call, said):
    with pytest.raises(ConfigError, match=said):
        call()
