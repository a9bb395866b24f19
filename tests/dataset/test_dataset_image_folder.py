"""Image folders: classes, biases, names, refusals, and what a second start reads."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from contrastive.dataset.splits import fingerprint
from contrastive.errors import ConfigError
from tests.dataset.data import contents
from tests.helpers import load_image_folder, write_image_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_image_folder(tmp_path / "insects")


def test_classes_and_labels_come_from_the_folders(folder):
    data = load_image_folder(folder)
    assert data.classes == ("ant", "bee")
    assert data.pretrain.image.shape == (40, 3, 12, 12)
    assert data.test.image.shape == (8, 3, 12, 12)
    assert data.pretrain.label.tolist() == [0] * 20 + [1] * 20
    exact = np.array(Image.open(folder / "train/ant/000.png"))
    assert np.array_equal(data.pretrain.image[0].permute(1, 2, 0).numpy(), exact)
    assert data.facts == {"dataset_name": "insects", "test_split": "test/"}
    assert load_image_folder(folder, name="tiny insects").facts["dataset_name"] == "tiny insects"


def test_a_second_start_reads_no_image_and_names_what_is_left_out_as_the_first(folder, monkeypatch):
    whole = load_image_folder(folder)
    (folder / "train/bee/005.png").write_bytes(b"\x89PNG not really")
    shutil.rmtree(folder / "cache")
    first = load_image_folder(folder)
    readable = [i for i in range(40) if i != 25]
    assert contents(first.pretrain) == contents(whole.pretrain.select(torch.tensor(readable)))
    cached = {path: path.stat().st_mtime_ns for path in (folder / "cache").iterdir()}
    assert sum(path.suffix == ".images" for path in cached) == 2
    monkeypatch.setattr("contrastive.dataset.folder.pixels.decode", None)  # a call would fail
    second = load_image_folder(folder)
    assert {path: path.stat().st_mtime_ns for path in (folder / "cache").iterdir()} == cached
    assert contents(second.pretrain) == contents(first.pretrain)
    assert (second.mean, second.std) == (first.mean, first.std)
    assert fingerprint(second) == fingerprint(first)
    for data in (first, second):
        assert "left out: 1, cannot be read (bee/005.png: cannot identify image file)" in str(data.found)


def test_a_changed_file_is_noticed_though_its_size_is_the_same(folder):
    path = folder / "train/ant/000.bmp"
    pixels = np.zeros((12, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    first, before = load_image_folder(folder), path.stat()
    Image.fromarray(pixels + 1).save(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert path.stat().st_size == before.st_size
    second = load_image_folder(folder)
    assert (second.pretrain.image[0] == 1).all()
    assert fingerprint(second) != fingerprint(first)


def test_the_fingerprint_is_that_of_the_content_and_the_options(folder):
    first = load_image_folder(folder)
    (folder / "train/ant/003.png").touch()
    assert fingerprint(load_image_folder(folder)) == fingerprint(first)
    for part in ("train", "test"):
        shutil.copytree(folder / part, folder.parent / "elsewhere" / part)
    assert fingerprint(load_image_folder(folder.parent / "elsewhere")) == fingerprint(first)

    options = [{}, {"size": 10}, {"hold_out": True}]
    assert len({fingerprint(load_image_folder(folder, **chosen)) for chosen in options}) == len(options)


def test_the_name_of_a_broken_image_and_of_its_class_sends_nothing_to_the_terminal(folder):
    (folder / "train/bee").rename(folder / "train/b\x1b[31mee")
    (folder / "test/bee").rename(folder / "test/b\x1b[31mee")
    (folder / "train/ant/\x1b]0;owned\x07x.png").write_bytes(b"\x89PNG not really")
    data = load_image_folder(folder)
    assert data.classes == ("ant", r"b\x1b[31mee")
    assert r"ant/\x1b]0;owned\x07x.png: cannot identify" in str(data.found)
    assert "\x1b" not in str(data.found)


def test_a_linked_folder_inside_a_class_is_named(folder):
    (folder / "train/ant/more").symlink_to(folder / "train/bee")
    data = load_image_folder(folder)
    assert len(data.pretrain) == 40
    assert "left out: 1, a link to a folder: try a copy, or a link to each image (train/ant/more)" in str(data.found)


@pytest.mark.parametrize("layout", ["flat", "train", "train/all"])
def test_a_folder_without_labels(folder, tmp_path, layout):
    place = tmp_path / "own" / ("." if layout == "flat" else layout)
    place.mkdir(parents=True)
    for path in (folder / "train").rglob("*.png"):
        shutil.copy(path, place / f"{path.parent.name}-{path.name}")
    data = load_image_folder(tmp_path / "own")
    assert data.classes == ()
    assert (len(data.pretrain), len(data.test)) == (36, 4)
    assert {*data.pretrain.label.tolist(), *data.test.label.tolist()} == {-1}
    assert len(data.probe_train) == len(data.probe_val) == 0
    assert not {*contents(data.pretrain)} & {*contents(data.test)}
    shutil.copytree(folder / "test/ant", tmp_path / "own/val")
    split = load_image_folder(tmp_path / "own")
    assert (len(split.pretrain), len(split.test)) == (40, 4)


def test_unlabeled_images_join_the_training_images_alone(folder, tmp_path):
    plain = load_image_folder(folder)
    further = tmp_path / "further"
    further.mkdir()
    Image.fromarray(np.full((12, 12, 3), 255, dtype=np.uint8)).save(further / "white.png")
    data = load_image_folder(folder, unlabeled=str(further), per_class=20)
    assert data.classes == plain.classes
    assert torch.equal(data.pretrain.image[:40], plain.pretrain.image)
    assert data.pretrain.label.tolist() == [*plain.pretrain.label.tolist(), -1]
    assert (data.pretrain.image[40] == 255).all()
    assert torch.equal(data.probe_val.label, plain.probe_val.label)
    assert 40 not in data.probe_train
    assert data.mean == pytest.approx([(40 * mean + 1) / 41 for mean in plain.mean])
    assert fingerprint(data) != fingerprint(plain)


def test_what_cannot_be_used_is_refused(folder, tmp_path):
    for options, message in (
        ({"size": None}, "try .* dataset.size=32, or contrastive look .* for the whole command$"),
        ({"unlabeled": str(folder)}, r"holds 8 test or validation images: try another dataset"),
        ({"unlabeled": str(tmp_path / "nowhere")}, "nowhere .*has no images"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_image_folder(folder, **options)
    shutil.copytree(folder / "test/bee", folder / "test/wasp")
    with pytest.raises(ConfigError, match=r"test/ has a class that train/ lacks \(wasp\): try mkdir .*/train/wasp"):
        load_image_folder(folder)
    shutil.rmtree(folder / "test/wasp")
    for path in folder.rglob("*.png"):
        path.write_bytes(b"no image")
    with pytest.raises(ConfigError, match=r"none of the 40 images in .* can be read \(cannot identify image file\)"):
        load_image_folder(folder)


def test_class_folders_alone_are_split(folder):
    base = folder / "train"
    data = load_image_folder(base)
    assert data.classes == ("ant", "bee")
    assert data.test.label.tolist() == [0] * 4 + [1] * 4
    assert data.pretrain.label.tolist() == [0] * 16 + [1] * 16
    assert not {*contents(data.pretrain)} & {*contents(data.test)}
    said = "a fixed fifth of each class, chosen by the file names: 8 of 40 images"
    assert data.facts == {"dataset_name": "train", "test_split": said}
    assert f"test   8 images, {said}" in str(data.found)
    assert torch.equal(load_image_folder(base, name="again").test.image, data.test.image)
    (base / "bee/005.png").unlink()
    (base / ".hidden").mkdir()
    shutil.copy(base / "ant/000.png", base / ".hidden")
    fewer = load_image_folder(base)
    assert fewer.classes == ("ant", "bee")
    assert len({*contents(fewer.test)} & {*contents(data.test)}) >= 7
