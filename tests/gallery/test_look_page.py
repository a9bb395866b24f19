"""The page of `contrastive look -o`: the data as a run reads it, and the views as its augmentation makes them."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from contrastive.augmentation.compose import Compose
from contrastive.augmentation.jitter import ColorJitter
from contrastive.cli.look import main
from contrastive.dataset.image_folder import listed_images
from contrastive.dataset.shard.pack import pack
from contrastive.experiment.components import build_augmentation, load_data
from contrastive.gallery.images import as_uri, spaced
from contrastive.gallery.look import class_images, look_page, mean_image, views
from contrastive.seeding import generator
from contrastive.types import Split, as_float
from tests.gallery.pages import loads_nothing, text_of
from tests.helpers import compose_settings, write_image_folder


def pixels(uri: str) -> Tensor:
    """(3, H, W) in [0, 255] of a PNG."""
    kind, _, packed = uri.partition(",")
    assert kind == "data:image/png;base64"
    return torch.from_numpy(np.array(Image.open(io.BytesIO(base64.b64decode(packed))))).permute(2, 0, 1).float()


def test_small_images_keep_every_pixel_and_large_ones_are_reduced() -> None:
    image = torch.randint(256, (3, 8, 8), dtype=torch.uint8)
    assert torch.equal(pixels(as_uri(image)), image.float())
    large = base64.b64decode(as_uri(torch.zeros(3, 300, 150, dtype=torch.uint8), 96).partition(",")[2])
    assert Image.open(io.BytesIO(large)).size == (48, 96)
    gray = pixels(as_uri(torch.tensor([[[0, 30_000, 60_000]]], dtype=torch.uint16)))
    assert gray[0].tolist() == gray[2].tolist() == [[0.0, 127.0, 255.0]]


def test_views_of_gray_images_show_brightness() -> None:
    ramp = torch.linspace(0, 32_768, 64).to(torch.uint16).reshape(1, 1, 8, 8).expand(8, -1, -1, -1)
    jitter = ColorJitter(brightness=0.8, contrast=0.0, saturation=0.0, hue=0.0, p=1.0)
    augmentation = Compose(ops={"jitter": jitter})
    drawn = augmentation.draw(64, 8, 8, generator("cpu", 0, "augmentation", 0))
    expected = augmentation.apply(ramp.repeat(8, 1, 1, 1), drawn) / as_float(ramp).max()
    for i, row in enumerate(views(Split(ramp, torch.zeros(8, dtype=torch.long)), augmentation, 0)):
        for v, uri in enumerate(row[1:]):
            assert (pixels(uri) - 255 * expected[8 * v + i].clamp(0, 1)).abs().max() <= 1


def test_images_of_a_class_have_one_black_and_one_white() -> None:
    image = torch.tensor([[0, 100], [100, 200]], dtype=torch.uint8).reshape(2, 1, 1, 2)
    ((_, n, images),) = class_images(Split(image, torch.zeros(2, dtype=torch.long)), ("a",))
    assert n == 2 and [pixels(uri)[0, 0].tolist() for uri in images] == [[0.0, 127.0], [127.0, 255.0]]


def test_views_are_what_the_augmentation_makes_of_the_images() -> None:
    settings = compose_settings("dataset=digits", "dataset.size=8", "seed=3")
    data, augmentation = load_data(settings.dataset)[0], build_augmentation(settings)
    shown = views(data.pretrain, augmentation, settings.seed)
    assert [len(row) for row in shown] == [9] * 8
    rows = torch.tensor([round(i * (len(data.pretrain) - 1) / 7) for i in range(8)])
    image = data.pretrain.image[rows]
    parameters = augmentation.draw(64, 8, 8, generator("cpu", 3, "augmentation", 0))
    expected = augmentation.apply(image.repeat(8, 1, 1, 1), parameters)
    for i, row in enumerate(shown):
        assert torch.equal(pixels(row[0]), image[i].float())
        for v, uri in enumerate(row[1:]):
            assert (pixels(uri) - 255 * expected[8 * v + i]).abs().max() <= 1
    assert (pixels(mean_image(data.pretrain)) - data.pretrain.image.float().mean(0)).abs().max() <= 1


def test_the_page_has_counts_images_and_what_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_image_folder(tmp_path / "bugs")
    (folder / "train/ant").rename(folder / "train/a<b>")
    (folder / "test/ant").rename(folder / "test/a<b>")
    (folder / "train/bee/000.png").write_bytes(b"no image")
    (folder / "train/bee/x.heic").write_bytes(b"no image")
    page = tmp_path / "look.html"
    words = [str(folder), "augmentation=none", "dataset.size=12", f"dataset.cache={tmp_path}", "-o", str(page)]
    assert main(words) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-3] == f"page to look at: {page}"
    assert said[-1].startswith("python train.py dataset=image_folder") and "dataset.size=12" in said[-1]
    text, written = re.sub(r"\s+", " ", text_of(page.read_text())), page.read_text()
    assert "class train test a<b> 20 4 bee 19 4" in text
    assert "no image by its suffix" in text and "cannot be read" in text
    assert "a<b>" not in written and "a&lt;b&gt;" in written
    assert loads_nothing(written) and "<script" not in written
    assert written.count('alt="an image and its views"') == 8 * 9
    assert written.count('alt="bee"') == 5


def test_groups_of_class_and_bias_are_counted() -> None:
    settings = compose_settings("dataset=biased_digits", "dataset.size=8", "augmentation=none")
    train = load_data(settings.dataset)[0].pretrain
    page = look_page(settings, "python train.py")
    n = sum(int(c) == 3 and int(b) == 3 for c, b in zip(train.label, train.bias, strict=True))
    row = re.search(r"<td>3</td>(.*?)</tr>", page.split("by class and bias")[1], re.DOTALL)
    assert row and re.findall(r"<td>(\d+)</td>", row[1])[3] == str(n) and n > 100


def test_views_of_whole_images_are_cut_out_of_these(tmp_path: Path) -> None:
    pack(listed_images(write_image_folder(tmp_path / "bugs")), tmp_path / "shards")
    settings = compose_settings(
        "dataset=shards", f"dataset.root={tmp_path}/shards", "dataset.size=8", "dataset.frame=30",
        f"dataset.cache={tmp_path}",
    )  # fmt: skip
    data, augmentation = load_data(settings.dataset)[0], build_augmentation(settings)
    shown = views(data.pretrain, augmentation, settings.seed)
    assert {tuple(pixels(uri).shape) for row in shown for uri in row} == {(3, 8, 8)}
    whole, extent = data.pretrain.for_views(torch.tensor([0]))
    assert extent is not None and whole.image.shape[-1] == 30
    height, width = torch.cat([data.pretrain.for_views(spaced(torch.arange(len(data.pretrain)), 8))[1]] * 8).unbind(1)
    drawn = augmentation.draw(64, height, width, generator("cpu", settings.seed, "augmentation", 0))
    first = {name: {key: value[:1] for key, value in own.items()} for name, own in drawn.items()}
    assert (pixels(shown[0][1]) - 255 * augmentation.apply(whole.image, first)[0]).abs().max() <= 1
