"""The second batch: what it draws, which terms read it, and that every promise of a run holds with it."""

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.make import make
from contrastive.seeding import generator
from contrastive.training.loader import Loader
from contrastive.training.objective import Embedded, Objective
from contrastive.training.step import TrainStep
from contrastive.types import Shard
from tests.helpers import TWO_STREAMS
from tests.training.test_loader import split


def ids(images: torch.Tensor) -> list[int]:
    return [int(i) for i in images[:, 0, 0, 0]]


def test_second_batches_shuffle_the_data_once_an_epoch():
    loader = Loader(split(), batch_size=60, seed=0, sampler="bias_balanced", second_batch_size=20)
    epoch = list(loader.epoch(0))
    assert len(loader) == len(epoch) == 5
    assert loader.views_per_step(n_views=2) == 140
    assert all(len(batch.image) == 60 for batch in epoch)  # more than one order of 100 images
    drawn = [ids(batch.second.image) for batch in epoch]
    assert sorted(i for batch in drawn for i in batch) == list(range(100))
    assert drawn == [ids(batch.second.image) for batch in loader.epoch(0)]
    assert drawn != [ids(batch.second.image) for batch in loader.epoch(1)]
    assert epoch[0].second.label.tolist() == [i % 4 for i in drawn[0]]


def test_main_batches_are_those_without_a_second_batch():
    alone, both = (Loader(split(), batch_size=25, seed=0, second_batch_size=n) for n in (0, 10))
    assert len(both) == 10
    main = [ids(batch.image) for batch in both.epoch(3)]
    assert main[:4] == [ids(batch.image) for batch in alone.epoch(3)]
    assert sorted(i for batch in main[4:8] for i in batch) == list(range(100))  # the second order
    assert all(batch.second is None for batch in alone.epoch(3))


def test_a_second_batch_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match=r"try regularizer\.batch_size=30"):
        Loader(split(), batch_size=20, seed=0, second_batch_size=31, shard=Shard(0, 2))
    term = make("regularizer/cross_entropy", stream="uniform", term=make("loss/nt_xent"))
    with pytest.raises(ConfigError, match=r"try regularizer\.stream=main"):  # it compares views
        term.check_batch(batch_size=64, n_views=2, has_label=True, has_bias=True)


def embedded(n: int, views: int, seed: int) -> Embedded:
    rng = torch.Generator().manual_seed(seed)
    outputs = {name: torch.randn(n, views, 6, generator=rng) for name in ("features", "projections")}
    return Embedded(outputs, torch.arange(n) % 4, torch.arange(n) // 2 % 2)


def test_each_term_reads_its_batch():
    torch.manual_seed(0)
    loss, ce = make("loss/bias_contrastive"), make("regularizer/cross_entropy", weight=0.5, stream="uniform")
    objective = Objective(loss, ce, train=split(), n_classes=4, feature_dim=6, projection_dim=6)
    main, uniform = embedded(8, 2, seed=0), embedded(12, 1, seed=1)
    contrastive = make("loss/bias_contrastive")(main.outputs["projections"], main.label, main.bias)
    logits = objective.classifier(uniform.outputs["features"]).squeeze(1)
    expected = contrastive + 0.5 * torch.nn.functional.cross_entropy(logits, uniform.label)
    torch.testing.assert_close(objective(main, uniform), expected)
    metrics = objective.diagnostics(main, uniform)
    torch.testing.assert_close(metrics["terms/BiasContrastive"], contrastive)
    torch.testing.assert_close(metrics["terms/CrossEntropy"], expected.detach() - contrastive)
    assert objective.required_outputs("main") == ("projections",)
    assert objective.required_outputs("second") == ("features",)


def test_second_batch_is_not_augmented_nor_projected(composed, monkeypatch):
    built, forward, seen = build(composed(*TWO_STREAMS, "head=mlp")), TrainStep.forward, []
    batch = next(built.loader.epoch(0))
    monkeypatch.setattr(TrainStep, "forward", lambda self, *reads: seen.append(reads) or forward(self, *reads))
    built.step(batch, generator("cpu", 0))
    (uniform, uniform_reads), (main, main_reads) = seen
    torch.testing.assert_close(uniform, batch.second.image[None] / 255)
    assert uniform_reads == ("features",)
    assert main_reads == ("features", "projections")
    assert main.shape[:2] == (2, 64)
