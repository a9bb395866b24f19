"""The color bias of Biased-MNIST."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from contrastive.dataset.coloring import assign_colors, color_background


@pytest.mark.parametrize("rho", ["0.999", "0.998", "0.997", "0.995", "0.99", "0.95", "0.9"])
def test_color_counts_are_the_published_ones(rho):
    counts = json.loads((Path(__file__).parent / "data/biased_mnist_counts.json").read_text())
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
