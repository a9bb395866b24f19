"""Batches: order, samplers, noise."""

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.training.loader import Loader, bias_balanced_weights
from contrastive.types import Split, tensors
from tests.helpers import TINY, TWO_STREAMS


def split(n: int = 100) -> Split:
    image = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(n, 3, 8, 8).contiguous()
    return Split(image, torch.arange(n) % 4, torch.where(torch.arange(n) < n // 10, 1, 0))


def seen(loader: Loader, epoch: int) -> list[int]:
    return [int(i) for batch in loader.epoch(epoch) for i in batch.image[:, 0, 0, 0]]


def test_every_epoch_is_another_order_and_can_be_drawn_again():
    loader = Loader(split(), batch_size=32, seed=0)
    first = seen(loader, 0)
    assert len(loader) == 3
    assert len(set(first)) == 96
    assert first == seen(loader, 0) != seen(loader, 1)
    assert first == [int(i) for batch in loader.epoch(0) for i in batch.index]
    assert first != seen(Loader(split(), batch_size=32, seed=1), 0)


def test_no_image_is_drawn_more_than_ten_times_as_often():
    data, rare = split(1000), torch.arange(1000) < 8  # two of 250 of each class: 124 times the weight of the others
    weight = bias_balanced_weights(Split(data.image, data.label, rare.long()))
    assert weight[rare].tolist() == pytest.approx([10 * weight.min().item()] * 8)


@pytest.mark.parametrize("sampler", ["class_balanced", "group_balanced", "bias_balanced"])
def test_balanced_samplers_draw_every_kind_as_often(sampler):
    image, kind = split(1000).image, torch.where(torch.arange(1000) < 50, 0, 1 + torch.arange(1000) % 3)
    if sampler == "bias_balanced":  # a tenth of the images of each class, nine times the weight
        kind = torch.arange(1000) % 2 + 2 * (torch.arange(1000) < 100)
    data = Split(image, kind) if sampler == "class_balanced" else Split(image, kind // 2, kind % 2)
    data = Split(image, kind % 2, kind // 2) if sampler == "bias_balanced" else data
    loader = Loader(data, batch_size=100, seed=0, sampler=sampler)
    drawn = kind[torch.cat([batch.index for epoch in range(20) for batch in loader.epoch(epoch)])]
    assert torch.bincount(drawn) / len(drawn) == pytest.approx([0.25] * 4, abs=0.02)
    assert seen(loader, 3) == seen(loader, 3)


def test_noise_shows_another_class_in_view_1():
    data = split()
    loader = Loader(data, batch_size=100, seed=0, noise_frac=0.3)
    hits = 0
    for epoch in range(20):
        for batch in loader.epoch(epoch):
            changed = (batch.view1_source != batch.image).any(3).any(2).any(1)
            other = data.label[batch.view1_source[:, 0, 0, 0].long()]
            assert (other[changed] != batch.label[changed]).all()
            hits += int(changed.sum())
    assert hits / 2000 == pytest.approx(0.3, abs=0.04)
    assert next(Loader(data, batch_size=100, seed=0).epoch(0)).view1_source is None


def test_noise_leaves_an_image_for_which_no_other_class_came_up():
    data = split(250)
    data = Split(data.image, (torch.arange(250) == 249).long())
    (batch,) = Loader(data, batch_size=250, seed=0, noise_frac=1.0).epoch(0)
    source, shown = (x[:, 0, 0, 0].long() for x in (batch.view1_source, batch.image))
    changed = source != shown
    assert (source[changed & (shown != 249)] == 249).all()
    assert 20 < int(changed.sum()) < 100  # 64 draws find the one image of 250 in 23 % of all cases


def test_blur_noise_blurs_the_source_of_view_1():
    noise = torch.randint(0, 256, (50, 3, 32, 32), dtype=torch.uint8)
    batch = next(Loader(Split(noise, torch.zeros(50).long()), batch_size=50, seed=0, blur_frac=1.0).epoch(0))
    assert batch.view1_source.float().std() < 0.6 * batch.image.float().std()
    assert batch.view1_source.float().mean() == pytest.approx(batch.image.float().mean().item(), rel=0.02)


def test_impossible_batches_samplers_and_noise_are_refused():
    unbiased = Split(split().image, split().label)
    unlabeled = Split(split().image, torch.full((100,), -1))
    for data, arguments, said in (
        (unbiased, {"batch_size": 101}, "batch_size=100"),
        (unbiased, {"sampler": "bias_balanced"}, "bias labels"),
        (unbiased, {"sampler": "group_balanced"}, "sampler=group_balanced needs labels and bias labels"),
        (unlabeled, {"sampler": "class_balanced"}, "try sampler=uniform"),
        (unlabeled, {"noise_frac": 0.1}, "noise_frac=0"),
    ):
        with pytest.raises(ConfigError, match=said):
            Loader(data, **{"batch_size": 10, "seed": 0, **arguments})


@pytest.mark.parametrize("words", [[*TINY, "noise_frac=0.3"], TWO_STREAMS], ids=["noise", "two streams"])
def test_streamed_batches_are_the_resident_ones(composed, words):
    resident, streamed = (build(composed(*words, f"resident={word}")).loader for word in ("true", "false"))
    assert streamed.streaming
    assert not resident.streaming
    for mine, theirs in zip(streamed.epoch(1), resident.epoch(1), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(tensors(mine), tensors(theirs), strict=True))
    next(streamed.epoch(2))  # an epoch left early leaves no thread waiting
