"""Composition of operations, the augmentation YAMLs, and operations added on the command line."""

import pytest
import torch
from torch import Tensor

from contrastive.augmentation.blur import GaussianBlur
from contrastive.augmentation.compose import Compose, SimCLR
from contrastive.augmentation.crop import RandomCrop, RandomResizedCrop
from contrastive.augmentation.flip import HorizontalFlip
from contrastive.augmentation.grayscale import Grayscale
from contrastive.augmentation.jitter import ColorJitter
from contrastive.augmentation.rotation import RandomRotation
from contrastive.augmentation.solarize import Solarize
from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.components import instantiate_node
from contrastive.seeding import generator
from contrastive.types import Batch, Shard
from tests.helpers import TINY

SOLARIZE = "+augmentation.ops.solarize={_target_: contrastive.augmentation.solarize.Solarize, p: 0.2, threshold: 0.5}"


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


def test_views_do_not_depend_on_the_number_of_processes(composed, monkeypatch):
    step = build(composed(*TINY, "augmentation=simclr", "n_views=3")).step
    x = pixels(6, side=8)
    label = torch.zeros(6, dtype=torch.long)
    whole = step.views(Batch(x, label), generator("cpu", 0))
    parts = []
    for rank in range(2):
        shard = Shard(rank, 2)
        monkeypatch.setattr("contrastive.training.step.shard", lambda shard=shard: shard)
        local = shard.of(6)
        parts.append(step.views(Batch(x[local], label[local]), generator("cpu", 0)))
    torch.testing.assert_close(torch.cat(parts, 1), whole)


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
    assert option("augmentation=rotation_jitter") == Compose(
        ops={"rotation": RandomRotation(degrees=20.0), "jitter": ColorJitter()}
    )
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


def test_operation_is_added_and_dropped_on_the_command_line(composed):
    cfg = composed("dataset=cifar10", SOLARIZE, "augmentation.ops.blur=null", "augmentation.ops.jitter.p=0.5")
    expected = {**SimCLR().ops, "jitter": ColorJitter(p=0.5), "solarize": Solarize(p=0.2, threshold=0.5)}
    del expected["blur"]
    assert instantiate_node(cfg.augmentation) == Compose(ops=expected)
