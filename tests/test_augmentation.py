"""The batched augmentations against torchvision's functionals, image by image."""

import math

import pytest
import torch
import torchvision.transforms.v2.functional as tv

from contrastive import make
from contrastive.errors import ConfigError
from contrastive.seeding import generator


def pictures(n: int, height: int = 32, width: int = 32) -> torch.Tensor:
    """Half noise, half smooth colors, uint8."""
    rng = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (n, 3, height, width), generator=rng, dtype=torch.uint8)
    ramp = torch.linspace(0, 1, width) * torch.rand(n // 2, 3, 1, 1, generator=rng)
    tilt = torch.linspace(0, 1, height)[:, None] * torch.rand(n // 2, 3, 1, 1, generator=rng)
    noise[::2] = (127 * (ramp + tilt)).to(torch.uint8)
    noise[0] = 128  # gray: no hue, no chroma
    return noise


def one_by_one(augmentation, x: torch.Tensor, parameters, side: tuple[int, int]) -> torch.Tensor:
    """What torchvision makes of each image with its parameters."""
    out = []
    adjust = (tv.adjust_brightness, tv.adjust_contrast, tv.adjust_saturation, tv.adjust_hue)
    for i, image in enumerate(x):
        p = {key: value[i] for key, value in parameters._asdict().items()}
        y = tv.resized_crop(
            image.float() / 255,
            int(p["top"]),
            int(p["left"]),
            int(p["height"]),
            int(p["width"]),
            list(side),
            antialias=augmentation.antialias,
        )
        y = tv.horizontal_flip(y) if p["flip"] else y
        amounts = [float(p[key]) for key in ("brightness", "contrast", "saturation", "hue")]
        for kind in p["order"].tolist():
            y = adjust[kind](y, amounts[kind])
        y = tv.rgb_to_grayscale(y, 3) if p["gray"] else y
        if p["sigma"] > 0:
            y = tv.gaussian_blur(y, [augmentation.blur_kernel] * 2, [float(p["sigma"])] * 2)
        out.append(y)
    return torch.stack(out)


@pytest.mark.parametrize(
    ("size", "antialias", "kernel", "height"),
    [(None, True, 3, 32), (16, True, 5, 32), (16, False, 3, 32), (48, True, 3, 32), (None, True, 3, 20)],
)
def test_equals_torchvision(size, antialias, kernel, height):
    augmentation = make("augmentation/simclr", size=size, antialias=antialias, blur_kernel=kernel)
    x = pictures(96, height)
    parameters = augmentation.draw(96, height, 32, generator("cpu", 1))
    expected = one_by_one(augmentation, x, parameters, (size or height, size or 32))
    got = augmentation.apply(x, parameters)
    assert got.shape == expected.shape
    assert (got - expected).abs().max() <= 1e-5  # the bound is 2/255


def test_every_image_has_its_own_parameters_and_the_generator_decides():
    augmentation = make("augmentation/simclr")
    x = pictures(2)[1:].repeat(64, 1, 1, 1)
    first, again, other = (augmentation(x, generator("cpu", seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len({image.numpy().tobytes() for image in first}) == 64


def test_the_draws_follow_their_distributions():
    augmentation = make("augmentation/simclr")
    n = 20_000
    p = augmentation.draw(n, 32, 32, generator("cpu", 0))
    area = p.height * p.width / 1024
    assert area.min() >= 0.06
    assert area.max() <= 1
    assert area.mean() == pytest.approx(0.49, abs=0.02)  # less than 0.54: large wide boxes do not fit and are redrawn
    ratio = p.width / p.height
    assert ratio.log().mean().abs() < 0.01
    assert ((p.top + p.height <= 32) & (p.left + p.width <= 32) & (p.top >= 0) & (p.left >= 0)).all()
    for flag, share in ((p.flip, 0.5), (p.gray, 0.2), (p.sigma > 0, 0.5), (p.hue != 0, 0.8)):
        assert flag.float().mean() == pytest.approx(share, abs=4 * math.sqrt(0.25 / n))
    jittered = p.brightness[p.brightness != 1]
    assert jittered.min() >= 0.6
    assert jittered.max() <= 1.4
    assert torch.equal(p.order.sort(1).values, torch.arange(4).expand(n, 4))
    assert len(p.order.unique(dim=0)) == 24


def test_a_picture_far_from_square_falls_back_to_the_central_box():
    augmentation = make("augmentation/simclr", crop_scale=[0.99, 1.0])
    p = augmentation.draw(8, 8, 64, generator("cpu", 0))
    assert (p.height == 8).all()
    assert (p.width == round(8 * 4 / 3)).all()
    assert (p.left == (64 - p.width) // 2).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"flip": 1.5},
        {"crop_scale": [0, 1]},
        {"jitter": [0.4, 0.4, 0.4, 0.6]},
        {"blur_kernel": 4},
        {"blur_sigma": [0, 1]},
        {"size": 0},
    ],
)
def test_refusals(wrong):
    with pytest.raises(ConfigError, match="try augmentation"):
        make("augmentation/simclr", **wrong)
