"""STL-10 in its genuine format."""

import numpy as np
import pytest

from contrastive.dataset.stl10 import stl10
from contrastive.errors import ConfigError


def test_stl10_reads_the_genuine_format(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    base = tmp_path / "stl10_binary"
    base.mkdir()
    for name, n in (("train", 30), ("unlabeled", 50), ("test", 20)):
        (base / f"{name}_X.bin").write_bytes(rng.integers(0, 256, (n, 3, 96, 96), dtype=np.uint8).tobytes())
        if name != "unlabeled":
            (base / f"{name}_y.bin").write_bytes(bytes(i % 10 + 1 for i in range(n)))
    (base / "class_names.txt").write_text("\n".join(f"class{i}" for i in range(10)))
    monkeypatch.setattr("torchvision.datasets.stl10.check_integrity", lambda *_: True)
    data = stl10(root=str(tmp_path), hold_out=True)
    assert data.pretrain.image.shape == (80 - len(data.probe_val), 3, 32, 32)
    assert (data.pretrain.label == -1).sum() == 50
    assert (data.probe_val.label >= 0).all()
    assert (data.pretrain.label[data.probe_train] >= 0).all()
    assert data.test.label.tolist() == [i % 10 for i in range(20)]


def test_a_size_out_of_range_is_refused():
    with pytest.raises(ConfigError, match=r"dataset\.size=96"):
        stl10(size=97)
