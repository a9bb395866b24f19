"""The linear probe by SGD: its steps, what it reads in which order, and that it holds no more for more images."""

import weakref
from collections.abc import Iterator
from dataclasses import replace
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from contrastive.dataset.shard.order import Order
from contrastive.evaluator import linear_sgd
from contrastive.evaluator.base import FeatureSets
from contrastive.evaluator.linear_sgd import Layers, LinearSGD
from contrastive.experiment.make import make
from contrastive.experiment.run import run_experiment
from contrastive.seeding import generator
from contrastive.training import features as extraction
from contrastive.training.features import EncodedImages, extract
from contrastive.types import Data, Features, Split
from tests.helpers import TINY, blobs, encoded, feature_sets

CROP = LinearSGD().augmentation


class Given:
    """Stands for `Images`, with features that are given: batches of `train` in the order that they have."""

    def __init__(self, train: Features, val: Features) -> None:
        self.all, self.held, self.asked = train, val, []

    def rows(self, split: str) -> tuple[None, torch.Tensor]:
        return None, self.all.label

    def stream(self, batch_size: int, n_batches: int, augmentation: object) -> Iterator[Features]:
        self.asked.append((batch_size, n_batches, augmentation))
        for i in range(n_batches):
            start = i % (len(self.all.h) // batch_size) * batch_size
            yield self.all[torch.arange(start, start + batch_size)]

    def stream_val(self) -> Iterator[Features]:
        return (self.held[rows] for rows in torch.arange(len(self.held.h)).split(7))


def given(noise: float = 1.0) -> FeatureSets:
    train, val, test = (blobs(n, seed, noise) for seed, n in enumerate((64, 20, 40)))
    return replace(feature_sets(train, val, test), images=Given(train, val))


def by_hand(sets: FeatureSets, lr: float, *, steps: int, size: int, decay: float = 0.0) -> tuple[list, list]:
    """Scores of val and test: cross-entropy's gradient and SGD with momentum 0.9, written out in float64."""
    train, seen = sets.images.all, torch.zeros(0, 8, dtype=torch.float64)
    weight, speed = torch.zeros(4, 9, dtype=torch.float64), torch.zeros(4, 9, dtype=torch.float64)
    for t in range(steps):
        rows = (torch.arange(size) + t * size) % (len(train.h) // size * size)
        h = train.h[rows].double()
        seen = torch.cat([seen, h])
        x = F.pad((h - seen.mean(0)) / seen.std(0, correction=0), (0, 1), value=1.0)
        error = (x @ weight.T).softmax(1) - F.one_hot(train.label[rows], 4)
        speed = 0.9 * speed + error.T @ x / size + decay * weight
        weight = weight - lr * (1 + torch.cos(torch.tensor(torch.pi * t / steps))) / 2 * speed
    standardized = [(h.double() - seen.mean(0)) / seen.std(0, correction=0) for h in (sets.val.h, sets.test.h)]
    return [F.pad(x, (0, 1), value=1.0) @ weight.T for x in standardized]


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_the_steps_are_those_by_hand(decay):
    sets, rates, made = given(1.5), (1e-3, 3.0), []
    with mock.patch.object(linear_sgd, "Layers", lambda *a, **k: made.append(Layers(*a, **k)) or made[0]):
        found = LinearSGD(lr=rates[::-1], weight_decay=decay, epochs=2.0, batch_size=16)(sets)
    assert sets.images.asked == [(16, 8, CROP)]
    scores = [by_hand(sets, lr, steps=8, size=16, decay=decay) for lr in rates]
    for mine, (_, expected) in zip(made[0].scores(sets.test.h), scores, strict=True):
        torch.testing.assert_close(mine.double(), expected, rtol=1e-4, atol=1e-5)
    right = [(val.argmax(1) == sets.val.label).double().mean().item() for val, _ in scores]
    assert right[0] != right[1]
    assert found.val["top1"] == pytest.approx(100 * max(right))
    assert torch.equal(found.predictions[""], scores[right.index(max(right))][1].argmax(1))


def test_a_fraction_of_an_epoch_and_few_images():
    sets = given()
    for epochs, size, asked in ((0.5, 16, (16, 2)), (0.01, 16, (16, 1)), (3.0, 512, (64, 3))):
        LinearSGD(epochs=epochs, batch_size=size, augment=False)(sets)
        assert sets.images.asked[-1] == (*asked, None)


def normalize(x: torch.Tensor) -> torch.Tensor:
    return x.float() / 255 if x.dtype == torch.uint8 else x


def images(n: int, *, own_val: bool = False) -> Data:
    """n labeled training images among as many without a label, a fifth of them for validation."""
    image = torch.randint(0, 256, (2 * n, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(n))
    label = torch.where(torch.arange(2 * n) % 2 == 0, torch.arange(2 * n) // 2 % 3, -1)
    pretrain, labeled = Split(image, label), torch.arange(0, 2 * n, 2)
    held = torch.arange(n) % 5 == 0
    return Data(
        pretrain=pretrain,
        probe_train=labeled[~held],
        probe_val_index=None if own_val else labeled[held],
        probe_val_split=pretrain[labeled[held]] if own_val else None,
        test=pretrain[labeled[:6]],
        classes=("a", "b", "c"),
        mean=(0.0,) * 3,
        std=(1.0,) * 3,
    )


def stream(data: Data, seed: int = 5) -> EncodedImages:
    torch.manual_seed(0)
    return encoded(make("encoder/resnet18", width=2).train(), data, normalize, seed=seed)


def test_batches_follow_the_keyed_order_of_each_epoch():
    data = images(30)  # 24 of them to train on
    source = stream(data)
    h = extract(source.encoder, data.pretrain, normalize).h
    found = list(source.stream(7, 8, None))
    for i, batch in enumerate(found):
        epoch, k = divmod(i, 3)
        order = Order(24, 5, "probe order", epoch)
        rows = data.probe_train[order.rows(7 * k, 7 * k + 7)]
        torch.testing.assert_close(batch.h, h[rows])
        assert torch.equal(batch.label, data.pretrain.label[rows]) and (batch.label >= 0).all()
    again = list(source.stream(7, 8, None))
    assert all(torch.equal(mine.h, theirs.h) for mine, theirs in zip(again, found, strict=True))
    assert not torch.allclose(next(stream(data, seed=6).stream(7, 8, None)).h, found[0].h)
    assert source.encoder.training  # as it was


def test_views_depend_on_the_seed_and_the_number_of_the_batch():
    data, source = images(30), stream(images(30))
    found = list(source.stream(7, 2, CROP))
    for i, batch in enumerate(found):
        rows = data.probe_train[Order(24, 5, "probe order", 0).rows(7 * i, 7 * i + 7)]
        drawn = CROP.draw(7, 8, 8, generator("cpu", 5, "probe views", i))
        expected = source.encoder.eval()(CROP.apply(data.pretrain.image[rows], drawn))
        torch.testing.assert_close(batch.h, expected)
    assert not torch.allclose(found[0].h, next(source.stream(7, 2, None)).h)


@pytest.mark.parametrize("own_val", [False, True])
def test_validation_images_come_once_each(own_val, monkeypatch):
    monkeypatch.setattr(extraction, "CHUNK", 4)
    data = images(30, own_val=own_val)
    source = stream(data)
    parts = list(source.stream_val())
    assert [len(part.label) for part in parts] == [4, 2]
    torch.testing.assert_close(
        torch.cat([part.h for part in parts]), extract(source.encoder, data.probe_val, normalize).h
    )
    assert torch.equal(torch.cat([part.label for part in parts]), data.probe_val.label)


def memory(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr()


class Peak(TorchDispatchMode):
    """The most bytes that tensors made within held at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        out = function(*arguments, **(options or {}))
        given = {memory(x) for x in tree_leaves((arguments, options)) if isinstance(x, torch.Tensor)}
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and memory(x) not in given:  # no view, and not in place
                self._count(x.nbytes)
                weakref.finalize(x, self._count, -x.nbytes)
        return out

    def _count(self, n: int) -> None:
        self.now += n
        self.peak = max(self.peak, self.now)


@pytest.mark.parametrize("augment", [False, True])
def test_no_more_is_held_for_more_images(augment, monkeypatch):
    monkeypatch.setattr(extraction, "CHUNK", 10)
    net, peaks = nn.Sequential(nn.Flatten(), nn.Linear(192, 64)), []
    for n in (100, 100, 1000):  # the first call makes what torch keeps
        data = images(n)
        sets = feature_sets(*(Features(torch.zeros(6, 64), torch.zeros(6).long()),) * 3)
        with Peak() as held:
            LinearSGD(epochs=1.0, batch_size=20, augment=augment)(
                replace(sets, n_classes=3, images=encoded(net, data, normalize))
            )
        peaks.append(held.peak)
    assert peaks[2] == peaks[1] > 20 * 64 * 4


@pytest.mark.slow
def test_no_features_of_training_images_are_extracted_for_it_alone(composed, tmp_path):
    words = ["epochs=1", "evaluator=[linear_sgd,rankme]", "evaluator.linear_sgd.epochs=0.5"]
    with mock.patch.object(extraction, "extract", side_effect=extract) as extracted:
        result = run_experiment(composed(*TINY[:2], *TINY[3:4], *TINY[-2:], *words), tmp_path)
    assert [len(call.args[1]) for call in extracted.call_args_list] == [359, 359]  # the test split, before and after
    assert set(result["test"]) == {"linear_sgd_top1", "linear_sgd_top5", "rankme"}
    assert set(result["val"]) == {"linear_sgd_top1"} and list(result["untrained"]) == ["rankme"]
    assert "SGD" in result["protocol"]["linear_sgd"]
