"""Images in arrays: .npy files, what Python has, and runs of both."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

import contrastive
from contrastive.dataset.array import rows
from contrastive.dataset.array.given import given_data
from contrastive.dataset.array.rows import MappedRows, as_images
from contrastive.dataset.arrays import arrays
from contrastive.dataset.splits import channel_stats, fingerprint
from contrastive.errors import ConfigError
from contrastive.experiment.build import _load_data
from contrastive.types import Data
from tests.helpers import CONTIGUOUS, program

N, NAMES = 60, np.array(["ant", "bee", "cat"])
SMALL = [
    "augmentation=intensity", "encoder.width=2", "epochs=2", "batch_size=16", "device=cpu", CONTIGUOUS,
    "evaluator=[knn]", "evaluator.knn.k=5", "hydra.run.dir=run",
]  # fmt: skip


def images(shape: tuple[int, ...] = (N, 8, 8, 5), dtype: type = np.uint16) -> np.ndarray:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max, shape, dtype)


LABEL = np.arange(N) % 3


@pytest.fixture
def files(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", images())
    np.save(tmp_path / "y.npy", NAMES[LABEL])
    return tmp_path


def load(folder: Path, **options: str | int) -> Data:
    places = {key: str(folder / value) for key, value in options.items() if isinstance(value, str)}
    return arrays(**{**options, **places}, cache=str(folder / "cache"))


def test_images_labels_and_a_fixed_test_split(files):
    data = load(files, images="x.npy", labels="y.npy")
    contrastive.check_dataset(data)
    assert data.classes == ("ant", "bee", "cat") and (len(data.pretrain), len(data.test)) == (48, 12)
    together = torch.cat([data.pretrain.image, data.test.image]).numpy()
    assert {x.tobytes() for x in together} == {x.tobytes() for x in images().transpose(0, 3, 1, 2)}
    place = {x.tobytes(): i for i, x in enumerate(images().transpose(0, 3, 1, 2))}
    for split in (data.pretrain, data.test):
        assert split.label.tolist() == [LABEL[place[x.numpy().tobytes()]] for x in split.image]
    assert (data.mean, data.std) == channel_stats(data.pretrain.image)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((N, 8, 9), (N, 1, 8, 9)), ((N, 8, 9, 3), (N, 3, 8, 9)), ((N, 3, 8, 9), (N, 3, 8, 9))],
)
def test_layouts(shape, expected):
    assert as_images(images(shape), "x").shape == expected


def test_test_images_of_their_own_stay_on_disk(files):
    np.save(files / "xt.npy", images((9, 8, 8, 5)))
    np.save(files / "yt.npy", NAMES[np.arange(9) % 3])
    data = load(files, images="x.npy", labels="y.npy", test_images="xt.npy", test_labels="yt.npy")
    assert (len(data.pretrain), len(data.test)) == (N, 9)
    assert np.array_equal(data.pretrain.image.numpy(), images().transpose(0, 3, 1, 2))
    assert str(files / "xt.npy") in Path("/proc/self/maps").read_text()


def test_rows_of_a_large_file_stay_on_disk(files, monkeypatch):
    in_memory = load(files, images="x.npy", labels="y.npy")
    monkeypatch.setattr(rows, "IN_MEMORY", 100)
    data = load(files, images="x.npy", labels="y.npy")
    assert isinstance(data.pretrain.image, MappedRows) and isinstance(data.test.image, MappedRows)
    index = torch.tensor([5, 0, 7])
    assert torch.equal(data.pretrain[index].image, in_memory.pretrain.image[index])
    assert torch.equal(data.pretrain.image.select(index)[:], in_memory.pretrain.image[index])
    assert data.nbytes == in_memory.nbytes and fingerprint(data) == fingerprint(in_memory)
    (files / "cache").rename(files / "older")
    assert load(files, images="x.npy", labels="y.npy").mean == in_memory.mean  # computed in chunks of the file


def test_a_second_start_reads_no_image(files, monkeypatch):
    first = load(files, images="x.npy", labels="y.npy")
    monkeypatch.setattr("contrastive.dataset.arrays.channel_stats", None)
    assert load(files, images="x.npy", labels="y.npy").mean == first.mean


def test_without_labels_a_tenth_is_tested(files):
    data = load(files, images="x.npy")
    assert (len(data.pretrain), len(data.test), data.classes) == (54, 6, ())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, r"try dataset\.images=x\.npy dataset\.labels=y\.npy"),
        ({"images": "no.npy"}, r"is no array of numpy .*try dataset\.images=FILE\.npy"),
        ({"images": "float.npy"}, r"are float64 and images are uint8 or uint16: try \(x \* 255\)"),
        ({"images": "x.npy", "labels": "short.npy"}, "the labels of 60 training images are int64 .59,.: try"),
        ({"images": "x.npy", "labels": "y.npy", "test_images": "x.npy"}, "belong together"),
    ],
)
def test_refusals(files, options, sentence):
    np.save(files / "float.npy", images() / 2)
    np.save(files / "short.npy", LABEL[:-1])
    with pytest.raises(ConfigError, match=sentence):
        load(files, **options)


def test_what_python_has():
    x, y = images(), LABEL
    pair = given_data((x, y), name="given")
    assert pair.classes == ("0", "1", "2") and pair.facts == {"dataset_name": "given"}
    tensors = given_data((torch.from_numpy(x), torch.from_numpy(y)), name="given")
    dataset = given_data(TensorDataset(torch.from_numpy(x), torch.from_numpy(y)), name="given")
    listed = given_data([(image, int(label)) for image, label in zip(x, y, strict=True)], name="given")
    assert {fingerprint(data) for data in (pair, tensors, dataset, listed)} == {fingerprint(pair)}
    split = given_data({"train": (x, y), "test": (x[:6], y[:6])}, name="given")
    assert (len(split.pretrain), len(split.test)) == (N, 6)
    assert given_data(pair, name="given") is pair
    assert given_data(x, name="given").classes == ()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (3, r"data is a int: try data=\(images, labels\)"),
        ({"val": images()}, "data has the splits val"),
        ([images((8, 8)), images((9, 8))], r"image 1 of data is uint16 \(9, 8\) and the first one is uint16 \(8, 8\)"),
        ([(torch.rand(3, 8, 8), 0)], "are float32: try the Dataset without ToTensor"),
    ],
)
def test_what_python_has_and_a_run_cannot_use(data, sentence):
    with pytest.raises(ConfigError, match=sentence):
        given_data(data, name="given")


@pytest.mark.slow
@pytest.mark.smoke
def test_a_run_of_arrays_is_one_of_given_data(files, monkeypatch):
    """The same images by file and from Python: the same figures; given again, a finished run is shown."""
    monkeypatch.chdir(files)
    done = program("dataset=arrays", "dataset.images=x.npy", "dataset.labels=y.npy", *SMALL, cwd=files)
    assert done.returncode == 0, done.stdout + done.stderr
    given = (images(), NAMES[LABEL])
    words = [word for word in SMALL if word != "hydra.run.dir=run"]
    result = contrastive.pretrain(*words, "threads=1", "hydra.run.dir=given", data=given)
    assert result.test == contrastive.Result(files / "run").test
    encoder, transform = result.encoder()
    assert encoder(transform(torch.from_numpy(images().transpose(0, 3, 1, 2)))).shape == (N, encoder.dim)
    with pytest.raises(ConfigError, match="names other data than those given"):
        contrastive.pretrain("dataset=digits", data=given)
    evaluated = contrastive.pretrain(*words, "threads=1", "hydra.run.dir=given", data=given)
    assert evaluated.test == result.test


@pytest.mark.slow
def test_rows_on_disk_train_as_rows_in_memory(files, monkeypatch):
    monkeypatch.chdir(files)
    found = []
    for limit in (2**30, 100):
        monkeypatch.setattr(rows, "IN_MEMORY", limit)
        words = ["dataset=arrays", "dataset.images=x.npy", "dataset.labels=y.npy", *SMALL[:-1], "threads=1"]
        found.append(contrastive.pretrain(*words, "rerun=true", f"hydra.run.dir={limit}", "resident=false").test)
        _load_data.cache_clear()
    assert found[0] == found[1]
