"""Images in arrays: .npy files, what Python has, and runs of both."""

import pickle
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

import contrastive
from contrastive.dataset.arrays import arrays, as_images, given_data
from contrastive.dataset.folder.decode import decode
from contrastive.dataset.splits import channel_stats, fingerprint
from contrastive.errors import ConfigError
from contrastive.types import Data
from tests.dataset.data import contents

N, NAMES = 60, np.array(["ant", "bee", "cat"])


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
    pairs = zip(LABEL, images().transpose(0, 3, 1, 2), strict=True)
    assert sorted(contents(data.pretrain) + contents(data.test)) == sorted((y, -1, x.tobytes()) for y, x in pairs)
    assert (data.mean, data.std) == channel_stats(data.pretrain.image)
    given = given_data((images(), NAMES[LABEL]), name="x")
    assert (contents(data.pretrain), contents(data.test)) == (contents(given.pretrain), contents(given.test))
    data = load(files, images="x.npy")
    assert (len(data.pretrain), len(data.test), data.classes) == (54, 6, ())  # without labels a tenth is tested
    with pytest.raises(ConfigError, match="test images and labels are an array each: try"):
        load(files, images="x.npy", test_labels="y.npy")


def test_test_images_of_their_own_stay_on_disk(files):
    np.save(files / "xt.npy", images((9, 8, 8, 5)))
    np.save(files / "yt.npy", NAMES[np.arange(9) % 3])
    data = load(files, images="x.npy", labels="y.npy", test_images="xt.npy", test_labels="yt.npy")
    assert (len(data.pretrain), len(data.test)) == (N, 9)
    assert np.array_equal(data.pretrain.image.numpy(), images().transpose(0, 3, 1, 2))
    assert str(files / "xt.npy") in Path("/proc/self/maps").read_text()


def test_a_second_start_reads_no_image(files, monkeypatch):
    first = load(files, images="x.npy", labels="y.npy")
    monkeypatch.setattr("contrastive.dataset.arrays.channel_stats", None)
    assert fingerprint(load(files, images="x.npy", labels="y.npy")) == fingerprint(first)


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


@pytest.mark.parametrize("mode", ["P", "CMYK", "HSV", "YCbCr", "RGBA", "PA", "LA", "L", "1", "RGB"])
def test_pil_images_have_the_pixels_of_a_folder(mode, tmp_path):
    picture = Image.fromarray(images((8, 8, 4), np.uint8))
    picture = picture.convert("RGB").convert(mode) if mode in ("HSV", "P") else picture.convert(mode)
    picture.getexif()[0x112] = 6
    file = tmp_path / ("x.jpg" if mode == "CMYK" else "x.tif" if mode == "YCbCr" else "x.png")
    if mode in ("HSV", "PA"):  # which no file has
        picture.convert("RGBA" if mode == "PA" else "RGB").save(file, exif=picture.getexif())
    else:
        picture.save(file, exif=picture.getexif())
        picture = Image.open(file)
    ours = given_data([picture] * 4, name="given").pretrain.image[0].numpy()
    assert ours.shape == (1 if mode in ("1", "L", "LA") else 3, 8, 8)
    assert np.array_equal(np.broadcast_to(ours, (3, 8, 8)), decode(file.read_bytes(), 8))


RGB = images((N, 8, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (3, r"data is a int: try data=\(images, labels\)"),
        ({"val": images()}, "data has the splits val"),
        ({"train": RGB, "test": RGB[:, :6]}, "test images are uint8, 6 x 8 pixels of 3 channels and the training"),
        ({"train": (RGB, LABEL), "test": RGB}, "of the training and the test images one has labels: try"),
        ({"train": (RGB, LABEL), "test": (RGB, LABEL + 1)}, "the test images have the label 3 and no training image"),
        ([{"image": RGB[0], "label": 0}], "item 0 of data is a dict: try pairs of image and label"),
        ([Image.new("F", (8, 8))], r"item 0 of data cannot be read \(mode F has no fixed range"),
        ([images((8, 8)), images((9, 8))], r"image 1 of data is uint16 \(9, 8\) and the first one is uint16 \(8, 8\)"),
        ([(torch.rand(3, 8, 8), 0)], r"are float32 .*: try .* or \(x \* 255\)"),
        ((RGB, LABEL[:-1]), "the labels of 60 training images are int64 .59,.: try"),
    ],
)
def test_what_python_has_and_a_run_cannot_use(data, sentence):
    with pytest.raises(ConfigError, match=sentence):
        given_data(data, name="given")


