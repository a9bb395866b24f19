"""The order of stored images: a bijection that may begin anywhere."""

import hashlib

import numpy as np
import pytest
import torch

from contrastive.dataset.shard.order import Order
from contrastive.training.loader import Loader
from contrastive.types import Split


def test_a_permutation_is_a_bijection_of_every_n():
    for n in (*range(1, 1501), 4095, 4096, 4097, 65_537):
        assert np.array_equal(np.sort(Order(n, "key").rows(0, n).numpy()), np.arange(n)), n


def test_neighbors_are_not_neighbors_in_the_order():
    """Of uniform draws, the mean distance of neighbors is n / 3 and the correlation of row and place 0."""
    n = 100_003
    rows = Order(n, 7).rows(0, n).double().numpy()
    assert np.abs(np.diff(rows)).mean() / n == pytest.approx(1 / 3, abs=0.005)
    assert abs(np.corrcoef(np.arange(n), rows)[0, 1]) < 0.02
    assert np.histogram(rows[: n // 10], 10)[0] == pytest.approx([n / 100] * 10, rel=0.15)


def test_the_order_depends_on_every_part_of_its_key_and_is_pinned():
    """A run goes on with the order that it began with: another digest needs another `ORDER`."""
    assert len({tuple(Order(50, *key).rows(0, 50).tolist()) for key in [(0, 1), (1, 1), (0, 2), (0,)]}) == 4
    rows = Order(1000, 0, "order", 1).rows(0, 1000)
    assert hashlib.sha256(rows.numpy().tobytes()).hexdigest()[:16] == "623fd2ec2e3d29f0"


def ordered(keyed: bool) -> Split:
    image = torch.arange(100, dtype=torch.uint8)[:, None, None, None].expand(100, 3, 8, 8).contiguous()
    return Split(image, torch.arange(100) % 4, keyed=keyed)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("sampler", ["uniform", "class_balanced"])
def test_an_epoch_from_its_middle_is_the_rest_of_the_whole(keyed, noise, sampler):
    loader = Loader(
        ordered(keyed), batch_size=20, seed=0, sampler=sampler, noise_frac=noise, blur_frac=noise,
        second_batch_size=8,
    )  # fmt: skip
    whole = list(loader.epoch(1))
    for start in range(len(loader)):
        for one, other in zip(loader.epoch(1, start=start), whole[start:], strict=True):
            assert torch.equal(one.index, other.index) and torch.equal(one.second.index, other.second.index)
            assert (one.view1_source is None) == (noise == 0)
            assert noise == 0 or torch.equal(one.view1_source, other.view1_source)
    assert torch.equal(loader.indices(1, 2), whole[2].index)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_second_pass_within_an_epoch_has_an_order_of_its_own(keyed):
    loader = Loader(ordered(keyed), batch_size=20, seed=0, second_batch_size=10)
    rows = torch.cat([batch.index for batch in loader.epoch(0)])
    first, second = rows[:100], rows[100:]
    assert first.sort().values.tolist() == second.sort().values.tolist() == list(range(100))
    assert not torch.equal(first, second)
