"""Probes that are trained by steps: by SGD, by Adam on augmented images, and along with the encoder."""

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from contrastive.errors import ConfigError
from contrastive.evaluator import linear_sgd
from contrastive.evaluator.base import FeatureSets, Scores, shuffled
from contrastive.evaluator.fine_tune import FineTune
from contrastive.evaluator.linear_sgd import Layers, LinearSGD
from contrastive.evaluator.published import AdamProbe, OnlineProbe, linear_layer
from contrastive.evaluator.transfer import Transfer
from contrastive.experiment.run import run_experiment
from contrastive.seeding import generator
from contrastive.training import features as extraction
from contrastive.training.features import extract
from contrastive.types import Features
from tests.helpers import TINY, blobs, feature_sets, logged_lines, saved_weights


@dataclass
class Given:
    """Stands for `Images`, with features that are given; an augmentation is a function of them."""

    sets: dict[str, Features]
    augmentation: Callable[[torch.Tensor], torch.Tensor] = lambda h: h + 1

    def rows(self, split: str) -> tuple[None, torch.Tensor]:
        return None, self.sets[split].label

    def encode(self, split, batches, augmentation=None) -> Iterator[Features]:
        for rows in batches:
            batch = self.sets[split][rows]
            yield replace(batch, h=augmentation(batch.h)) if augmentation else batch


def given(noise: float = 1.5) -> FeatureSets:
    sets = feature_sets(*(blobs(n, seed, noise) for seed, n in enumerate((64, 20, 40))))
    return replace(sets, images=Given({"bank": sets.bank, "train": sets.train, "val": sets.val}))


def by_hand(sets: FeatureSets, lr: float, *, steps: int, size: int, decay: float = 0.0) -> tuple[list, list]:
    """Scores of val and test: cross-entropy's gradient and SGD with momentum 0.9, written out in float64."""
    train, seen = sets.train, torch.zeros(0, 8, dtype=torch.float64)
    weight, speed = torch.zeros(4, 9, dtype=torch.float64), torch.zeros(4, 9, dtype=torch.float64)
    for t, rows in enumerate(islice(shuffled(len(train.h), size), steps)):
        h = train.h[rows].double()
        seen = torch.cat([seen, h])
        x = F.pad((h - seen.mean(0)) / seen.std(0, correction=0), (0, 1), value=1.0)
        error = (x @ weight.T).softmax(1) - F.one_hot(train.label[rows], 4)
        speed = 0.9 * speed + error.T @ x / size + decay * weight
        weight = weight - lr * (1 + torch.cos(torch.tensor(torch.pi * t / steps))) / 2 * speed
    standardized = [(h.double() - seen.mean(0)) / seen.std(0, correction=0) for h in (sets.val.h, sets.test.h)]
    return [F.pad(x, (0, 1), value=1.0) @ weight.T for x in standardized]


@pytest.mark.parametrize(("epochs", "steps"), [(2.0, 8), (0.5, 2), (0.01, 1)])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_the_steps_of_sgd_are_those_by_hand(decay, epochs, steps):
    sets, rates, made = given(), (1e-3, 3.0), []
    with mock.patch.object(linear_sgd, "Layers", lambda *a, **k: made.append(Layers(*a, **k)) or made[0]):
        found = LinearSGD(lr=rates[::-1], weight_decay=decay, epochs=epochs, batch_size=16)(sets)
    scores = [by_hand(sets, lr, steps=steps, size=16, decay=decay) for lr in rates]
    for mine, (_, expected) in zip(made[0].scores(sets.test.h), scores, strict=True):
        torch.testing.assert_close(mine.double(), expected, rtol=1e-4, atol=1e-5)
    right = [(val.argmax(1) == sets.val.label).double().mean().item() for val, _ in scores]
    assert found.val["top1"] == pytest.approx(100 * max(right))
    assert torch.equal(found.predictions[""], scores[right.index(max(right))][1].argmax(1))


def test_the_adam_probe_equals_a_loop_by_hand():
    sets = given()
    layer = linear_layer(8, 4, rng=generator("cpu", "linear layer"), device=torch.device("cpu"))
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2, weight_decay=1e-3)
    for epoch in range(3):
        order = torch.randperm(84, generator=generator("cpu", "probe order", epoch))
        for index in (order[:32], order[32:64], order[64:]):
            optimizer.zero_grad()
            h = sets.bank.h[index] + 1  # augmented
            F.cross_entropy(h @ layer.weight.T + layer.bias, sets.bank.label[index]).backward()
            optimizer.step()
    expected = layer(sets.test.h).argmax(1)
    scores = AdamProbe(lr=1e-2, weight_decay=1e-3, epochs=3, batch_size=32)(sets)
    assert torch.equal(scores.predictions[""], expected)
    assert scores.test["top1"] == pytest.approx(100 * (expected == sets.test.label).double().mean().item())


