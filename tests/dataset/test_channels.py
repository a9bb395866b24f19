"""Images of one to thirteen channels, of 8 or 16 bits: files, statistics, operations, encoders and whole runs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import contrastive
from contrastive.augmentation.blur import blur_uint8
from contrastive.augmentation.grayscale import Grayscale
from contrastive.augmentation.jitter import ColorJitter
from contrastive.dataset.folder.decode import RGB_8, Kind, common_kind
from contrastive.dataset.folder.decode import pixels as read
from contrastive.errors import ConfigError
from contrastive.experiment.make import make
from contrastive.training.features import extract
from contrastive.training.precision import Normalize
from tests.augmentation.test_augmentation import torchvision
from tests.dataset.data import QUICK, ran
from tests.helpers import further, load_image_folder, program

GRAY_8, GRAY_16, MANY = Kind(1, np.dtype(np.uint8)), Kind(1, np.dtype(np.uint16)), Kind(13, np.dtype(np.uint16))
QUICK_RUN = ["dataset.size=16", *QUICK]


def pixels(shape: tuple[int, ...], dtype: type = np.uint16, *, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def write_classes(folder: Path, suffix: str, shape: tuple[int, ...], n: int = 20) -> Path:
    """Two classes that differ in their level, 12 bits deep."""
    for label, name in enumerate(("ill", "well")):
        (folder / name).mkdir(parents=True)
        for i in range(n):
            x = (pixels(shape, seed=100 * label + i) // 32 + 1000 * label).astype(np.uint16)
            path = folder / name / f"{i}{suffix}"
            np.save(path, x) if suffix == ".npy" else Image.fromarray(x).save(path)
    return folder


def test_gray_of_16_bits_keeps_them(tmp_path):
    folder = write_classes(tmp_path / "chest", ".png", (12, 12))
    data = load_image_folder(folder)
    assert (data.pretrain.image.dtype, data.pretrain.image.shape[1:]) == (torch.uint16, (1, 12, 12))
    stored = {Image.open(path).tobytes() for path in sorted((folder / "ill").iterdir(), key=str)}
    assert data.pretrain.image[0].numpy().tobytes() in stored
    image = data.pretrain.image.double() / 65_535
    assert data.mean == pytest.approx(image.mean((0, 2, 3)).tolist())
    assert data.std == pytest.approx(image.std((0, 2, 3), correction=0).tolist())
    assert load_image_folder(folder).mean == data.mean  # from the cache


def test_a_person_decides_between_gray_and_rgb(tmp_path):
    folder = write_classes(tmp_path / "chest", ".png", (12, 12))
    assert load_image_folder(folder, channels=3).pretrain.image.shape[1] == 3
    assert load_image_folder(folder).pretrain.image.shape[1] == 1
    Image.fromarray(pixels((12, 12), np.uint8)).save(tmp_path / "gray.png")
    assert common_kind([tmp_path / "gray.png"], None) == RGB_8
    assert common_kind([tmp_path / "gray.png"], 1) == GRAY_8
    with pytest.raises(ConfigError, match=r"dataset\.channels=4, and the images have 3 x 8 bits: try"):
        common_kind([tmp_path / "gray.png"], 4)


def test_images_of_another_kind_are_left_out(tmp_path):
    folder = write_classes(tmp_path / "fields", ".npy", (16, 16, 13), n=80)
    np.save(folder / "ill/3.npy", pixels((16, 16, 4)))
    paths = sorted(folder.rglob("*.npy"))
    assert common_kind(paths, None) == MANY
    Image.fromarray(pixels((12, 12, 3), np.uint8)).save(tmp_path / "rgb.png")
    assert common_kind([paths[0], tmp_path / "rgb.png"], None) == RGB_8
    data = load_image_folder(folder)
    assert len(data.pretrain) + len(data.test) == 159
    assert "cannot be read (ill/3.npy: the image has 4 x 16 bits, and 13 x 16 bits are expected)" in str(data.found)


@pytest.mark.parametrize("layout", [(0, 1, 2), (2, 0, 1)])
def test_many_bands_are_read_in_either_layout(tmp_path, layout):
    image = pixels((20, 24, 13))
    np.save(tmp_path / "x.npy", image.transpose(layout))
    assert np.array_equal(read(tmp_path / "x.npy", None, MANY), image.transpose(2, 0, 1))
    small = read(tmp_path / "x.npy", 5, MANY)
    assert small.shape == (13, 5, 5)
    plane = Image.fromarray(image[..., 7].astype(np.float32)).resize((6, 5), Image.Resampling.BILINEAR)
    assert np.array_equal(small[7], np.asarray(plane)[:, :5].round().astype(np.uint16))
    with pytest.raises(ValueError, match="the image has 13 x 16 bits, and 1 x 16 bits are expected"):
        read(image, None, GRAY_16)
    with pytest.raises(ValueError, match="float64: save them as uint8 or uint16"):
        read(image / 2, None, MANY)


def test_tiff_of_many_bands(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    image = pixels((20, 24, 13))
    tifffile.imwrite(tmp_path / "x.tif", image, photometric="minisblack", planarconfig="contig")
    assert common_kind([tmp_path / "x.tif"], None) == MANY
    assert np.array_equal(read(tmp_path / "x.tif", None, MANY), image.transpose(2, 0, 1))


def test_jitter_of_one_channel_is_that_of_torchvision():
    x, jitter = torch.rand(4, 1, 8, 9), ColorJitter(p=1.0)
    drawn = jitter.draw(4, 8, 9, torch.Generator().manual_seed(0))
    for i, found in enumerate(jitter.apply(x, drawn)):
        expected = torchvision(jitter, x[i], {key: value[i] for key, value in drawn.items()})
        assert torch.allclose(found, expected, atol=1e-6)


def test_jitter_changes_the_channels_that_it_names():
    x, rng = torch.rand(6, 13, 8, 8), torch.Generator().manual_seed(0)
    jitter = ColorJitter(p=1.0, channels=(3, 2, 1))
    drawn = jitter.draw(6, 8, 8, rng)
    changed = jitter.apply(x, drawn)
    assert [bool((changed[:, i] != x[:, i]).any()) for i in range(13)] == [1 <= i <= 3 for i in range(13)]
    assert torch.equal(changed[:, [3, 2, 1]], ColorJitter(p=1.0).apply(x[:, [3, 2, 1]], drawn))


@pytest.mark.parametrize(
    ("operation", "n", "sentence"),
    [
        (Grayscale(), 1, r"made of red, green and blue, and these images have 1 channel: try augmentation=intensity"),
        (ColorJitter(), 13, r"changes 13 of 13 channels: try augmentation=intensity, or 'augmentation\.ops"),
    ],
)
def test_what_has_no_meaning_is_refused(operation, n, sentence):
    with pytest.raises(ConfigError, match=sentence):
        operation.check_channels(n)


def test_the_intensity_augmentation_takes_any_channels():
    augmentation = make("augmentation/intensity")
    for n in (1, 13):
        augmentation.check_channels(n)
        x = torch.from_numpy(pixels((4, n, 16, 16)))
        views = augmentation(x, torch.Generator().manual_seed(0))
        assert views.shape == (4, n, 16, 16) and views.min() >= 0 and views.max() <= 1
    assert blur_uint8(x).dtype == torch.uint16


@pytest.mark.parametrize("name", ["resnet18", "simple_convnet", *further("torchvision", "timm")])
def test_encoders_take_any_channels(name):
    options = {"resnet18": {"width": 4}, "simple_convnet": {"width": 4}, "timm": {"name": "resnet10t"}}.get(name, {})
    if name == "timm":
        pytest.importorskip("timm")
    contrastive.check_encoder(make(f"encoder/{name}", in_channels=13, **options), 32, channels=13)


@pytest.mark.slow
def test_a_gray_run_of_16_bits_and_its_encoder(tmp_path):
    """From the README's words to features: the saved encoder knows channels, depth and statistics."""
    write_classes(tmp_path / "chest", ".png", (16, 16))
    words = ["dataset=image_folder", "dataset.root=chest", *QUICK_RUN]
    refused = program(*words, "augmentation=intensity", "encoder.in_channels=3", cwd=tmp_path)
    assert refused.returncode == 2 and "try encoder.in_channels=null" in refused.stdout + refused.stderr
    ran(*words, "augmentation=intensity", cwd=tmp_path)
    encoder, transform = contrastive.load_encoder(tmp_path / "run")
    data = load_image_folder(tmp_path / "chest", size=16)
    expected = extract(encoder, data.test, Normalize(data.mean, data.std)).h
    with torch.no_grad():
        assert torch.allclose(encoder(transform(data.test.image)), expected, atol=1e-6)
        picture = Image.fromarray(data.test.image[0, 0].numpy())
        assert torch.allclose(encoder(transform(picture)), expected[:1], atol=1e-6)
    with pytest.raises(ConfigError, match=r"takes uint16 images \(1, H, W\)"):
        transform(torch.zeros(3, 16, 16, dtype=torch.uint8))
    ran(*words, "augmentation=intensity", "encoder.weights=run", "hydra.run.dir=more", cwd=tmp_path)


@pytest.mark.slow
def test_a_multispectral_recipe_runs(tmp_path):
    write_classes(tmp_path / "images", ".npy", (16, 16, 13))
    ran("experiment=multispectral", "dataset.root=images", *QUICK_RUN, cwd=tmp_path)
    assert json.loads((tmp_path / "run/result.json").read_text())["test"]["knn_top1"] > 0
    _, transform = contrastive.load_encoder(tmp_path / "run")
    assert len(transform.mean) == 13 and transform.dtype == torch.uint16
