"""Every operation against torchvision, image by image: pixels, distributions, refusals; compositions and YAMLs."""

import math

import pytest
import torch
import torchvision.transforms.v2.functional as tv
from torch import Tensor
from torchvision import transforms

from contrastive.augmentation.base import Operation, Parameters
from contrastive.augmentation.blur import GaussianBlur
from contrastive.augmentation.compose import Compose, SimCLR
from contrastive.augmentation.crop import RandomCrop, RandomResizedCrop
from contrastive.augmentation.flip import HorizontalFlip
from contrastive.augmentation.grayscale import Grayscale
from contrastive.augmentation.jitter import ColorJitter
from contrastive.augmentation.rotation import RandomRotation
from contrastive.augmentation.solarize import Solarize
from contrastive.errors import ConfigError
from contrastive.experiment.components import instantiate_node
from contrastive.seeding import generator

N = 20_000  # draws of a distribution test
TOLERANCE = 4 * math.sqrt(0.25 / N)  # four standard deviations of a share


def pictures(n: int, height: int = 32, width: int = 32) -> Tensor:
    """Half noise, half smooth colors, float32 in [0, 1]; the first one is gray: no hue, no chroma."""
    rng = torch.Generator().manual_seed(0)
    noise = torch.randint(0, 256, (n, 3, height, width), generator=rng, dtype=torch.uint8)
    ramp = torch.linspace(0, 1, width) * torch.rand(n // 2, 3, 1, 1, generator=rng)
    tilt = torch.linspace(0, 1, height)[:, None] * torch.rand(n // 2, 3, 1, 1, generator=rng)
    noise[::2] = (127 * (ramp + tilt)).to(torch.uint8)
    noise[0] = 128
    return noise.float() / 255


def torchvision(operation: Operation, x: Tensor, p: Parameters) -> Tensor:
    """One image (3, H, W) transformed by torchvision's functional with the parameters of one draw."""
    size = list(operation.output_size(*x.shape[-2:]))
    match operation:
        case RandomResizedCrop():
            box = [int(p[key]) for key in ("top", "left", "height", "width")]
            y = tv.resized_crop(x, *box, size, antialias=True)
            return tv.horizontal_flip(y) if p["flip"] else y
        case RandomCrop(padding=padding):
            y = tv.crop(tv.pad(x, [padding]), int(p["top"]), int(p["left"]), *size)
            return tv.horizontal_flip(y) if p["flip"] else y
        case HorizontalFlip():
            return tv.horizontal_flip(x) if p["applied"] else x
        case ColorJitter():
            for kind in p["order"].tolist():
                name = ("brightness", "contrast", "saturation", "hue")[kind]
                x = getattr(tv, f"adjust_{name}")(x, float(p[name]))
            return x
        case Grayscale():
            return tv.rgb_to_grayscale(x, 3) if p["applied"] else x
        case GaussianBlur(kernel_size=kernel):
            return tv.gaussian_blur(x, [kernel] * 2, [float(p["sigma"])] * 2) if p["sigma"] > 0 else x
        case Solarize(threshold=threshold):
            return tv.solarize(x, threshold) if p["applied"] else x
        case RandomRotation():
            return tv.rotate(x, float(p["angle"]))
    raise AssertionError(operation)


OPERATIONS = [
    RandomResizedCrop(),
    RandomResizedCrop(size=16),
    RandomResizedCrop(size=48, flip=0.0),
    RandomCrop(),
    RandomCrop(padding=0, size=16, flip=1.0),
    HorizontalFlip(),
    ColorJitter(),
    ColorJitter(brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2, p=1.0),
    Grayscale(p=0.5),
    GaussianBlur(kernel_size=9, sigma=(1.0, 5.0), p=1.0),
    Solarize(p=0.5),
    Solarize(p=1.0, threshold=0.0),
    RandomRotation(),
    RandomRotation(degrees=180.0),
]


@pytest.mark.parametrize(("height", "width"), [(32, 32), (20, 33)])
@pytest.mark.parametrize("operation", OPERATIONS, ids=repr)
def test_operation_equals_torchvision_with_the_same_parameters(operation, height, width):
    x = pictures(64, height, width)
    original = x.clone()
    parameters = operation.draw(64, height, width, generator("cpu", 1))
    y = operation.apply(x, parameters)
    draws = [{key: value[i] for key, value in parameters.items()} for i in range(64)]
    expected = torch.stack([torchvision(operation, image, p) for image, p in zip(x, draws, strict=True)])
    assert y.shape == (64, 3, *operation.output_size(height, width))
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-5)
    assert torch.equal(x, original), "the input was changed"


@pytest.mark.parametrize("kind", [HorizontalFlip, ColorJitter, Grayscale, GaussianBlur, Solarize])
def test_probability_zero_costs_nothing(kind):
    x = pictures(8)
    assert Compose(ops={"it": kind(p=0.0)})(x, generator("cpu", 0)) is x


def quantiles(values: Tensor) -> Tensor:
    return values.float().quantile(torch.linspace(0.05, 0.95, 10))


def test_boxes_follow_torchvisions_distribution():
    p = RandomResizedCrop().draw(N, 40, 32, generator("cpu", 0))
    torch.manual_seed(0)
    image = torch.empty(3, 40, 32)
    draws = [transforms.RandomResizedCrop.get_params(image, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(N // 2)]
    for key, expected in zip(("top", "left", "height", "width"), torch.tensor(draws).unbind(1), strict=True):
        torch.testing.assert_close(quantiles(p[key]), quantiles(expected), rtol=0, atol=1.0)
        assert p[key].mean().item() == pytest.approx(expected.float().mean().item(), abs=0.3)
    assert (p["top"] + p["height"] <= 40).all() and (p["left"] + p["width"] <= 32).all()
    assert p["flip"].float().mean() == pytest.approx(0.5, abs=TOLERANCE)


@pytest.mark.parametrize(("height", "width"), [(8, 64), (64, 8)])
def test_image_far_from_square_falls_back_to_the_central_box(height, width):
    p = RandomResizedCrop(scale=(0.99, 1.0)).draw(8, height, width, generator("cpu", 0))
    box = transforms.RandomResizedCrop.get_params(torch.empty(3, height, width), [0.99, 1.0], [3 / 4, 4 / 3])
    for key, value in zip(("top", "left", "height", "width"), box, strict=True):
        assert (p[key] == value).all()


def test_padded_crops_are_uniform_over_all_places():
    p = RandomCrop(padding=4, flip=0.25).draw(N, 32, 28, generator("cpu", 0))
    for key in ("top", "left"):
        counts = torch.bincount(p[key], minlength=9)
        assert len(counts) == 9
        torch.testing.assert_close(counts / N, torch.full((9,), 1 / 9), rtol=0, atol=TOLERANCE)
    assert p["flip"].float().mean() == pytest.approx(0.25, abs=TOLERANCE)
    assert RandomCrop(size=24, padding=0).draw(N, 32, 28, generator("cpu", 0))["top"].max() == 8


def test_jitter_follows_torchvisions_distribution():
    p = ColorJitter(p=1.0).draw(N, 32, 32, generator("cpu", 0))
    torch.manual_seed(0)
    ranges = ([0.6, 1.4], [0.6, 1.4], [0.6, 1.4], [-0.1, 0.1])
    draws = [transforms.ColorJitter.get_params(*ranges)[1:] for _ in range(N // 2)]
    keys = ("brightness", "contrast", "saturation", "hue")
    for key, expected in zip(keys, torch.tensor(draws).unbind(1), strict=True):
        torch.testing.assert_close(quantiles(p[key]), quantiles(expected), rtol=0, atol=0.02)
    orders, counts = p["order"].unique(dim=0, return_counts=True)
    assert torch.equal(orders.sort(1).values, torch.arange(4).expand(24, 4))
    torch.testing.assert_close(counts / N, torch.full((24,), 1 / 24), rtol=0, atol=TOLERANCE)
    hue = ColorJitter(p=0.8).draw(N, 32, 32, generator("cpu", 0))["hue"]
    assert (hue != 0).float().mean() == pytest.approx(0.8, abs=TOLERANCE)


def test_remaining_draws_follow_their_distributions():
    for operation in (HorizontalFlip(p=0.3), Grayscale(p=0.3), Solarize(p=0.3)):
        applied = operation.draw(N, 32, 32, generator("cpu", 0))["applied"]
        assert applied.float().mean() == pytest.approx(0.3, abs=TOLERANCE)
    sigma = GaussianBlur(sigma=(0.1, 2.0), p=0.5).draw(N, 32, 32, generator("cpu", 0))["sigma"]
    assert (sigma > 0).float().mean() == pytest.approx(0.5, abs=TOLERANCE)
    uniform = torch.linspace(0.05, 0.95, 10)
    torch.testing.assert_close(quantiles(sigma[sigma > 0]), 0.1 + 1.9 * uniform, rtol=0, atol=0.06)
    angle = RandomRotation(degrees=20.0).draw(N, 32, 32, generator("cpu", 0))["angle"]
    torch.testing.assert_close(quantiles(angle), -20 + 40 * uniform, rtol=0, atol=0.6)


EVERY = Compose(
    ops={
        "padded": RandomCrop(padding=2), "crop": RandomResizedCrop(size=12), "flip": HorizontalFlip(),
        "jitter": ColorJitter(), "grayscale": Grayscale(), "blur": GaussianBlur(), "solarize": Solarize(),
        "rotation": RandomRotation(),
    }
)  # fmt: skip


def pixels(n: int, side: int = 32) -> Tensor:
    return torch.randint(0, 256, (n, 3, side, side), generator=generator("cpu", 0), dtype=torch.uint8)


def test_operations_apply_in_the_order_of_the_list():
    invert, gray = Solarize(p=1.0, threshold=0.0), Solarize(p=1.0, threshold=0.7)
    x, rng = pixels(4), generator("cpu", 0)
    first, second = Compose(ops={"a": invert, "b": gray}), Compose(ops={"b": gray, "a": invert})
    unit = x / 255
    torch.testing.assert_close(first(x, rng), torch.where(1 - unit >= 0.7, unit, 1 - unit))
    torch.testing.assert_close(second(x, rng), 1 - torch.where(unit >= 0.7, 1 - unit, unit))
    assert first != second, "the order is part of the augmentation"


def test_size_is_passed_from_one_operation_to_the_next():
    augmentation = Compose(ops={"crop": RandomResizedCrop(size=8), "again": RandomCrop(size=16, padding=4)})
    assert augmentation.output_size(32, 32) == (16, 16)
    assert augmentation(pixels(4), generator("cpu", 0)).shape == (4, 3, 16, 16)
    too_large = Compose(ops={"crop": RandomResizedCrop(size=8), "blur": GaussianBlur(kernel_size=17)})
    for refused in (too_large.output_size, lambda h, w: too_large.draw(1, h, w, generator("cpu", 0))):
        with pytest.raises(ConfigError, match=r"views of 8 × 8 pixels: try augmentation\.ops\.blur\.kernel_size=3"):
            refused(32, 32)


def test_no_operations_leave_images_as_they_are():
    x = pixels(4)
    assert torch.equal(Compose(ops={})(x, generator("cpu", 0)), x / 255)
    assert Compose(ops={"blur": None}) == Compose(ops={})


@pytest.mark.slow
def test_traced_graph_is_whole_and_equals_eager():
    """fullgraph=True fails where torch.compile would have to leave the graph, such as for a data-dependent shape."""
    x, parameters = pixels(8, side=16), EVERY.draw(8, 16, 16, generator("cpu", 0))
    traced = torch.compile(EVERY.apply, dynamic=False, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(traced(x, parameters), EVERY.apply(x, parameters), rtol=0, atol=1e-5)


def test_yamls_are_the_published_augmentations(composed):
    def option(*words: str) -> Compose:
        return instantiate_node(composed(*words).augmentation)

    assert option("augmentation=simclr") == SimCLR()
    assert option("experiment=imagenet100") == SimCLR(size=224, strength=1.0, kernel_size=23)
    assert option("augmentation=none") == Compose(ops={})
    assert option("augmentation=padded_crop") == Compose(ops={"crop": RandomCrop(padding=4, flip=0.5)})
    ops = {"rotation": RandomRotation(degrees=20.0), "jitter": ColorJitter()}
    assert option("augmentation=rotation_jitter") == Compose(ops=ops)
    assert option("augmentation=supcon") == Compose(
        ops={"crop": RandomResizedCrop(scale=(0.2, 1.0)), "jitter": ColorJitter(), "grayscale": Grayscale(p=0.2)}
    )
    assert option("augmentation=digits") == Compose(
        ops={
            "crop": RandomResizedCrop(scale=(0.3, 1.0), flip=0.0),
            "jitter": ColorJitter(saturation=0.0, hue=0.0),
            "blur": GaussianBlur(),
        }
    )