@pytest.mark.parametrize(
    ("label", "classes"),
    [
        (LABEL[:, None], ("0", "1", "2")),
        (NAMES[LABEL].astype(object), ("ant", "bee", "cat")),
        (np.array([700, 3, 3_000_000_000])[LABEL], ("3", "700", "3000000000")),
        (LABEL - 1, ("0", "1")),
    ],
)
def test_labels_are_the_values_that_occur(label, classes):
    data = given_data((RGB, label), name="given")
    assert data.classes == classes
    values = {x.tobytes(): str(y) for x, y in zip(RGB.transpose(0, 3, 1, 2), label.ravel(), strict=True)}
    assert all(values[x] == ("-1" if y < 0 else classes[y]) for y, _, x in contents(data.pretrain))


def test_images_may_be_gray_have_channels_first_be_turned_from_bgr_and_have_the_other_order_of_bytes():
    for shape, expected in [((N, 8, 9), (N, 1, 8, 9)), ((N, 8, 9, 3), (N, 3, 8, 9)), ((N, 3, 8, 9), (N, 3, 8, 9))]:
        assert as_images(images(shape), "x").shape == expected
    assert torch.equal(as_images(RGB[..., ::-1], "x"), as_images(RGB[..., ::-1].copy(), "x"))
    assert np.array_equal(as_images(images().astype(">u2"), "x").numpy(), images().transpose(0, 3, 1, 2))


def medmnist(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(seed).integers(0, 255, (n, 8, 8), np.uint8), LABEL[:n, None].astype(np.uint8)


def test_an_archive_has_the_splits_of_medmnist(files):
    parts = {"train": medmnist(30, 0), "val": medmnist(9, 1), "test": medmnist(12, 2)}
    np.savez(
        files / "med.npz",
        **{f"{key}_images": image for key, (image, _) in parts.items()},
        **{f"{key}_labels": label for key, (_, label) in parts.items()},
    )
    data = load(files, images="med.npz")
    contrastive.check_dataset(data)
    assert (len(data.pretrain), len(data.probe_val), len(data.test)) == (30, 9, 12)
    assert data.facts == {"dataset_name": "med"} and data.classes == ("0", "1", "2")
    assert torch.equal(data.probe_val.image, torch.from_numpy(parts["val"][0])[:, None])
    assert data.found is not None and data.found.splits["val"] == {"0": 3, "1": 3, "2": 3}
    assert "images are uint8, 8 x 8 pixels of 1 channel" in str(data.found)
    other = given_data({**parts, "val": medmnist(9, 3)}, name="med")
    assert fingerprint(given_data(parts, name="med")) != fingerprint(other)  # other validation images
    np.savez(files / "other.npz", a=parts["train"][0], b=LABEL)
    with pytest.raises(ConfigError, match=r"other.npz holds a, b: try numpy.save of each"):
        load(files, images="other.npz")
    with pytest.raises(ConfigError, match="training images and labels are an array each"):
        load(files, images="x.npy", labels="med.npz")


def test_an_archive_is_refused_before_it_is_read(files, monkeypatch):
    with zipfile.ZipFile(files / "odd.npz", "w") as archive:
        archive.writestr("train_images.npy", b"y" * 100)
    with pytest.raises(ConfigError, match=r"are \|S100 and must be uint8"):
        load(files, images="odd.npz")
    np.savez(files / "med.npz", train_images=images(), train_labels=LABEL)
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", None)
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=10_000))
    with pytest.raises(ConfigError, match=r"med\.npz holds 0\.0 GB and 0\.0 GB of memory are free: try numpy\.save"):
        load(files, images="med.npz")


@pytest.mark.parametrize("content", [b"", b"hello", pickle.dumps([1]), b"PK\x03\x04" + bytes(100)], ids=repr)
def test_a_file_that_is_no_array_is_one_sentence(files, content):
    (files / "odd.npy").write_bytes(content)
    for options in ({"images": "odd.npy"}, {"images": "x.npy", "labels": "odd.npy"}):
        with pytest.raises(ConfigError, match=r"odd\.npy is no array of numpy \(.+\): try dataset\.\w+=FILE") as said:
            load(files, **options)
        assert "allow_pickle" not in str(said.value) or "unsafely" not in str(said.value)
