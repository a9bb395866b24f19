"""MNIST and Biased-MNIST in the genuine files."""

import lzma

import pytest
import torch

from contrastive.dataset.biased_mnist import biased_mnist
from contrastive.dataset.mnist import SHA256, mnist
from contrastive.errors import ConfigError
from contrastive.types import Split
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
    small = biased_mnist(root=str(tmp_path), size=14, per_class=100, rho=0.9)
    assert small.pretrain.image.shape == (1000, 3, 14, 14)
    assert small.test.image.shape == (10000, 3, 14, 14)
    assert (small.pretrain.label != small.pretrain.bias).sum() == 100
    assert len(mnist(root=str(tmp_path), hold_out=True).pretrain) == 54001  # a tenth of each class, rounded


def test_per_class_and_size_of_biased_mnist(monkeypatch):
    gray = Split(torch.zeros(400, 28, 28, dtype=torch.uint8), torch.arange(400) % 10)
    monkeypatch.setattr("contrastive.dataset.biased_mnist.load_mnist", lambda root: (gray, gray))
    data = biased_mnist(size=14, per_class=20, rho=0.9)
    assert data.pretrain.image.shape == (200, 3, 14, 14)
    assert data.test.image.shape == (400, 3, 14, 14)
    assert torch.bincount(data.pretrain.label).tolist() == [20] * 10
    assert (data.pretrain.label != data.pretrain.bias).sum() == 20
    with pytest.raises(ConfigError, match="per_class=500"):
        biased_mnist(per_class=1)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 1]), "train-images-idx3-ubyte is damaged, its checksum is wrong: remove it"),
        (b"", "MNIST/raw is missing or damaged, and cannot be downloaded"),
        (b"no digits", "MNIST/raw is missing or damaged, and cannot be downloaded"),
    ],
)
def test_damaged_files_are_called_damaged(tmp_path, labels, said):
    raw = tmp_path / "MNIST/raw"
    raw.mkdir(parents=True)
    for name in SHA256:
        images = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(2 * 28 * 28)
        (raw / name).write_bytes(images if "images" in name else labels)
    with pytest.raises(ConfigError, match=said):
        mnist(root=str(tmp_path))


def test_a_tensor_file_in_place_of_mnist_is_not_read(tmp_path):
    for name in ("training.pt", "test.pt"):
        path = tmp_path / "MNIST/processed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"anything")
    with pytest.raises(ConfigError, match=r"training\.pt has no published checksum: remove"):
        mnist(root=str(tmp_path))
