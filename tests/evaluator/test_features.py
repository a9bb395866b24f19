"""Features of a frozen encoder."""

import copy

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment.make import make
from contrastive.seeding import generator
from contrastive.training.features import at_once, extract
from contrastive.types import Data, Split
from contrastive.types import as_float as normalize
from tests.helpers import encoded


def split(n: int) -> Split:
    image = torch.randint(0, 256, (n, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(n))
    return Split(image, torch.arange(n) % 3)


def encoder() -> torch.nn.Module:
    torch.manual_seed(0)
    return make("encoder/resnet18", width=2).train()


def test_extraction_freezes_the_encoder_and_restores_its_mode():
    net = encoder()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    features = extract(net, split(7), normalize)
    assert features.h.shape == (7, 16)
    assert not features.h.requires_grad
    assert net.training
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    torch.testing.assert_close(features.h, net.eval()(split(7).image / 255))


def test_features_are_float32_and_of_the_arithmetic_that_is_asked_for():
    net = encoder()
    exact, near = (extract(net, split(700), normalize, dtype=dtype).h for dtype in (torch.float32, torch.bfloat16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(extract(net, split(700), normalize).h, exact)
    assert near.dtype == torch.float32 and not torch.equal(near, exact)
    assert torch.nn.functional.cosine_similarity(near, exact).mean() > 0.999


@pytest.mark.parametrize("shared", [True, False])
def test_every_set_holds_the_features_of_its_images(shared):
    images = split(12)
    pretrain = Split(images.image, torch.where(torch.arange(12) % 4 == 3, -1, images.label))  # a quarter is unlabeled
    labeled = torch.tensor([0, 1, 2, 4, 5, 6, 8, 9, 10])
    held = torch.tensor([1, 8])
    rest = torch.tensor([0, 2, 4, 5, 6, 9, 10])
    data = Data(
        pretrain=pretrain,
        probe_train=rest,
        probe_val_index=held if shared else None,
        probe_val_split=None if shared else pretrain[held],
        test=split(5),
        classes=("a", "b", "c"),
        mean=(0.0,) * 3,
        std=(1.0,) * 3,
    )
    net = encoder()
    images = encoded(net, data, normalize, seed=5)
    features = images.feature_sets()
    h = extract(net, pretrain, normalize).h
    for part, index in ((features.bank, labeled), (features.train, rest), (features.val, held)):
        torch.testing.assert_close(part.h, h[index])
        assert torch.equal(part.label, pretrain.label[index])
    torch.testing.assert_close(features.test.h, extract(net, data.test, normalize).h)
    assert features.n_classes == 3
    without = images.feature_sets(with_training=False)
    assert len(without.bank.h) == len(without.train.h) == len(without.val.h) == 0 < len(without.test.h)
    batches, augmentation = [torch.tensor([1, 0]), torch.tensor([1, 0]), torch.tensor([1])], make("augmentation/supcon")
    for name, index in (("bank", labeled), ("train", rest), ("val", held)):
        plainly, augmented = (list(images.encode(name, batches, each)) for each in (None, augmentation))
        for i, (plain, viewed, rows) in enumerate(zip(plainly, augmented, batches, strict=True)):
            torch.testing.assert_close(plain.h, h[index[rows]])
            assert torch.equal(plain.label, pretrain.label[index[rows]]) and torch.equal(viewed.label, plain.label)
            drawn = augmentation.draw(len(rows), 8, 8, generator("cpu", 5, "probe views", i))  # anew in each batch
            views = augmentation.apply(pretrain.image[index[rows]], drawn)
            torch.testing.assert_close(viewed.h, copy.deepcopy(net).eval()(views))
    assert net.training  # as it was


def test_features_that_are_not_finite_are_refused():
    net = encoder()
    net.layer4[0].conv1.weight.data[0] = torch.nan
    with pytest.raises(ConfigError, match=r"features that are not finite: try a smaller optimizer\.lr"):
        extract(net, split(7), normalize)


def test_of_large_images_fewer_go_through_the_encoder_at_once():
    sides = {side: at_once(torch.empty(0, 3, side, side)) for side in (16, 32, 64, 128, 224, 4096)}
    assert sides == {16: 500, 32: 500, 64: 500, 128: 125, 224: 40, 4096: 1}
