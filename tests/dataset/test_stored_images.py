"""Images that are read from their files when a step needs them, and runs on stored images, stopped and continued."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from contrastive.dataset.folder.stored import DECODER
from contrastive.dataset.shard.pack import pack_folder
from contrastive.dataset.splits import fingerprint
from contrastive.errors import ConfigError
from tests.dataset.data import RECIPE, assert_same_run, continued, everything, killed, oriented, ran
from tests.helpers import load_image_folder, logged_lines, write_image_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """In several formats, modes and shapes, of which some are turned by EXIF and one cannot be read."""
    root = write_image_folder(tmp_path / "insects")
    for i, options in enumerate([{}, {"exif": oriented(6)}, {"progressive": True}]):
        pixels = np.random.default_rng(i).integers(0, 256, (20, 30, 3), np.uint8)
        Image.fromarray(pixels).save(root / f"train/ant/a{i}.JPG", "JPEG", **options)
    Image.fromarray(np.linspace(0, 65535, 400, dtype=np.uint16).reshape(20, 20)).save(root / "train/bee/deep.png")
    (root / "train/bee/005.png").write_bytes(b"no image")
    return root


@pytest.mark.parametrize(
    "options",
    [{}, {"hold_out": True}, {"per_class": 7}, {"bias_pattern": r"([0-9])\D*$"}, {"orientation": False}],
    ids=str,
)
def test_images_read_from_their_files_are_the_decoded_ones(folder, options):
    if "bias_pattern" in options:
        (folder / "train/bee/deep.png").unlink()
    cache = str(folder.parent / "cache")
    plain, stored = (load_image_folder(folder, decoded=choice, cache=cache, **options) for choice in (True, False))
    assert not isinstance(stored.pretrain.image, torch.Tensor) and stored.nbytes == plain.nbytes
    for name in ("pretrain", "probe_val", "test"):
        mine, theirs = getattr(stored, name), getattr(plain, name)
        assert torch.equal(everything(mine.image), theirs.image)
        assert torch.equal(mine.label, theirs.label)
        assert mine.bias is theirs.bias or torch.equal(mine.bias, theirs.bias)
    assert torch.equal(stored.probe_train, plain.probe_train)
    assert (stored.mean, stored.std) == (plain.mean, plain.std)
    assert stored.facts.pop("decoder").startswith("Pillow")
    assert stored.facts == plain.facts and fingerprint(stored) == fingerprint(plain)
    assert str(stored.found) == str(plain.found)
    assert "bee/005.png: cannot identify image file" in str(stored.found)


def test_a_second_start_reads_no_file_and_other_files_are_other_data(folder, monkeypatch):
    first, other = load_image_folder(folder, decoded=False), load_image_folder(folder, decoded=False, size=8)
    assert other.pretrain.image.shape[-1] == 8 and fingerprint(other) != fingerprint(first)
    assert not list((folder / "cache").rglob("*.tar")) and not list((folder / "cache").rglob("*.images"))
    monkeypatch.setattr("contrastive.dataset.folder.pixels.read_bytes", None)  # a call would fail
    assert fingerprint(load_image_folder(folder, decoded=False)) == fingerprint(first)
    monkeypatch.undo()
    moved = folder.rename(folder.parent / "moved")
    assert fingerprint(load_image_folder(moved, decoded=False)) == fingerprint(first)
    Image.new("RGB", (9, 9)).save(moved / "train/ant/000.png")
    assert fingerprint(load_image_folder(moved, decoded=False)) != fingerprint(first)


def test_a_file_that_changes_below_a_run_is_named(folder):
    image = load_image_folder(folder, decoded=False).pretrain.image
    path = folder / "train/ant/003.png"
    raw = bytearray(path.read_bytes())
    raw[60] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ConfigError, match=rf"{folder}/train/ant/003\.png is damaged, .*: try copying it again"):
        everything(image)
    path.write_bytes(raw + b"0")
    with pytest.raises(ConfigError, match="its bytes are not those that were indexed"):
        everything(image)
    path.unlink()
    with pytest.raises(ConfigError, match=r"ant/003\.png cannot be read \(No such file or directory\): try"):
        everything(image)


def test_auto_decodes_what_is_small(folder, monkeypatch):
    assert isinstance(load_image_folder(folder).pretrain.image, torch.Tensor)
    monkeypatch.setattr("contrastive.dataset.folder.pixels.LARGE", 1000)
    assert not isinstance(load_image_folder(folder).pretrain.image, torch.Tensor)
    with pytest.raises(ConfigError, match=r"dataset\.decoded must be one of auto, true, false"):
        load_image_folder(folder, decoded="always")


def test_a_folder_without_a_whole_image_is_said(folder):
    for path in folder.glob("*/*/*"):
        path.write_bytes(b"no image")
    with pytest.raises(ConfigError, match=r"none of the 44 images in .* can be read \(cannot identify image file\)"):
        load_image_folder(folder, decoded=False)


@pytest.mark.slow
def test_a_run_on_files_is_the_run_on_decoded_images(folder, tmp_path):
    common = ["dataset=image_folder", f"dataset.root={folder}", "dataset.size=12", "batch_size=8", "epochs=1"]
    for choice in ("false", "true"):
        ran(*RECIPE, *common, f"dataset.decoded={choice}", f"hydra.run.dir=run-{choice}", cwd=tmp_path)
    assert json.loads((tmp_path / "run-false/environment.json").read_text())["decoder"] == DECODER
    assert_same_run(tmp_path / "run-true", tmp_path / "run-false")


@pytest.mark.slow
def test_a_run_on_shards_killed_and_continued_by_other_numbers_of_processes_is_the_undisturbed_one(tmp_path):
    pack_folder(write_image_folder(tmp_path / "insects", n=90), tmp_path / "shards", per_shard=40)
    words = [
        *RECIPE, "dataset=shards", f"dataset.root={tmp_path}/shards/train", f"dataset.test={tmp_path}/shards/test",
        "dataset.size=12", "batch_size=12", "epochs=4", "checkpoint_every_minutes=0.0001", "noise_frac=0.2",
    ]  # fmt: skip
    whole, run = tmp_path / "whole", tmp_path / "run"
    ran(*words, f"hydra.run.dir={whole}", cwd=tmp_path)
    words += [f"hydra.run.dir={run}"]
    for n, after in ((1, 4), (2, 20), (2, 32)):
        killed(n, words, run, after=after)
    continued(3, words, tmp_path)
    mine, theirs = (
        [(line["step"], line["train/loss"]) for line in logged_lines(path) if "train/loss" in line]
        for path in (run, whole)
    )
    assert [step for step, _ in mine] == [step for step, _ in theirs] and len(mine) == 4 * (180 // 12)
    assert [loss for _, loss in mine] == pytest.approx([loss for _, loss in theirs], rel=1e-3)
