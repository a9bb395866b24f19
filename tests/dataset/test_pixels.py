"""Pixels of every kind of file that people have, against plain Pillow; what cannot be decoded; the file of pixels."""

import errno
import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from contrastive.config.messages import user_message
from contrastive.dataset.folder import decode as decoding
from contrastive.dataset.folder.decode import GRAY_16, TURNED, common_kind, decode, pixels
from contrastive.dataset.folder.layout import ImageFile, Part
from contrastive.dataset.folder.pixels import Facts, read_images
from contrastive.errors import ConfigError
from contrastive.experiment.encoder import Transform
from tests.helpers import load_image_folder, write_image_folder

ORIENTED = {
    "JPEG": (".jpg", ("L", "RGB", "CMYK"), 1),
    "PNG": (".png", ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"), 2),
    "WEBP": (".webp", ("RGB", "RGBA"), 2),
    "TIFF": (".tif", ("1", "L", "P", "RGB", "RGBA", "CMYK", "I;16"), 2),
}
PLAIN = {
    "BMP": (".bmp", ("1", "L", "P", "RGB"), 1),
    "GIF": (".gif", ("L", "P", "RGB"), 2),
    "PPM": (".pnm", ("1", "L", "RGB", "I;16"), 1),
}
WHOLE = 64  # a frame that shrinks nothing


def picture(mode: str, rng: np.random.Generator) -> Image.Image:
    """6 x 4 pixels; transparency is whole or none, as TIFFs have it."""
    if mode == "I;16":
        return Image.fromarray(rng.integers(0, 65_536, (4, 6), np.uint16))
    color = Image.fromarray(rng.integers(0, 256, (4, 6, 3), np.uint8))
    if mode in ("LA", "RGBA"):
        color.putalpha(Image.fromarray(rng.choice([0, 255], (4, 6)).astype(np.uint8)))
    return color.convert(mode)


def files(folder: Path, kind: str, orientation: int) -> Iterator[tuple[Path, str, int]]:
    """A file of each mode, of one page and of two where the format has pages."""
    suffix, modes, most = (ORIENTED | PLAIN)[kind]
    rng, exif = np.random.default_rng(orientation), Image.Exif()
    exif[0x112] = orientation
    for mode in modes:
        for pages in range(1, most + 1):
            path = folder / f"{mode.replace(';', '')}-{pages}{suffix}"
            first, *further = (picture(mode, rng) for _ in range(pages))
            options: dict[str, object] = {"lossless": True} if kind == "WEBP" else {}
            if further:
                options |= {"save_all": True, "append_images": further}
            first.save(path, kind, **options, **({"exif": exif} if kind in ORIENTED else {}))
            yield path, mode, pages


def reference(path: Path) -> np.ndarray:
    """What plain Pillow makes of a file: turned, RGB on black."""
    with Image.open(io.BytesIO(path.read_bytes())) as file:  # by its path Pillow garbles a TIFF that it turns
        turned = ImageOps.exif_transpose(file)
    if turned.mode.startswith("I"):
        return np.stack([np.asarray(turned) // 257] * 3)
    rgba = turned.convert("RGBA")
    return np.asarray(Image.alpha_composite(Image.new("RGBA", rgba.size, "black"), rgba))[..., :3].transpose(2, 0, 1)


def center(image: np.ndarray) -> np.ndarray:
    """The central square, which needs no resizing."""
    side = min(height := image.shape[1], width := image.shape[2])
    top, left = (height - side) // 2, (width - side) // 2
    return image[:, top : top + side, left : left + side]


@pytest.mark.parametrize(
    ("kind", "orientation"), [*((kind, i) for kind in ORIENTED for i in range(1, 9)), *((kind, 1) for kind in PLAIN)]
)
def test_pixels_are_those_of_plain_pillow(tmp_path: Path, kind: str, orientation: int) -> None:
    for path, mode, pages in files(tmp_path, kind, orientation):
        seen: list[str] = []
        decoded = decode(path.read_bytes(), 4, frame=WHOLE, seen=seen)
        assert not isinstance(decoded, str), decoded
        assert np.array_equal(decoded, reference(path)), path
        assert np.array_equal(decode(path.read_bytes(), min(decoded.shape[1:])), center(decoded)), path
        assert (TURNED in seen) == (orientation > 1), path
        assert any(str(pages) in what for what in seen if what.startswith(decoding.FIRST_PAGE)) == (pages > 1), path
        if mode == "I;16":
            with Image.open(io.BytesIO(path.read_bytes())) as file:
                exact = np.asarray(ImageOps.exif_transpose(file)).astype(np.uint16)
            assert np.array_equal(pixels(path, None, GRAY_16), exact[None])
            assert common_kind([path], None) == GRAY_16


def leaning(folder: Path) -> Path:
    """Photos of a phone that was held upright: red above blue, once they are turned."""
    exif = Image.Exif()
    exif[0x112] = 6
    upright = np.zeros((24, 16, 3), np.uint8)
    upright[:12, :, 0] = upright[12:, :, 2] = 255
    for i in range(12):
        path = folder / "ab"[i % 2] / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rot90(upright + np.uint8(i // 2))).save(path, exif=exif, quality=100, subsampling=0)
    return folder


def is_upright(image: np.ndarray) -> bool:
    """Of (3, h, w): red above, blue below."""
    return bool(image[0, 1].mean() > 200 > 60 > image[2, 1].mean() and image[2, -2].mean() > 200)


def test_photos_are_turned_in_every_way_and_counted(tmp_path: Path) -> None:
    folder = leaning(tmp_path / "photos")
    for channels in (3, 1):
        data = load_image_folder(folder, channels=channels)
        image = data.pretrain.image[0].numpy()
        assert is_upright(image) if channels == 3 else image[0, 1].mean() > image[0, -2].mean()
        assert f"12 of 12 images are {TURNED} (a/" in str(data.found)
    transform = Transform(size=(12, 12), mean=(0.0,) * 3, std=(1.0,) * 3)
    for photo in (folder / "a/0.jpg", Image.open(folder / "a/0.jpg")):
        assert is_upright(255 * transform(photo)[0].numpy())


def test_a_fourth_band_that_is_no_transparency_changes_no_color_and_is_named(tmp_path: Path) -> None:
    colors = [Image.new("L", (4, 4), value) for value in (200, 100, 50, 31)]
    for mode, expected in (("RGBA", (200, 100, 50)), ("LA", (200, 200, 200))):
        bands = colors[:3] + colors[3:] if mode == "RGBA" else [colors[0], colors[3]]
        Image.merge(mode, bands).save(tmp_path / "x.tif")
        seen: list[str] = []
        decoded = decode((tmp_path / "x.tif").read_bytes(), 4, seen=seen)
        assert [int(channel.max()) for channel in decoded] == list(expected)
        assert seen == [decoding.NO_TRANSPARENCY]


def test_a_few_files_of_8_bits_among_16_are_told_with_what_is_left_and_a_setting_keeps_16(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for i in range(12):
        path = tmp_path / "pq"[i % 2] / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        deep = rng.integers(0, 3001, (12, 12), np.uint16)
        Image.fromarray(deep if i < 10 else (deep // 16).astype(np.uint8)).save(path)
    cache = str(tmp_path.parent / "cache")
    data = load_image_folder(tmp_path, cache=cache)
    assert data.n_channels == 3
    assert "10 of 12 images are 16-bit gray made RGB of 8 bits; values below 4,096 keep 16 levels: " in str(data.found)
    gray = load_image_folder(tmp_path, cache=cache, channels=1)
    assert (gray.n_channels, int(gray.pretrain.image.int().max())) == (1, pytest.approx(47_900, rel=0.1))
    assert "2 of 12 images are of 8 bits, scaled to gray of 16 (p/10.png, q/11.png)" in str(gray.found)


def test_further_bands_and_the_lower_bits_of_color_are_named(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    for extra, dtype, expected, said in (
        (["unspecified"] * 2, np.uint8, [200, 100, 50], ["of 5 bands; the last ones are left out"]),
        (["unassalpha", "unspecified"], np.uint8, [200, 100, 50], ["with a last band", "of 5 bands"]),
        (["unspecified"], np.uint16, [200, 100, 50], [decoding.DEEP_COLOR, "of 4 bands"]),
    ):
        depth = 257 if dtype is np.uint16 else 1
        array = np.stack([np.full((4, 4), depth * v, dtype) for v in (200, 100, 50, 31, 9)[: 3 + len(extra)]], -1)
        tifffile.imwrite(tmp_path / "x.tif", array, photometric="rgb", extrasamples=extra, planarconfig="contig")
        seen: list[str] = []
        decoded = decode((tmp_path / "x.tif").read_bytes(), 4, seen=seen)
        assert [int(channel[0, 0]) for channel in decoded] == expected
        assert len(seen) == len(said) and all(what.startswith(start) for what, start in zip(seen, said, strict=True))
    tifffile.imwrite(tmp_path / "x.tif", array.astype(np.uint8), photometric="rgb", extrasamples=["assocalpha"])
    assert decode((tmp_path / "x.tif").read_bytes(), 4) == f"its {decoding.PREMULTIPLIED}"  # Pillow has divided by it


@pytest.mark.parametrize(
    ("dtype", "how"),
    [(np.int32, "np.clip(x + 1024, 0, 4095).astype(np.uint16)"), (np.float32, "(65_535 * x).astype(np.uint16)")],
)
def test_numbers_without_a_range_are_refused_with_how_to_convert_them(tmp_path: Path, dtype: type, how: str) -> None:
    Image.fromarray(np.zeros((4, 4), dtype)).save(tmp_path / "x.tif")
    fault = decode((tmp_path / "x.tif").read_bytes(), 4)
    assert isinstance(fault, str) and how in fault


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


def numbered(folder: Path, n: int) -> Part:
    """n images of 4 x 4 pixels, each of the value of its number."""
    folder.mkdir(parents=True)
    for i in range(n):
        save(np.full((4, 4, 3), i, dtype=np.uint8), folder / f"{i}.png")
    return Part(folder, [ImageFile(f"{i}.png") for i in range(n)])


def mapped(part: Part, cache: Path) -> tuple[torch.Tensor, Facts]:
    return read_images({"train": part}, 4, cache)["train"]


def test_unreadable_files_leave_no_gap_in_any_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive.dataset.folder.pixels.CHUNK", 2)
    part = numbered(tmp_path / "images", 6)
    (part.folder / "2.png").write_bytes(b"no image")
    for _ in range(2):  # decoded, then mapped
        image, facts = mapped(part, tmp_path / "cache")
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
    part = numbered(tmp_path / "images", 3)
    with monkeypatch.context() as patch:
        patch.setattr(function, Mock(side_effect=error))
        with pytest.raises((KeyboardInterrupt, OSError)):
            mapped(part, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.part"))
    assert mapped(part, tmp_path / "cache")[0][:, 0, 0, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("suffix", ["images", "json"])
@pytest.mark.parametrize("content", [None, b"", b'{"mean": "x", "faults": {}}'])
def test_a_cache_that_is_not_whole_is_made_again(tmp_path, suffix, content):
    part = numbered(tmp_path / "images", 3)
    image, facts = mapped(part, tmp_path / "cache")
    (path,) = (tmp_path / "cache").glob(f"*.{suffix}")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    again = mapped(part, tmp_path / "cache")
    assert again[1] == facts and torch.equal(again[0], image)


def test_a_disk_too_small_is_refused_before_decoding(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=100))
    with pytest.raises(ConfigError, match=r"try dataset\.cache=PATH on a larger disk"):
        mapped(numbered(tmp_path / "images", 3), tmp_path / "cache")


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
