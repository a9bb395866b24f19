"""scikit-learn's digits, the digits on colored backgrounds, and the color bias of Biased-MNIST."""

import json

import numpy as np
import pytest
import torch

from contrastive.dataset.biased_digits import biased_digits
from contrastive.dataset.biased_mnist import assign_colors, color_background
from contrastive.dataset.digits import digits
from contrastive.dataset.splits import fingerprint
from tests.helpers import ROOT


def test_digits_have_fixed_stratified_splits():
    data = digits()
    assert len(data.pretrain) + len(data.test) == 1797
    assert data.pretrain.image.shape[1:] == (3, 16, 16)
    counts = torch.bincount(data.test.label, minlength=10)
    assert counts.max() - counts.min() <= 2
    small = digits(size=8)
    assert fingerprint(data) == fingerprint(digits(size=16)) != fingerprint(small)
    test_images = {image.numpy().tobytes() for image in small.test.image}
    leaked = sum(image.numpy().tobytes() in test_images for image in small.pretrain.image)
    assert leaked <= 2  # the dataset itself holds two identical images twice


def test_fraction_of_bias_aligned_images_per_split():
    data = biased_digits(rho=0.95)
    assert 0.94 < (data.pretrain.label == data.pretrain.bias).float().mean() < 0.96
    assert (data.test.label == data.test.bias).float().mean() < 0.13
    assert (data.probe_val.label == data.probe_val.bias).float().mean() < 0.2
    train = biased_digits().pretrain
    assert len(train) == 1438
    assert torch.bincount(train.label[train.label != train.bias]).tolist() == [2] * 10


def test_colors_are_fixed_by_rho_and_data_seed():
    facts = biased_digits().facts
    assert facts == biased_digits(hold_out=True).facts == biased_digits(size=16).facts
    others = [{"data_seed": 1}, {"rho": 0.9}, {"rho": 1.0}]
    digests = {biased_digits(**options).facts["bias_map_sha256"] for options in others}
    assert len(digests | {facts["bias_map_sha256"]}) == 4


@pytest.mark.parametrize("rho", ["0.999", "0.998", "0.997", "0.995", "0.99", "0.95", "0.9"])
def test_color_counts_are_the_published_ones(rho):
    counts = json.loads((ROOT / "tests/data/biased_mnist_counts.json").read_text())
    label = torch.cat([torch.full((n,), c) for c, n in enumerate(counts["train_per_class"])])
    expected = counts["splits"][f"train_{rho}"]
    color = assign_colors(label, float(rho), np.random.RandomState(0))
    for c in range(10):
        n_images = torch.bincount(color[label == c], minlength=10)
        assert n_images[c] == expected["aligned"][c]
        others = torch.cat([n_images[:c], n_images[c + 1 :]])
        assert sorted(others[others > 0].tolist(), reverse=True) == sorted(expected["chunks"][c], reverse=True)


def test_strokes_are_white_on_the_color_of_the_palette():
    stroke = torch.zeros(2, 4, 4, dtype=torch.bool)
    stroke[:, 1, 1] = True
    image = color_background(stroke, torch.tensor([0, 9]), "barbano")
    assert image[0, :, 0, 0].tolist() == [255, 0, 0]
    assert image[1, :, 0, 0].tolist() == [50, 255, 128]
    assert image[1, :, 1, 1].tolist() == [255] * 3
    assert color_background(stroke, torch.tensor([0, 9]), "rebias")[1, :, 0, 0].tolist() == [128] * 3


def test_conflicting_images_that_nine_divides_are_shared_out_evenly():
    color = assign_colors(torch.zeros(18, dtype=torch.int64), 0.0, np.random.RandomState(0))
    assert torch.bincount(color, minlength=10).tolist() == [0] + 9 * [2]
