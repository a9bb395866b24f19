"""STL-10 in its genuine format."""

import numpy as np
import pytest

from contrastive.dataset.stl10 import stl10


@pytest.fixture
def genuine_files(tmp_path, monkeypatch):
    """A folder with small files in STL-10's format."""
    rng = np.random.default_rng(0)
    base = tmp_path / "stl10_binary"
    base.mkdir()
    for name, n in (("train", 30), ("unlabeled", 50), ("test", 20)):
        (base / f"{name}_X.bin").write_bytes(rng.integers(0, 256, (n, 3, 96, 96), dtype=np.uint8).tobytes())
        if name != "unlabeled":
            (base / f"{name}_y.bin").write_bytes(bytes(i % 10 + 1 for i in range(n)))
    (base / "class_names.txt").write_text("\n".join(f"class{i}" for i in range(10)))
    monkeypatch.setattr("torchvision.datasets.stl10.check_integrity", lambda *_: True)
    return str(tmp_path)


def test_stl10_reads_the_genuine_format(genuine_files):
    data = stl10(root=genuine_files, hold_out=True)
    assert data.pretrain.image.shape == (80 - len(data.probe_val), 3, 32, 32)
    assert (data.pretrain.label == -1).sum() == 50
    assert (data.probe_val.label >= 0).all()
    assert (data.pretrain.label[data.probe_train] >= 0).all()
    assert data.test.label.tolist() == [i % 10 for i in range(20)]


def test_stl10_at_96_pixels_with_cifar10_stats(genuine_files):
    data = stl10(root=genuine_files, size=96, stats="cifar10")
    assert data.pretrain.image.shape == (80, 3, 96, 96)
    assert (data.mean, data.std) == ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
    assert stl10(root=genuine_files).mean != data.mean
