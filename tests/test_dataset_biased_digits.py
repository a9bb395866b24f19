"""The digits on colored backgrounds."""

import pytest
import torch

from contrastive.dataset.biased_digits import biased_digits
from contrastive.errors import ConfigError


def test_fraction_of_bias_aligned_images_per_split():
    data = biased_digits(rho=0.95)
    assert 0.94 < (data.pretrain.label == data.pretrain.bias).float().mean() < 0.96
    assert (data.test.label == data.test.bias).float().mean() < 0.13
    assert (data.probe_val.label == data.probe_val.bias).float().mean() < 0.2


def test_two_images_of_each_class_conflict_at_the_default_rho():
    data = biased_digits()
    conflicting = data.pretrain.label[data.pretrain.label != data.pretrain.bias]
    assert len(data.pretrain) == 1438
    assert torch.bincount(conflicting).tolist() == [2] * 10


def test_colors_are_fixed_by_rho_and_data_seed():
    facts = biased_digits().facts
    assert facts == biased_digits(hold_out=True).facts == biased_digits(size=16).facts
    others = [{"data_seed": 1}, {"rho": 0.9}, {"rho": 1.0}]
    digests = {biased_digits(**options).facts["bias_map_sha256"] for options in others}
    assert len(digests | {facts["bias_map_sha256"]}) == 4


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"rho": 1.1}, r"dataset\.rho=0\.99"),
        ({"colors": "mine"}, r"dataset\.colors=barbano"),
        ({"data_seed": -1}, r"dataset\.data_seed=0"),
    ],
)
def test_arguments_out_of_range_are_refused(options, remedy):
    with pytest.raises(ConfigError, match=remedy):
        biased_digits(**options)
