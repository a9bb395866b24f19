"""Decoding of single images, and the file they are mapped from."""

import errno
import os

import numpy as np
import pytest
import torch
from PIL import Image

from contrastive.dataset.folder.decode import decode, decode_to_memmap
from contrastive.files import locked
from tests.hostile import png_header


def save(array: np.ndarray, path, **options):
    Image.fromarray(array).save(path, **options)
    return path


def test_an_image_of_the_right_size_keeps_its_pixels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    assert np.array_equal(decode(save(pixels, tmp_path / "rgb.png"), 12), pixels.transpose(2, 0, 1))


def test_gray_is_repeated_over_three_channels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 12), dtype=np.uint8)
    assert np.array_equal(decode(save(pixels, tmp_path / "gray.png"), 12), np.stack([pixels] * 3))


def test_transparency_is_put_on_black(tmp_path):
    pixels = np.full((12, 12, 4), 200, dtype=np.uint8)
    pixels[:, :6, 3] = 0
    pixels[:, 6:, 3] = 255
    decoded = decode(save(pixels, tmp_path / "rgba.png"), 12)
    assert (decoded[:, :, :6] == 0).all()
    assert (decoded[:, :, 6:] == 200).all()


def test_the_shorter_side_is_resized_and_the_center_cropped(tmp_path):
    pixels = np.zeros((6, 18), dtype=np.uint8)
    pixels[:, 6:12] = 255  # the center third
    decoded = decode(save(pixels, tmp_path / "wide.png"), 12)
    assert decoded.shape == (3, 12, 12)
    assert (decoded[:, :, 2:10] == 255).all()


