"""Views of whole images, `dataset.frame`: the boxes, the pixels, what a batch holds, and runs."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as tv
from PIL import Image
from torch import Tensor

from contrastive.augmentation.base import Augmentation
from contrastive.augmentation.compose import Compose
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.augmentation.flip import HorizontalFlip
from contrastive.dataset.splits import judged_on_training
from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.components import build_augmentation
from contrastive.seeding import generator
from contrastive.training.loader import Loader
from contrastive.types import Data
from tests.dataset.data import RECIPE, encoded, load_shards, ran, write_tar
from tests.helpers import logged_lines

FRAME = 40
SIZES = [(30, 40), (40, 30), (25, 17), (40, 40), (1, 40), (40, 1), (1, 1), (8, 39)]  # height, width


def smooth(height: int, width: int, seed: int) -> np.ndarray:
    """Pixels (height, width, 3) that a JPEG keeps nearly as they are."""
    coarse = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8))
    return np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))


def write_shards(folder: Path, *, n: int, kind: str = "png") -> Path:
    """Images of the sizes above, of which each third is twice as large, in two classes."""
    for start in range(0, n, 20):
        files = {}
        for row in range(start, min(n, start + 20)):
            height, width = (side * (1 + (row % 3 == 2)) for side in SIZES[row % 8])
            files |= {f"{row:05}.png": encoded(smooth(height, width, row), kind), f"{row:05}.cls": b"%d" % (row % 2)}
        write_tar(folder / f"{start // 20:03}.tar", files)
    return folder


def load(folder: Path, **options) -> Data:
    return load_shards(folder, **{"size": 12, "frame": FRAME, **options})


def framed(pictures: list[Tensor], outside: int = 0) -> tuple[Tensor, Tensor]:
    """The pictures (3, h, w) in frames, and their extents."""
    out = torch.full((len(pictures), 3, FRAME, FRAME), outside, dtype=torch.uint8)
    for place, picture in zip(out, pictures, strict=True):
        place[:, : picture.shape[1], : picture.shape[2]] = picture
    return out, torch.tensor([picture.shape[1:] for picture in pictures])


@pytest.fixture
def pictures() -> list[Tensor]:
    return [torch.from_numpy(smooth(*size, i).copy()).movedim(2, 0) for i, size in enumerate(SIZES * 16)]


@pytest.mark.parametrize("options", [{}, {"scale": (0.99, 1.0), "ratio": (0.8, 1.1)}], ids=str)
def test_the_box_of_an_image_is_that_of_a_batch_of_its_size(options):
    """For these `test_boxes_follow_torchvisions_distribution` holds."""
    crop, extent = RandomResizedCrop(size=16, **options), torch.tensor(SIZES * 50)
    drawn = crop.draw(len(extent), extent[:, 0], extent[:, 1], generator("cpu", 3))
    for i, size in enumerate(SIZES):
        alike = crop.draw(len(extent), *size, generator("cpu", 3))
        for key, value in drawn.items():
            assert torch.equal(value[i::8], alike[key][i::8]), (size, key)
    assert (drawn["top"] + drawn["height"] <= extent[:, 0]).all() and (drawn["top"] >= 0).all()
    assert (drawn["left"] + drawn["width"] <= extent[:, 1]).all() and (drawn["left"] >= 0).all()
    assert (drawn["height"] >= 1).all() and (drawn["width"] >= 1).all()


@pytest.mark.parametrize("size", [6, 16, 50])
@pytest.mark.parametrize("outside", [0, 255])
def test_views_equal_torchvisions_of_the_image_alone(pictures, size, outside):
    """Nothing of what is beside an image enters, and at its border the filter is renormalized, as in torchvision."""
    crop, (x, extent) = RandomResizedCrop(size=size), framed(pictures, outside)
    p = crop.draw(len(x), extent[:, 0], extent[:, 1], generator("cpu", 1))
    edge = slice(len(x) // 2, None)  # boxes that end where the image ends
    p["top"][edge], p["left"][edge] = (extent[edge] - torch.stack([p["height"], p["width"]], 1)[edge]).T.float()
    views = crop.apply(x.float() / 255, p)
    for i, picture in enumerate(pictures):
        box = [int(p[key][i]) for key in ("top", "left", "height", "width")]
        expected = tv.resized_crop(picture.float() / 255, *box, [size, size], antialias=True)
        expected = expected.flip(-1) if p["flip"][i] else expected
        torch.testing.assert_close(views[i], expected, rtol=0, atol=1e-5)
        pillow = tv.resized_crop(tv.to_pil_image(picture), *box, [size, size])  # rounds rows, then columns
        pillow = tv.pil_to_tensor(pillow).flip(-1) if p["flip"][i] else tv.pil_to_tensor(pillow)
        assert (255 * views[i] - pillow).abs().max() < 1.5


def test_a_frame_holds_the_whole_image_shrunk_if_it_is_longer(tmp_path):
    tars = write_shards(tmp_path / "tars", n=48)
    test = str(shutil.copy(tars / "000.tar", tmp_path / "test.tar"))
    data = load(tars, test=test)
    rows = torch.arange(48)
    part, extent = data.pretrain.for_views(rows)
    assert torch.equal(part.label, rows % 2) and part.image.shape == (48, 3, FRAME, FRAME)
    for row in range(48):
        height, width = (side * (1 + (row % 3 == 2)) for side in SIZES[row % 8])
        picture = Image.fromarray(smooth(height, width, row))
        if (longer := max(height, width)) > FRAME:
            shorter = max(1, round(min(height, width) * FRAME / longer))
            size = (FRAME, shorter) if width >= height else (shorter, FRAME)
            picture = picture.resize(size if height != width else (FRAME, FRAME), Image.Resampling.BILINEAR)
        expected, size = framed([tv.pil_to_tensor(picture)])
        assert torch.equal(extent[row], size[0]) and torch.equal(part.image[row], expected[0])
    assert (extent == 1).any() and (extent == FRAME).any()
    plain = load(tars, frame=None, test=test)
    assert plain.digest == data.digest and plain.pretrain.for_views(rows)[1] is None
    for mine, theirs in ((data.pretrain, plain.pretrain), (data.test, plain.test)):  # what evaluation reads
        some = torch.arange(len(mine))
        assert torch.equal(mine.image[some], theirs.image[some])
    assert data.test.frame is None
    with pytest.raises(ConfigError, match=r"dataset\.frame must be at least 12, got 8: try dataset\.frame=512"):
        load(tars, frame=8)


def test_parts_of_the_training_images_keep_the_frame(tmp_path):
    folder = write_shards(tmp_path / "tars", n=60)
    for data in (load(folder, hold_out=True), load(folder, labeled=20), judged_on_training(load(folder), 0)):
        part, extent = data.pretrain.for_views(torch.tensor([3, 1]))
        assert part.image.shape[-1] == FRAME and extent.shape == (2, 2)


def test_main_batches_are_whole_and_second_ones_cropped(tmp_path):
    split = load(write_shards(tmp_path / "tars", n=60)).pretrain
    options = {"batch_size": 10, "seed": 0, "second_batch_size": 6, "device": torch.device("cpu")}
    loader = Loader(split, **options, streaming=True)
    whole = list(loader.epoch(0))
    for batch in whole:
        part, extent = split.for_views(batch.index)
        assert torch.equal(batch.image, part.image) and torch.equal(batch.extent, extent)
        assert torch.equal(batch.second.image, split.image[batch.second.index])
    for mine, theirs in zip(loader.epoch(0, start=2), whole[2:], strict=True):  # of a run that goes on
        assert torch.equal(mine.image, theirs.image) and torch.equal(mine.extent, theirs.extent)
    cropped = Loader(replace(split, frame=None), **options)
    for mine, theirs in zip(cropped.epoch(0), Loader(split, **options).epoch(0), strict=True):
        assert torch.equal(mine.index, theirs.index) and mine.extent is None


def test_what_frames_cannot_go_with_is_refused_before_any_data(composed):
    settings = composed("dataset=shards", "dataset.root=nowhere", "dataset.size=12", "dataset.frame=40")
    with pytest.raises(ConfigError, match=r"try resident=auto, or dataset\.frame=null"):
        build(replace(settings, resident=True))
    crop, flip = ({"_target_": f"{kind.__module__}.{kind.__name__}"} for kind in (RandomResizedCrop, HorizontalFlip))

    def built(ops: dict, **changed) -> Augmentation:
        node = {"_target_": f"{Compose.__module__}.Compose", "ops": ops}
        return build_augmentation(replace(settings, augmentation=node, **changed))

    for ops, changed, said in [
        ({"flip": flip, "crop": crop}, {}, "needs a RandomResizedCrop first"),
        ({"crop": crop}, {"noise_frac": 0.1}, "try noise_frac=0"),
        ({"crop": crop}, {"blur_frac": 0.1}, "try blur_frac=0"),
    ]:
        with pytest.raises(ConfigError, match=said):
            built(ops, **changed)
    assert built({"a": crop, "b": flip}) == Compose(ops={"a": RandomResizedCrop(size=12), "b": HorizontalFlip()})
    assert built({"a": crop | {"size": 8}}) == Compose(ops={"a": RandomResizedCrop(size=8)})


@pytest.mark.slow
def test_two_processes_see_the_views_of_one(tmp_path):
    root = write_shards(tmp_path / "tars", n=140, kind="jpeg")
    data = ["dataset=shards", f"dataset.root={root}", "dataset.size=12", f"dataset.frame={FRAME}", "batch_size=12"]
    for n in (1, 2):
        ran(*RECIPE, *data, "epochs=1", f"devices={n}", f"hydra.run.dir={tmp_path}/{n}", cwd=tmp_path)
    key = "train/loss"
    one, two = ([line[key] for line in logged_lines(tmp_path / n) if key in line] for n in "12")
    assert len(one) == 112 // 12 and two == pytest.approx(one, rel=1e-3)
