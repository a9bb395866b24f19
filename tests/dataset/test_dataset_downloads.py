"""CIFAR-10, CIFAR-100, STL-10, MNIST and Biased-MNIST in their genuine formats, and downloads."""

import lzma
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torchvision.transforms.functional import resize

from contrastive.dataset.biased_mnist import biased_mnist
from contrastive.dataset.cifar import cifar10, cifar100
from contrastive.dataset.download import fetch
from contrastive.dataset.mnist import SHA256, mnist
from contrastive.dataset.stl10 import stl10
from contrastive.errors import ConfigError
from contrastive.types import Split
from tests.helpers import REAL

BATCHES = {"cifar-10-batches-py": [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]}
BATCHES["cifar-100-python"] = ["train", "test"]


def write_genuine(base: Path, *, n: int, n_classes: int, labels: str, names: tuple[str, str]) -> None:
    """Batches of n images, and the file with the names of the classes."""
    rng = np.random.default_rng(0)
    base.mkdir()
    for name in BATCHES[base.name]:
        batch = {"data": rng.integers(0, 256, (n, 3072), dtype=np.uint8), labels: [i % n_classes for i in range(n)]}
        (base / name).write_bytes(pickle.dumps(batch))
    file, key = names
    (base / file).write_bytes(pickle.dumps({key: [f"class{i}" for i in range(n_classes)]}))


def test_cifar_reads_the_genuine_format(tmp_path, monkeypatch):
    base = tmp_path / "cifar-10-batches-py"
    write_genuine(base, n=20, n_classes=10, labels="labels", names=("batches.meta", "label_names"))
    monkeypatch.setattr("torchvision.datasets.cifar.check_integrity", lambda *_: True)
    data = cifar10(root=str(tmp_path))
    assert data.pretrain.image.shape == (100, 3, 32, 32)
    assert data.classes == tuple(f"class{i}" for i in range(10))
    raw = pickle.loads((base / "data_batch_1").read_bytes())["data"][0]
    assert np.array_equal(data.pretrain.image[0].numpy().reshape(-1), raw)
    small = cifar10(root=str(tmp_path), size=16, per_class=3)
    assert small.pretrain.image.shape == (30, 3, 16, 16)
    assert small.test.image.shape == (20, 3, 16, 16)
    resized = resize(data.pretrain.image[:1], [16, 16], antialias=True)
    assert (small.pretrain.image[0].int() - resized[0].int()).abs().max() <= 1
    names = ("meta", "fine_label_names")
    write_genuine(tmp_path / "cifar-100-python", n=200, n_classes=100, labels="fine_labels", names=names)
    hundred = cifar100(root=str(tmp_path))
    assert (len(hundred.pretrain), len(hundred.classes)) == (200, 100)


def test_stl10_reads_the_genuine_format(tmp_path, monkeypatch):
    base = tmp_path / "stl10_binary"
    base.mkdir()
    for name, n in (("train", 30), ("unlabeled", 50), ("test", 20)):
        (base / f"{name}_X.bin").write_bytes(np.random.default_rng(0).bytes(n * 3 * 96 * 96))
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
    whole = stl10(root=str(tmp_path), size=96, stats="cifar10")
    assert whole.pretrain.image.shape == (80, 3, 96, 96)
    assert (whole.mean, whole.std) == ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)) != (data.mean, data.std)


def blocked(*_: object, **__: object) -> None:
    raise URLError("no network")


def test_a_failed_download_says_which_file_goes_where(tmp_path, monkeypatch):
    monkeypatch.setattr("torchvision.datasets.cifar.download_and_extract_archive", blocked)
    with pytest.raises(ConfigError, match=r"cifar-10-python.tar.gz.*python train.py dataset=digits"):
        cifar10(root=str(tmp_path))


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_a_hostile_pickle_is_never_opened(tmp_path, monkeypatch):
    evil, root = tmp_path / "EVIL", tmp_path / "data"
    trap = pickle.dumps(Trap(str(evil)))
    monkeypatch.setattr("torchvision.datasets.utils._urlretrieve", blocked)
    for load, (base, batches), meta in zip((cifar10, cifar100), BATCHES.items(), ("batches.meta", "meta"), strict=True):
        (root / base).mkdir(parents=True)
        for name in (*batches, meta):
            (root / base / name).write_bytes(trap)
        with pytest.raises(ConfigError, match="is missing or damaged"):
            load(root=str(root))
    assert not evil.exists()
    pickle.loads(trap)  # it would have
    assert evil.exists()


def test_one_process_downloads_while_others_wait(tmp_path):
    """torchvision opens the archive for writing without a lock: two jobs of a sweep would damage each other's."""
    at_once: list[int] = []

    class Dataset:
        running, here = 0, False

        def __init__(self, root: str, *, download: bool = False) -> None:
            if Dataset.here:
                return
            if not download:
                raise RuntimeError("Dataset not found or corrupted.")
            Dataset.running += 1
            at_once.append(Dataset.running)
            time.sleep(0.05)
            Dataset.running, Dataset.here = Dataset.running - 1, True

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: fetch(Dataset, "x.tar.gz", str(tmp_path), folder="x"), range(4)))
    assert at_once == [1]


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
