"""Bias labels inferred from an earlier run: the loss that weighs by its features, and what reaches a training."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import normalize

from contrastive import JTT, BiasContrastive, SoftCon
from contrastive.errors import ConfigError
from contrastive.experiment.build import build, with_bias_from
from contrastive.experiment.run import run_experiment
from contrastive.report.frame import read_frame
from contrastive.run.files import read_result
from contrastive.testing.loss import in_tiles
from contrastive.types import Split
from tests.helpers import compose_settings, run_until_step, write_finished

N, B, T = 20, 8, 0.1
COLORED = ["dataset=biased_digits", "encoder.width=2", "device=cpu", "evaluator=[linear,bias_audit]"]
COLORED += ["evaluator.linear.max_iter=5"]


def test_softcon_is_the_authors_code() -> None:
    rng = torch.Generator().manual_seed(11)
    z = torch.randn(B, 2, 5, generator=rng, dtype=torch.float64)
    features = torch.randn(N, 4, generator=rng, dtype=torch.float64).abs()
    index, label = torch.randperm(N, generator=rng)[:B], torch.arange(B) % 3
    loss = SoftCon(temperature=T)
    train = Split(torch.zeros(N, 3, 1, 1, dtype=torch.uint8), torch.zeros(N).long())
    loss.prepare(replace(train, bias_features=normalize(features, dim=1)), n_classes=3, dim=5)
    value = loss(z, label, torch.zeros(B).long(), index=index).item()
    # of grayhong/bias-contrastive-learning at 35562b6
    assert value == pytest.approx(8.815473098937048, abs=1e-9)
    assert in_tiles(loss)(z, label, torch.zeros(B).long(), index=index).item() == pytest.approx(value, abs=1e-9)


def test_softcon_of_labels_is_the_bias_contrastive_loss() -> None:
    z = torch.randn(B, 2, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    label, bias = torch.arange(B) % 2, torch.arange(B) // 2 % 2
    by_label, by_features = SoftCon(temperature=T), SoftCon(temperature=T)
    train = Split(torch.zeros(B, 3, 1, 1, dtype=torch.uint8), label, bias, torch.eye(2, dtype=torch.float64)[bias])
    by_features.prepare(train, n_classes=2, dim=5)
    expected = BiasContrastive(temperature=T)(z, label, bias)
    torch.testing.assert_close(by_label(z, label, bias), expected)
    torch.testing.assert_close(by_features(z, label, bias, index=torch.arange(B)), expected)


def test_jtt_is_the_cross_entropy_of_repeated_images() -> None:
    rng = torch.Generator().manual_seed(5)
    x, label = torch.randn(N, 2, 3, generator=rng, dtype=torch.float64), torch.arange(N) % 3
    wrong = torch.arange(N) % 7 == 2  # 3 of 20
    loss = JTT(up=4)
    loss.prepare(Split(torch.zeros(N, 3, 1, 1, dtype=torch.uint8), label, mistaken=wrong), n_classes=3, dim=3)
    cost = [[-float(view[label[i]]) + math.log(sum(map(math.exp, view.tolist()))) for view in x[i]] for i in range(N)]
    repeated = [view for i in range(N) for view in cost[i] * (4 if wrong[i] else 1)]
    assert loss(x, label, index=torch.arange(N)).item() == pytest.approx(sum(repeated) / len(repeated))
    part = torch.tensor([2, 11, 9, 2])  # of which 2 and 9 are wrong
    weight = {i: (4 if wrong[i] else 1) * N / (N + 3 * 3) for i in part.tolist()}
    expected = sum(weight[i] * sum(cost[i]) / 2 for i in part.tolist()) / 4
    assert loss(x[part], label[part], index=part).item() == pytest.approx(expected)
    assert loss(x, label).item() == pytest.approx(sum(map(sum, cost)) / N / 2)  # unknown images: cross-entropy


@pytest.fixture(scope="module")
def biased_run(tmp_path_factory):
    """A short supervised training, which reads the color."""
    path = tmp_path_factory.mktemp("biased") / "run"
    run_experiment(compose_settings(*COLORED, "loss=cross_entropy", "epochs=3"), path)
    return path


@pytest.mark.parametrize("kind", ["predictions", "errors"])
def test_labels_of_a_run_say_something_of_the_color(composed, biased_run, kind):
    train = build(composed(*COLORED)).data.pretrain
    found = with_bias_from(str(biased_run), train, kind=kind, n_classes=10, device=torch.device("cpu"))
    assert found.bias.shape == train.bias.shape
    assert found.bias_features.shape[0] == len(train)
    torch.testing.assert_close(found.bias_features.norm(dim=1), torch.ones(len(train)))
    assert torch.equal(found.mistaken, found.bias == 1 if kind == "errors" else found.bias != train.label)
    conflicting = train.bias != train.label  # colors are numbered by the class they belong to
    if kind == "errors":
        assert found.bias[conflicting].float().mean() > 5 * found.bias[~conflicting].float().mean()
    else:  # the images of a color share a label
        share = [
            torch.bincount(found.bias[train.bias == color]).max() / (train.bias == color).sum() for color in range(10)
        ]
        assert sum(share) / 10 > 0.6


@pytest.mark.parametrize(("loss", "read"), [("softcon", "features"), ("jtt", "weight")])
def test_training_reads_them_and_evaluation_does_not(composed, biased_run, loss, read):
    experiment = build(composed(*COLORED, f"loss={loss}", f"bias_from={biased_run}", "bias_as=errors"))
    assert torch.equal(experiment.data.pretrain.bias, build(composed(*COLORED)).data.pretrain.bias)
    assert torch.cat([batch.bias for batch in experiment.loader.epoch(0)]).unique().tolist() == [0, 1]
    assert len(getattr(experiment.step.objective.loss, read)) == len(experiment.data.pretrain)
    assert f"loss.{read}" not in experiment.step.objective.state_dict()


@pytest.mark.slow
def test_the_data_may_have_no_bias_labels(composed, biased_run, tmp_path):
    words = ["dataset=digits", "dataset.size=12", "encoder.width=2", "device=cpu", "evaluator=[]", "epochs=1"]
    words += [f"bias_from={biased_run}", "batch_size=256"]
    run_experiment(composed(*words, "loss=softcon", "sampler=group_balanced"), tmp_path / "run")
    assert read_result(tmp_path / "run")["audit"] == {}
    with pytest.raises(ConfigError, match="or bias_from=RUN to infer them"):
        run_experiment(composed(*words, "loss=softcon", "bias_from=null"), tmp_path / "other")


def test_reports_tell_sources_apart_but_for_one_for_each_seed(tmp_path):
    for seed, weights in enumerate(("of a run", "of another")):
        for folder, source, read in (
            ("moved", "source", weights),  # a link, to another run for each seed
            ("each", f"runs/seed={seed}", weights),
            ("shared", "runs/seed=0", "of a run"),
        ):
            config, environment = {"seed": seed, "bias_from": source}, {"bias_from": read}
            path = tmp_path / folder / f"seed={seed}"
            write_finished(path, config=config, environment=environment, test={"knn_top1": 50.0})
    seeds = {
        folder: [own["seed"].tolist() for own in read_frame([tmp_path / folder]).rows.values()]
        for folder in ("moved", "each", "shared")
    }
    assert seeds == {"moved": [[0], [1]], "each": [[0, 1]], "shared": [[0, 1]]}


@pytest.mark.slow
def test_a_run_that_changed_refuses_a_resume_and_is_said(composed, biased_run, tmp_path, capsys):
    words = [*COLORED, "loss=softcon", f"bias_from={tmp_path}/source", "epochs=2", "checkpoint_every=1"]
    (tmp_path / "source").symlink_to(biased_run)
    run_until_step(15, composed(*words), tmp_path / "run")
    run_experiment(composed(*words), tmp_path / "whole")
    run_experiment(composed(*COLORED, "loss=cross_entropy", "epochs=1", "seed=1"), tmp_path / "another")
    (tmp_path / "source").unlink()
    (tmp_path / "source").symlink_to(tmp_path / "another")
    with pytest.raises(ConfigError, match="interrupted with other bias_from and"):
        run_experiment(composed(*words), tmp_path / "run")
    capsys.readouterr()
    run_experiment(composed(*words), tmp_path / "whole")
    assert "bias_from" in capsys.readouterr().out
    (tmp_path / "source").unlink()
    with pytest.raises(ConfigError, match="there is no weights file"):
        run_experiment(composed(*words), tmp_path / "third")
