"""The second batch: what it draws, which terms read it, and that every promise of a run holds with it."""

import functools
import shutil

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.dry_run import estimate
from contrastive.experiment.make import make
from contrastive.experiment.run import run_experiment
from contrastive.seeding import generator
from contrastive.training.loader import Loader
from contrastive.training.objective import Embedded, Objective
from contrastive.training.step import TrainStep
from contrastive.types import Shard, Split
from tests.helpers import logged_lines, saved_weights, without_time

SMALL = [
    "dataset=biased_digits", "dataset.rho=0.9", "dataset.size=8", "encoder.width=2", "encoder.kernel_size=3",
    "precision=fp32", "device=cpu", "epochs=2", "log_every=2", "batch_size=64", "n_views=2",
    "augmentation=rotation_jitter", "evaluator=[classifier]",
]  # fmt: skip
TWO_STREAMS = [
    "experiment=bc_bb", *SMALL, "regularizer.batch_size=256",
]  # fmt: skip


def split(n: int = 100) -> Split:
    image = torch.arange(n, dtype=torch.uint8)[:, None, None, None].expand(n, 3, 8, 8).contiguous()
    return Split(image, torch.arange(n) % 4, torch.where(torch.arange(n) < n // 10, 1, 0))


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


def test_shards_of_the_second_batch_are_the_batch():
    whole = next(Loader(split(), batch_size=20, seed=0, second_batch_size=30).epoch(0)).second.image
    parts = [
        next(Loader(split(), batch_size=20, seed=0, second_batch_size=30, shard=Shard(rank, 2)).epoch(0)).second.image
        for rank in (0, 1)
    ]
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"second_batch_size": 200}, "try regularizer.batch_size=100"),
        ({"second_batch_size": 31, "shard": Shard(0, 2)}, "try regularizer.batch_size=30"),
    ],
)
def test_second_batch_of_the_wrong_size_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Loader(split(), **{"batch_size": 20, "seed": 0, **arguments})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"stream": "other"}, "try regularizer.stream=main"),
        ({"stream": "main", "batch_size": 64}, "try regularizer.stream=uniform"),
        ({"stream": "uniform", "batch_size": 1}, "try regularizer.batch_size=128"),
    ],
)
def test_wrong_stream_is_refused(overrides, message):
    with pytest.raises(ConfigError, match=message):
        make("regularizer/cross_entropy", **overrides)


def test_a_term_that_compares_views_needs_the_main_batch():
    term = make("regularizer/cross_entropy", stream="uniform", term=make("loss/nt_xent"))
    with pytest.raises(ConfigError, match=r"try regularizer\.stream=main"):
        term.check_batch(batch_size=64, n_views=2, has_label=True, has_bias=True)