def test_sixteen_bit_images_keep_their_gray_levels(tmp_path):
    ramp = np.linspace(0, 65535, 144, dtype=np.uint16).reshape(12, 12)
    decoded = decode(save(ramp, tmp_path / "deep.png"), 12)
    assert np.abs(decoded[0].astype(int) - ramp // 257).max() <= 1


@pytest.mark.parametrize("content", [b"", b"\x89PNG not really"])
def test_an_unreadable_file_gives_a_reason(tmp_path, content):
    path = tmp_path / "broken.png"
    path.write_bytes(content)
    assert "cannot identify image file" in decode(path, 12)


def test_float_images_are_refused(tmp_path):
    assert "save it with 8 or 16 bits" in decode(save(np.zeros((4, 4), np.float32), tmp_path / "f.tif"), 4)


def test_unreadable_files_leave_no_gap(tmp_path):
    paths = []
    for i in range(6):
        paths.append(save(np.full((4, 4, 3), i, dtype=np.uint8), tmp_path / f"{i}.png"))
    paths[2].write_bytes(b"no image")
    for _ in range(2):  # decoded, then mapped
        decoded = decode_to_memmap(paths, 4, tmp_path / "cache/pixels.images")
        assert decoded.image[:, 0, 0, 0].tolist() == [0, 1, 3, 4, 5]
        assert list(decoded.faults) == [2]
        assert decoded.stats[0] == pytest.approx((2.6 / 255,) * 3)
        assert decoded.stats[1] == pytest.approx((decoded.image.double().std(correction=0).item() / 255,) * 3)


def test_no_readable_file_gives_no_images(tmp_path):
    path = tmp_path / "0.png"
    path.write_bytes(b"no image")
    decoded = decode_to_memmap([path], 4, tmp_path / "pixels.images")
    assert decoded.image.shape == (0, 3, 4, 4)
    assert list(decoded.faults) == [0]


def test_an_interrupted_decoding_starts_again(tmp_path, monkeypatch):
    path = save(np.full((4, 4, 3), 7, dtype=np.uint8), tmp_path / "0.png")
    cache_path = tmp_path / "pixels.images"

    def killed(image: torch.Tensor):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("contrastive.dataset.folder.decode.channel_stats", killed)
        with pytest.raises(KeyboardInterrupt):
            decode_to_memmap([path], 4, cache_path)
    assert (decode_to_memmap([path], 4, cache_path).image == 7).all()


def test_an_image_that_would_not_fit_in_memory_is_refused_by_its_header(tmp_path):
    for width, height in ((60_000_000, 1), (1, 60_000_000), (50_000, 50_000), (2**31 - 1, 2**31 - 1)):
        path = tmp_path / "bomb.png"
        path.write_bytes(png_header(width, height))
        fault = decode(path, 32)
        assert "fit in memory" in fault or "exceeds limit" in fault, fault
    path.write_bytes(png_header(64, 64))  # its size is fine, its pixels are missing
    assert isinstance(decode(path, 32), str)


def test_what_a_killed_process_left_is_removed(tmp_path):
    path = save(np.full((4, 4, 3), 7, dtype=np.uint8), tmp_path / "0.png")
    cache = tmp_path / "cache"
    cache.mkdir()
    for name in ("image_folder-0.part", "image_folder-1.part", ".image_folder-2.json.17.part", ".new.json.18.part"):
        (cache / name).write_bytes(b"left")
    os.utime(cache / ".image_folder-2.json.17.part", (0, 0))
    with locked(cache / "image_folder-1.lock"):  # another process is writing that one
        decode_to_memmap([path], 4, cache / "pixels.images")
    assert sorted(item.name for item in cache.glob("*.part")) == [".new.json.18.part", "image_folder-1.part"]


def test_pixels_that_changed_on_disk_are_decoded_again(tmp_path, capsys, monkeypatch):
    paths = [save(np.full((4, 4, 3), i + 1, dtype=np.uint8), tmp_path / f"{i}.png") for i in range(5)]
    cache_path = tmp_path / "pixels.images"
    before = decode_to_memmap(paths, 4, cache_path)
    for damaged in (bytes(5 * 48), b"", cache_path.read_bytes()[:-1], None):
        cache_path.unlink()
        if damaged is not None:
            cache_path.write_bytes(damaged)
        again = decode_to_memmap(paths, 4, cache_path)
        assert torch.equal(again.image, before.image)
        assert again.digest == before.digest
        assert "missing or damaged: its images are decoded again" in capsys.readouterr().out
    monkeypatch.setattr("contrastive.dataset.folder.decode.ALWAYS_HASHED", 0)  # as for a file that is too large for it
    cache_path.write_bytes(bytes(5 * 48))
    assert torch.equal(decode_to_memmap(paths, 4, cache_path).image, before.image)


@pytest.mark.parametrize("change", ["", "[]", "{", ("0.02", "0.12"), ('"1": ', '"0": ')])
def test_a_damaged_record_of_the_pixels_is_made_again(tmp_path, change, capsys):
    paths = [save(np.full((4, 4, 3), 7, dtype=np.uint8), tmp_path / "a.png"), tmp_path / "missing.png"]
    before = decode_to_memmap(paths, 4, tmp_path / "pixels.images")
    record = (tmp_path / "pixels.json").read_text()
    if isinstance(change, tuple):
        assert change[0] in record
        change = record.replace(*change)
    (tmp_path / "pixels.json").write_text(change)
    again = decode_to_memmap(paths, 4, tmp_path / "pixels.images")
    assert (again.digest, again.stats, again.faults.keys()) == (before.digest, before.stats, before.faults.keys())
    assert "record is missing or damaged: its images are decoded again" in capsys.readouterr().out


def test_postscript_is_no_image_whatever_it_is_called(tmp_path, monkeypatch):
    trap = tmp_path / "bin/gs"
    trap.parent.mkdir()
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/EVIL\n")
    trap.chmod(0o755)
    monkeypatch.setenv("PATH", f"{trap.parent}:{os.environ['PATH']}")
    path = tmp_path / "x.png"
    path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nshowpage\n%%EOF\n")
    assert isinstance(decode(path, 4), str)
    assert not (tmp_path / "EVIL").exists()


def test_space_is_reserved_before_pixels_are_written(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = save(np.zeros((4, 4, 3), dtype=np.uint8), tmp_path / "a.png")
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        decode_to_memmap([path], 4, tmp_path / "pixels.images")
    assert not list(tmp_path.glob("*.part"))


def test_a_copied_cache_is_read_once(tmp_path, monkeypatch):
    path = save(np.full((4, 4, 3), 7, dtype=np.uint8), tmp_path / "a.png")
    decode_to_memmap([path], 4, tmp_path / "pixels.images")
    monkeypatch.setattr("contrastive.dataset.folder.decode.ALWAYS_HASHED", 0)
    os.utime(tmp_path / "pixels.images", (1, 1))
    decode_to_memmap([path], 4, tmp_path / "pixels.images")
    monkeypatch.setattr("contrastive.dataset.folder.decode._hash", None)  # a call would fail
    decode_to_memmap([path], 4, tmp_path / "pixels.images")


def test_a_file_system_that_cannot_reserve_can_be_decoded_to(tmp_path, monkeypatch):
    """glibc then reads a byte of every block and writes it."""

    def emulated(file: int, offset: int, n_bytes: int) -> None:
        os.pread(file, 1, offset)
        os.pwrite(file, b"\0", offset + n_bytes - 1)

    path = save(np.full((4, 4, 3), 7, dtype=np.uint8), tmp_path / "a.png")
    monkeypatch.setattr(os, "posix_fallocate", emulated)
    assert (decode_to_memmap([path], 4, tmp_path / "pixels.images").image == 7).all()