@pytest.mark.parametrize("probe", [LinearSGD(batch_size=16), AdamProbe(batch_size=16, epochs=9)])
def test_no_more_is_held_for_more_images(probe):
    sets, earlier = given(), []

    def encode(split: str, batches: Iterable[torch.Tensor], augmentation: object = None) -> Iterator[Features]:
        for rows in batches:
            batch = sets.bank[rows]
            earlier.append(weakref.ref(batch.h))
            yield batch
            del batch
            assert sum(h() is not None for h in earlier) <= 2  # one of training while those of validation come

    sets.images.encode = encode
    probe(sets)
    assert len(earlier) > 20


@pytest.mark.parametrize("evaluator", [AdamProbe(), FineTune(), LinearSGD(), Transfer()])
def test_features_without_images_are_refused(evaluator):
    with pytest.raises(ConfigError, match="try evaluator=linear"):
        evaluator(replace(given(), images=None))


@pytest.mark.slow
def test_no_features_of_training_images_are_extracted_for_sgd_alone(composed, tmp_path):
    words = ["epochs=1", "evaluator=[linear_sgd,rankme]", "evaluator.linear_sgd.epochs=0.5"]
    with mock.patch.object(extraction, "extract", side_effect=extract) as extracted:
        result = run_experiment(composed(*TINY[:2], *TINY[3:4], *TINY[-2:], *words), tmp_path)
    assert [len(call.args[1]) for call in extracted.call_args_list] == [359, 359]  # the test split, before and after
    assert set(result["test"]) == {"linear_sgd_top1", "linear_sgd_top5", "rankme"}
    assert set(result["val"]) == {"linear_sgd_top1"} and list(result["untrained"]) == ["rankme"]


def test_online_probe_learns_from_normalized_view_0():
    along = OnlineProbe(lr=0.1)
    assert along(given()) == Scores()
    along.prepare(dim=8, n_classes=4, device=torch.device("cpu"), seed=3)
    layer = linear_layer(8, 4, rng=generator("cpu", 3, "trained along"), device=torch.device("cpu"))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    assert along(given()) == Scores()
    along.observe(torch.randn(4, 1, 8), torch.full((4,), -1))  # unlabeled images teach nothing
    assert torch.equal(along.linear.weight, layer.weight)
    along.prepare(dim=8, n_classes=4, device=torch.device("cpu"), seed=3)
    for seed in range(4):
        batch = blobs(20, seed)
        label = batch.label.clone()
        label[:5] = -1
        along.observe(torch.stack([7 * batch.h, torch.full_like(batch.h, float("nan"))], 1), label)
        optimizer.zero_grad()
        F.cross_entropy(layer(F.normalize(batch.h[5:], dim=1)), batch.label[5:]).backward()
        optimizer.step()
    assert torch.equal(along(given()).predictions[""], layer(F.normalize(given().test.h, dim=1)).argmax(1))


def test_the_first_of_equal_epochs_is_the_best():
    along = OnlineProbe()
    along.prepare(dim=2, n_classes=2, device=torch.device("cpu"), seed=0)
    along.optimizer.state = {"any": None}  # a step was taken
    along.linear.weight.data, along.linear.bias.data = torch.eye(2), torch.zeros(2)
    for guess in ([1, 0], [0, 0], [1, 1], [1, 0]):  # right of two: none, one, another one, none
        test = Features(torch.eye(2)[guess], torch.tensor([0, 1]))
        scores = along(FeatureSets(bank=test, train=test, val=test, test=test, n_classes=2))
    assert scores.test == {"top1": 0, "best_test_top1": 50}
    assert scores.predictions["best_test"].tolist() == [0, 0]


ALONG = [*TINY[:4], "device=cpu", "evaluator=[linear,online_probe]", "evaluator.linear.max_iter=5"]


@pytest.mark.slow
def test_an_online_probe_reports_its_last_and_its_best_epoch_and_does_not_move_the_encoder(composed, tmp_path):
    result = run_experiment(composed(*ALONG), tmp_path / "with")
    assert {"online_probe_top1", "online_probe_top5", "online_probe_best_test_top1"} <= set(result["test"])
    assert "online_probe_top1" not in result["untrained"]
    assert list(result["val"]) == ["linear_top1"]
    key = "test/online_probe_top1"
    curve = [line[key] for line in logged_lines(tmp_path / "with") if key in line]
    assert len(curve) == 3
    assert result["test"]["online_probe_best_test_top1"] == max(curve)
    run_experiment(composed(*ALONG, "evaluator=[linear]"), tmp_path / "without")
    ours, plain = (saved_weights(tmp_path / name) for name in ("with", "without"))
    assert all(torch.equal(ours[key], plain[key]) for key in plain)
