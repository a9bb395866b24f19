"""Decoding of images, and the file they are mapped from."""

import errno
import os
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from contrastive.config.messages import user_message
from contrastive.dataset.folder.decode import decode
from contrastive.dataset.folder.layout import ImageFile, Part
from contrastive.dataset.folder.pixels import Facts, read_images
from contrastive.errors import ConfigError
from tests.helpers import load_image_folder, write_image_folder


def save(array: np.ndarray, path, **options):
    Image.fromarray(array).save(path, **options)
    return path


def test_the_shorter_side_is_resized_and_the_center_cropped(tmp_path):
    pixels = np.zeros((6, 18), dtype=np.uint8)
    pixels[:, 6:12] = 255  # the center third
    decoded = decode(save(pixels, tmp_path / "wide.png").read_bytes(), 12)
    assert decoded.shape == (3, 12, 12)
    assert (decoded[:, :, 2:10] == 255).all()


def png_header(width: int, height: int) -> bytes:
    """A PNG that claims to be large and holds no pixels."""
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = b"IDAT" + zlib.compress(b"")
    chunks = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (head, data)]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def images(folder: Path, n: int) -> Part:
    """n images of 4 x 4 pixels, each of the value of its number."""
    folder.mkdir(parents=True)
    for i in range(n):
        save(np.full((4, 4, 3), i, dtype=np.uint8), folder / f"{i}.png")
    return Part(folder, [ImageFile(f"{i}.png") for i in range(n)])


def load_images(part: Part, cache: Path) -> tuple[torch.Tensor, Facts]:
    return read_images({"train": part}, 4, cache)["train"]


def test_unreadable_files_leave_no_gap_in_any_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive.dataset.folder.pixels.CHUNK", 2)
    part = images(tmp_path / "images", 6)
    (part.folder / "2.png").write_bytes(b"no image")
    for _ in range(2):  # decoded, then mapped
        image, facts = load_images(part, tmp_path / "cache")
        assert image[:, 0, 0, 0].tolist() == [0, 1, 3, 4, 5]
        assert list(facts["faults"]) == ["2"]
        assert facts["mean"] == pytest.approx([2.6 / 255] * 3)
        assert facts["std"] == pytest.approx([image.double().std(correction=0).item() / 255] * 3)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("contrastive.dataset.folder.pixels.stats_of_levels", KeyboardInterrupt),
        ("os.fsync", OSError(errno.ENOSPC, "x")),
    ],
)
def test_a_decoding_that_breaks_off_leaves_nothing_and_starts_again(tmp_path, monkeypatch, function, error):
    """Ctrl-C, and a disk that fills up."""
    part = images(tmp_path / "images", 3)
    with monkeypatch.context() as patch:
        patch.setattr(function, Mock(side_effect=error))
        with pytest.raises((KeyboardInterrupt, OSError)):
            load_images(part, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.part"))
    assert load_images(part, tmp_path / "cache")[0][:, 0, 0, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("suffix", ["images", "json"])
@pytest.mark.parametrize("content", [None, b"", b'{"mean": "x", "faults": {}}'])
def test_a_cache_that_is_not_whole_is_made_again(tmp_path, suffix, content):
    part = images(tmp_path / "images", 3)
    image, facts = load_images(part, tmp_path / "cache")
    (path,) = (tmp_path / "cache").glob(f"*.{suffix}")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    again = load_images(part, tmp_path / "cache")
    assert again[1] == facts and torch.equal(again[0], image)


def test_a_disk_too_small_is_refused_before_decoding(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(ConfigError, match=r"try dataset\.cache=PATH on a larger disk"):
        load_images(images(tmp_path / "images", 3), tmp_path / "cache")


def test_decompression_bombs_are_refused_by_their_header(tmp_path):
    for width, height in ((60_000_000, 1), (1, 60_000_000), (50_000, 50_000), (2**31 - 1, 2**31 - 1)):
        path = tmp_path / "bomb.png"
        path.write_bytes(png_header(width, height))
        fault = decode(path.read_bytes(), 32)
        assert "fit in memory" in fault or "exceeds limit" in fault, fault
    path.write_bytes(png_header(64, 64))  # its size is fine, its pixels are missing
    assert isinstance(decode(path.read_bytes(), 32), str)


def test_a_file_that_the_system_does_not_give_is_not_left_out_for_good(tmp_path, monkeypatch):
    folder = write_image_folder(tmp_path / "insects")

    def refuse(*_args, **_options):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.read_bytes", refuse)
        with pytest.raises(PermissionError) as stopped:
            load_image_folder(folder)
    assert user_message(stopped.value).startswith("permission denied: mend that")
    assert "left out" not in str(load_image_folder(folder).found)


def test_postscript_is_no_image_whatever_it_is_called(tmp_path, monkeypatch):
    trap = tmp_path / "bin/gs"
    trap.parent.mkdir()
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/EVIL\n")
    trap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{trap.parent}:{os.environ['PATH']}")
    path = tmp_path / "x.png"
    path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n")
    assert isinstance(decode(path.read_bytes(), 4), str)
    assert not (tmp_path / "EVIL").exists()
