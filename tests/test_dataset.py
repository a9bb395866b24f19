"""Datasets: the embedded digits, folders with everything that can be wrong with them, CIFAR-10's genuine format."""

import hashlib
import json
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from contrastive.dataset._coloring import assign, paint
from contrastive.dataset._splits import channel_stats, fingerprint
from contrastive.dataset.biased_digits import biased_digits
from contrastive.dataset.biased_mnist import biased_mnist
from contrastive.dataset.cifar import cifar10, cifar100
from contrastive.dataset.digits import digits
from contrastive.dataset.image_folder import image_folder
from contrastive.dataset.mnist import mnist
from contrastive.dataset.stl10 import stl10
from contrastive.errors import ConfigError

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"


def test_digits_have_fixed_stratified_splits():
    data = digits(size=16, hold_out=False)
    assert len(data.pretrain) + len(data.test) == 1797
    assert data.pretrain.image.shape[1:] == (3, 16, 16)
    assert data.pretrain.image.dtype == torch.uint8
    assert len(data.probe_train) + len(data.probe_val) == len(data.pretrain)
    for split in (data.test.label, data.probe_val.label):
        counts = torch.bincount(split, minlength=10)
        assert counts.max() - counts.min() <= 2
    small = digits(size=8, hold_out=False)
    assert fingerprint(data) == fingerprint(digits(size=16, hold_out=False)) != fingerprint(small)
    images = {row.numpy().tobytes() for row in small.test.image}
    assert sum(row.numpy().tobytes() in images for row in small.pretrain.image) <= 2  # no leak but twins


def test_channel_stats():
    image = torch.randint(0, 256, (50, 3, 4, 4), dtype=torch.uint8)
    mean, std = channel_stats(image)
    scaled = image.double() / 255
    assert mean == pytest.approx(scaled.mean((0, 2, 3)).tolist())
    assert std == pytest.approx(scaled.std((0, 2, 3), correction=0).tolist())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """20 training and 4 test images per class, in every mode and shape."""
    rng = np.random.default_rng(0)
    for part, n in (("train", 20), ("test", 4)):
        for c, name in enumerate(("ant", "bee")):
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(n):
                mode, shape = [("RGB", (12, 12, 3)), ("L", (12, 12)), ("RGBA", (16, 12, 4)), ("RGB", (9, 30, 3))][i % 4]
                pixels = rng.integers(0, 200, shape, dtype=np.uint8) + 50 * c
                Image.fromarray(pixels.astype(np.uint8), mode).save(tmp_path / part / name / f"{i:03}.png")
    return tmp_path


def load(folder: Path, size: int | None = 12, bias: str | None = None):
    return image_folder(root=str(folder), size=size, bias=bias, hold_out=False, cache=str(folder / "cache"))


def test_image_folder_takes_any_mode_and_shape(folder):
    data = load(folder)
    assert data.classes == ("ant", "bee")
    assert data.pretrain.image.shape == (40, 3, 12, 12)
    assert data.test.image.shape == (8, 3, 12, 12)
    exact = np.array(Image.open(folder / "train/ant/000.png"))
    assert np.array_equal(data.pretrain.image[0].permute(1, 2, 0).numpy(), exact)
    gray = data.pretrain.image[1]
    assert torch.equal(gray[0], gray[2])


def test_image_folder_reads_the_bias_from_the_path(folder):
    data = load(folder, bias=r"([0-9])\.png$")
    assert data.biases == tuple("0123456789")
    assert data.pretrain.bias[:20].tolist() == [i % 10 for i in range(20)]
    with pytest.raises(ConfigError, match="finds no group"):
        load(folder, bias="wasp")
    with pytest.raises(ConfigError, match="no regular expression"):
        load(folder, bias="(")


def test_hold_out_leaves_the_validation_images_out():
    whole, held = (digits(size=8, hold_out=h) for h in (False, True))
    assert len(held.pretrain) == len(whole.pretrain) - len(whole.probe_val)
    assert torch.equal(held.probe_val.image, whole.probe_val.image)
    assert torch.equal(held.pretrain.image[held.probe_train], whole.pretrain.image[whole.probe_train])