def embedded(n: int, views: int, seed: int) -> Embedded:
    rng = torch.Generator().manual_seed(seed)
    outputs = {name: torch.randn(n, views, 6, generator=rng) for name in ("features", "projections")}
    return Embedded(outputs, torch.arange(n) % 4, torch.arange(n) // 2 % 2)


def two_streams(batch_size: int | None = None) -> Objective:
    torch.manual_seed(0)
    ce = make("regularizer/cross_entropy", weight=0.5, stream="uniform", batch_size=batch_size)
    dims = {"n_classes": 4, "feature_dim": 6, "projection_dim": 6}
    return Objective(make("loss/bias_contrastive"), ce, train=split(), **dims)


def test_each_term_reads_its_batch():
    objective, main, uniform = two_streams(), embedded(8, 2, seed=0), embedded(12, 1, seed=1)
    contrastive = make("loss/bias_contrastive")(main.outputs["projections"], main.label, main.bias)
    logits = objective.classifier(uniform.outputs["features"]).squeeze(1)
    expected = contrastive + 0.5 * torch.nn.functional.cross_entropy(logits, uniform.label)
    torch.testing.assert_close(objective(main, uniform), expected)
    metrics = objective.diagnostics(main, uniform)
    torch.testing.assert_close(metrics["terms/BiasContrastive"], contrastive)
    torch.testing.assert_close(metrics["terms/CrossEntropy"], expected.detach() - contrastive)
    assert objective.required_outputs("main") == ("projections",)
    assert objective.required_outputs("second") == ("features",)


def test_second_batch_size_defaults_to_batch_size():
    assert two_streams().second_batch_size(64) == 64
    assert two_streams(128).second_batch_size(64) == 128
    plain = Objective(make("loss/nt_xent"), train=split(), n_classes=4, feature_dim=6, projection_dim=6)
    assert plain.second_batch_size(64) == 0


def test_second_batch_is_not_augmented_nor_projected(composed, monkeypatch):
    built = build(composed(*TWO_STREAMS, "head=mlp"))
    batch, seen = next(built.loader.epoch(0)), []
    monkeypatch.setattr(
        TrainStep, "forward", lambda self, views, reads: seen.append((views, reads)) or forward(self, views, reads)
    )
    built.step(batch, generator("cpu", 0))
    (uniform, uniform_reads), (main, main_reads) = seen
    torch.testing.assert_close(uniform, batch.second.image[None] / 255)
    assert uniform_reads == ("features",)
    assert main_reads == ("features", "projections")
    assert main.shape[:2] == (2, 64)


forward = TrainStep.forward


def gradients(settings, *, norm: bool = True) -> list[torch.Tensor]:
    """Of one step in float64."""
    built = build(settings)
    step, normalize = built.step, built.step.normalize
    for module in (step.encoder, step.head, step.objective):
        module.double().train(norm)
    step.normalize = lambda x: normalize(x).double()
    step(next(built.loader.epoch(0)), generator("cpu", 0))
    return [p.grad for p in step.parameters() if p.grad is not None]


def test_gradient_caching_with_two_batches(composed):
    plain = gradients(composed(*TWO_STREAMS), norm=False)
    cached = gradients(composed(*TWO_STREAMS, "grad_cache_chunk=30"), norm=False)
    torch.testing.assert_close(cached, plain, rtol=1e-7, atol=1e-10)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler on a CPU")
def test_compiled_step_with_two_batches(composed, monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    words = [*TWO_STREAMS, "augmentation.ops.jitter=null"]
    torch.testing.assert_close(
        gradients(composed(*words, "compile=true")), gradients(composed(*words)), rtol=1e-6, atol=1e-9
    )


def test_resume_is_bit_exact_with_two_batches(composed, tmp_path, monkeypatch):
    settings, step, calls = composed(*TWO_STREAMS), TrainStep.__call__, []
    whole = run_experiment(settings, tmp_path / "whole")

    def interrupted(self, *arguments):
        calls.append(0)
        if len(calls) == 8:  # five steps an epoch
            raise KeyboardInterrupt
        return step(self, *arguments)

    monkeypatch.setattr(TrainStep, "__call__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(settings, tmp_path / "stopped")
    monkeypatch.setattr(TrainStep, "__call__", step)
    assert without_time(run_experiment(settings, tmp_path / "stopped")) == without_time(whole)
    assert logged_lines(tmp_path / "stopped") == logged_lines(tmp_path / "whole")
    expected, actual = saved_weights(tmp_path / "whole"), saved_weights(tmp_path / "stopped")
    assert all(torch.equal(actual[key], expected[key]) for key in expected)


def test_streamed_run_draws_the_same_second_batches(composed):
    resident, streamed = (build(composed(*TWO_STREAMS, f"resident={word}")).loader for word in ("true", "false"))
    for mine, theirs in zip(streamed.epoch(1), resident.epoch(1), strict=True):
        assert torch.equal(mine.second.image, theirs.second.image)
        assert torch.equal(mine.second.label, theirs.second.label)


def test_a_dry_run_counts_the_steps_of_an_epoch(composed):
    settings = composed(*TWO_STREAMS)
    assert "2 epochs of 5 steps" in estimate(build(settings))  # 1,438 images in batches of 256
