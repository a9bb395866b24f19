"""MNIST and Biased-MNIST in the genuine files."""

import lzma

import pytest

from contrastive.dataset.biased_mnist import biased_mnist
from contrastive.dataset.mnist import mnist
from tests.helpers import REAL


@pytest.mark.slow
@pytest.mark.skipif(not (REAL / "mnist").exists(), reason="the real digits are not beside the checkout")
def test_real_mnist_and_biased_mnist(tmp_path):
    raw = tmp_path / "MNIST/raw"
    raw.mkdir(parents=True)
    for path in (REAL / "mnist").glob("*.xz"):
        (raw / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    data = biased_mnist(root=str(tmp_path))
    assert data.pretrain.image.shape == (60000, 3, 28, 28)
    assert (data.pretrain.label != data.pretrain.bias).sum() == 606
    assert (data.test.label == data.test.bias).sum() == 996
    assert len(mnist(root=str(tmp_path), hold_out=True).pretrain) == 54001  # a tenth of each class, rounded