def test_sixteen_bit_images_keep_their_greys(folder):
    ramp = np.linspace(0, 65535, 144, dtype=np.uint16).reshape(12, 12)
    Image.fromarray(ramp).save(folder / "train/ant/000.png")
    image = load(folder).pretrain.image[0]
    assert np.abs(image[0].numpy().astype(int) - ramp // 257).max() <= 1


def test_image_folder_cache_is_keyed_by_content(folder):
    first = load(folder)
    kept = {p: p.stat().st_mtime_ns for p in (folder / "cache").iterdir()}
    assert len([path for path in kept if path.suffix == ".images"]) == 2
    assert fingerprint(load(folder)) == fingerprint(first)
    assert {p: p.stat().st_mtime_ns for p in (folder / "cache").iterdir()} == kept
    path = folder / "train/ant/000.png"
    before = path.stat()
    pixels = np.array(Image.open(path))
    pixels[0, 0] ^= 1
    Image.fromarray(pixels).save(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert fingerprint(load(folder)) != fingerprint(first)


def test_a_broken_image_is_named_and_nothing_else_is_lost(folder, capsys):
    whole = load(folder)
    (folder / "train/bee/005.png").write_bytes(b"\x89PNG not really")
    data = load(folder)
    assert "train/bee/005.png" in capsys.readouterr().out
    assert len(data.pretrain) == 39
    kept = [i for i in range(40) if i != 25]
    assert torch.equal(data.pretrain.image, whole.pretrain.image[kept])
    assert torch.equal(data.pretrain.label, whole.pretrain.label[kept])
    load(folder)  # from the cache
    assert "train/bee/005.png" in capsys.readouterr().out
    assert torch.equal(data.test.image, whole.test.image)
    truncated = folder / "train/ant/004.png"
    truncated.write_bytes(truncated.read_bytes()[:200])
    assert len(load(folder).pretrain) == 38


def test_image_folder_refusals(folder, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    for arguments, said in (
        ({"root": None}, "dataset.root=PATH"),
        ({"size": None}, "dataset.size=32"),
        ({"root": str(empty)}, "train"),
        ({"root": str(folder / "no")}, "is not a folder"),
    ):
        with pytest.raises(ConfigError, match=said):
            image_folder(
                **{"root": str(folder), "size": 12, "bias": None, "hold_out": False, "cache": str(empty), **arguments}
            )
    (empty / "train").mkdir()
    (empty / "test").mkdir()
    with pytest.raises(ConfigError, match="class folders"):
        load(empty)
    for name in ("ant", "bee"):
        (empty / "train" / name).mkdir()
    with pytest.raises(ConfigError, match="no images"):
        load(empty)
    (folder / "test/wasp").mkdir()
    with pytest.raises(ConfigError, match="wasp"):
        load(folder)


def test_cifar10_reads_the_genuine_format(tmp_path, monkeypatch):
    base = tmp_path / "cifar-10-batches-py"
    base.mkdir()
    rng = np.random.default_rng(0)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        batch = {"data": rng.integers(0, 256, (20, 3072), dtype=np.uint8), "labels": [i % 10 for i in range(20)]}
        (base / name).write_bytes(pickle.dumps(batch))
    names = [f"class{i}" for i in range(10)]
    (base / "batches.meta").write_bytes(pickle.dumps({"label_names": names}))
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    data = cifar10(root=str(tmp_path), hold_out=False)
    assert data.pretrain.image.shape == (100, 3, 32, 32)
    assert data.classes == tuple(names)
    raw = pickle.loads((base / "data_batch_1").read_bytes())["data"][0]
    assert np.array_equal(data.pretrain.image[0].numpy().reshape(-1), raw)


def test_cifar10_offline_says_which_file_goes_where(tmp_path, monkeypatch):
    from urllib.error import URLError

    def blocked(*_: object, **__: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr("torchvision.datasets.cifar.download_and_extract_archive", blocked)
    with pytest.raises(ConfigError, match=r"cifar-10-python.tar.gz.*python train.py dataset=digits"):
        cifar10(root=str(tmp_path), hold_out=False)


def test_cifar100_and_stl10_read_their_genuine_formats(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    base = tmp_path / "cifar-100-python"
    base.mkdir()
    for name, n in (("train", 200), ("test", 100)):
        batch = {"data": rng.integers(0, 256, (n, 3072), dtype=np.uint8), "fine_labels": [i % 100 for i in range(n)]}
        (base / name).write_bytes(pickle.dumps(batch))
    (base / "meta").write_bytes(pickle.dumps({"fine_label_names": [f"class{i}" for i in range(100)]}))
    data = cifar100(root=str(tmp_path), hold_out=False)
    assert len(data.pretrain) == 200
    assert len(data.classes) == 100

    monkeypatch.setattr("torchvision.datasets.stl10.check_integrity", lambda *_: True)
    base = tmp_path / "stl10_binary"
    base.mkdir()
    for name, n in (("train", 30), ("unlabeled", 50), ("test", 20)):
        (base / f"{name}_X.bin").write_bytes(rng.integers(0, 256, (n, 3, 96, 96), dtype=np.uint8).tobytes())
        if name != "unlabeled":
            (base / f"{name}_y.bin").write_bytes(bytes(i % 10 + 1 for i in range(n)))
    (base / "class_names.txt").write_text("\n".join(f"class{i}" for i in range(10)))
    data = stl10(root=str(tmp_path), size=32, hold_out=True)
    assert data.pretrain.image.shape == (80 - len(data.probe_val), 3, 32, 32)
    assert (data.pretrain.label == -1).sum() == 50
    assert (data.probe_val.label >= 0).all()
    assert (data.pretrain.label[data.probe_train] >= 0).all()
    assert data.test.label.tolist() == [i % 10 for i in range(20)]


@pytest.mark.parametrize("rho", ["0.999", "0.998", "0.997", "0.995", "0.99", "0.95", "0.9"])
def test_biased_mnist_counts_are_the_published_ones(rho):
    counts = json.loads((Path(__file__).parent / "data/biased_mnist_counts.json").read_text())
    label = torch.cat([torch.full((n,), c) for c, n in enumerate(counts["train_per_class"])])
    expected = counts["splits"][f"train_{rho}"]
    color = assign(label, float(rho), np.random.RandomState(0))
    for c in range(10):
        found = torch.bincount(color[label == c], minlength=10)
        assert found[c] == expected["aligned"][c]
        others = torch.cat([found[:c], found[c + 1 :]])
        assert sorted(others[others > 0].tolist(), reverse=True) == sorted(expected["chunks"][c], reverse=True)


def test_painted_digits():
    digit = torch.zeros(2, 4, 4, dtype=torch.bool)
    digit[:, 1, 1] = True
    image = paint(digit, torch.tensor([0, 9]), "authors")
    assert image[0, :, 0, 0].tolist() == [255, 0, 0]
    assert image[1, :, 0, 0].tolist() == [50, 255, 128]
    assert image[1, :, 1, 1].tolist() == [255] * 3
    assert paint(digit, torch.tensor([0, 9]), "rebias")[1, :, 0, 0].tolist() == [128] * 3


def test_biased_digits_are_fixed_by_rho_and_data_seed():
    def make(**changed):
        return biased_digits(
            **{"size": 16, "rho": 0.95, "colors": "authors", "data_seed": 0, "hold_out": False, **changed}
        )

    data = make()
    aligned = (data.pretrain.label == data.pretrain.bias).float().mean()
    assert 0.94 < aligned < 0.96
    assert (data.test.label == data.test.bias).float().mean() < 0.13
    assert (data.probe_val.label == data.probe_val.bias).float().mean() < 0.2
    assert data.facts == make(hold_out=True).facts
    assert (
        len(
            {make(data_seed=s).facts["bias_map_sha256"] for s in (0, 1)}
            | {make(rho=r).facts["bias_map_sha256"] for r in (0.9, 1.0)}
        )
        == 4
    )
    with pytest.raises(ConfigError, match=r"dataset\.rho=0\.99"):
        make(rho=1.1)
    with pytest.raises(ConfigError, match=r"dataset\.colors=authors"):
        make(colors="mine")


@pytest.mark.skipif(not (REAL / "mnist").exists(), reason="the real digits are not beside the checkout")
def test_real_biased_mnist(tmp_path):
    import lzma

    raw = tmp_path / "MNIST/raw"
    raw.mkdir(parents=True)
    for path in (REAL / "mnist").glob("*.xz"):
        (raw / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
    data = biased_mnist(root=str(tmp_path), rho=0.99, colors="authors", data_seed=0, hold_out=False)
    assert data.pretrain.image.shape == (60000, 3, 28, 28)
    assert (data.pretrain.label != data.pretrain.bias).sum() == 606
    assert (data.test.label == data.test.bias).sum() == 996
    assert len(mnist(root=str(tmp_path), hold_out=True).pretrain) == 54001  # a tenth of each class, rounded


@pytest.mark.skipif(not (REAL / "cifar10_jpeg.tar.xz").exists(), reason="the real images are not beside the checkout")
def test_real_images_as_a_folder(tmp_path):
    wanted = {f"{part}/{name}/{i:04}.jpg" for part in ("train", "test") for name in ("cat", "ship") for i in range(30)}
    with tarfile.open(REAL / "cifar10_jpeg.tar.xz") as archive:
        for member in archive:
            if member.name.removeprefix("./") in wanted:
                archive.extract(member, tmp_path, filter="data")
                wanted.discard(member.name.removeprefix("./"))
            if not wanted:
                break
    data = image_folder(root=str(tmp_path), size=32, bias=None, hold_out=False, cache=str(tmp_path / "cache"))
    assert data.classes == ("cat", "ship")
    assert 0.3 < data.mean[0] < 0.7
    assert len({hashlib.sha256(i.numpy().tobytes()).digest() for i in data.pretrain.image}) == len(data.pretrain)
