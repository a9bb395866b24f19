"""Diagnostics of a batch, by hand."""

import copy
import itertools
import math
from dataclasses import replace
from statistics import mean

import pytest
import torch

from contrastive.experiment.build import build
from contrastive.experiment.make import make
from contrastive.experiment.run import loss_of_unseen, run_experiment
from contrastive.seeding import generator
from contrastive.training.diagnostics import conflicting_pairs, diagnose, geometry, unseen_loss
from contrastive.types import Split
from tests.helpers import BARE, TINY, further, logged_lines


def test_conflicting_pairs_are_counted_once():
    assert conflicting_pairs(torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 0])) == 1


def test_contrastive_accuracy_by_hand():
    x, y = torch.eye(4)[0], torch.eye(4)[1]
    z = torch.stack([torch.stack([x, x + 0.05 * y]), torch.stack([y, x + 0.2 * y])])
    assert geometry(z)["top1"] == 75  # the last view is nearer to image 0


def test_both_terms_beside_their_oracles_by_hand():
    z = torch.nn.functional.normalize(torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)), dim=-1)
    label = torch.tensor([0, 0, 1, 1, 2, 3])  # the last two images have no other of their class
    t, tau, n, weights, false = 0.5, 0.3, 10, 0.0, 0.0
    negatives, views, estimates, positives = [], [], [], []
    for i, a in itertools.product(range(6), range(2)):
        e = {(j, b): float((z[i, a] @ z[j, b] / t).exp()) for j in range(6) for b in range(2)}
        alike = [v for (j, _), v in e.items() if j != i and label[j] == label[i]]
        others = [v for (j, _), v in e.items() if label[j] != label[i]]
        mass, plus = sum(alike) + sum(others), e[i, 1 - a]
        weights += mass / (mass + plus)
        false += sum(alike) / (mass + plus)
        negatives.append(math.log(mean(others)))
        if alike:
            views.append(math.log(plus))
            numerator = (mass + plus + e[i, a]) / (n + 2) - (1 - tau) * mass / n
            estimates.append(math.log(max(numerator, tau * math.exp(-1 / t)) / tau))
            positives.append(math.log(mean(alike)))
    biased = make("loss/nt_xent").diagnostics(z, label, None)
    debiased = make("loss/debiased_pos", tau_plus=tau).diagnostics(z, label, None)
    oracle = make("loss/nt_xent", drop_false_negatives=True).diagnostics(z, label, None)
    for curves, name, expected in (
        (biased, "false_negatives", 8 * 2 / (12 * 10)),
        (biased, "gradient_on_false_negatives", false / weights),
        (oracle, "gradient_on_false_negatives", 0),
        (biased, "negative_oracle", mean(negatives)),
        (biased, "negative_error", biased["debiasing/negative_estimate"].item() - mean(negatives)),
        (debiased, "positive_oracle", mean(positives)),
        (debiased, "positive_estimate", mean(estimates)),
        (biased, "positive_error", mean(views) - mean(positives)),
    ):
        assert float(curves[f"debiasing/{name}"]) == pytest.approx(expected, rel=1e-4), name


def test_a_combination_shows_both_of_its_estimates():
    z, label = torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 0, 1, 1, 2, 2])
    both = make("loss/combination").diagnostics(z, label, None)
    for term, loss in (("negative", "debiased_neg"), ("positive", "debiased_pos")):
        alone = make(f"loss/{loss}").diagnostics(z, label, None)
        assert both[f"debiasing/{term}_estimate"] == alone[f"debiasing/{term}_estimate"]


def test_diagnostics_of_debiasing_are_logged_with_labels(composed, tmp_path):
    words = ["dataset.size=8", "encoder.width=2", "epochs=1", "batch_size=256", "loss=debiased_neg", "evaluator=[knn]"]
    run_experiment(composed(*words), tmp_path)
    terms, kinds = ("negative", "positive"), ("estimate", "oracle", "error")
    beside = {f"debiasing/{term}_{kind}" for term in terms for kind in kinds}
    others = {"debiasing/false_negatives", "debiasing/gradient_on_false_negatives", "pairs/clamped"}
    assert beside | others <= set().union(*logged_lines(tmp_path))


def test_the_loss_of_unseen_images_is_that_of_the_same_views_each_time(composed):
    words = [*TINY, "precision=fp32", "loss=decoupled", "encoder=resnet18_narrow", "encoder.width=2"]
    experiment = build(composed(*words))
    step, test = experiment.step, experiment.data.test
    step.encoder.train()
    before = copy.deepcopy(step.state())
    state = torch.get_rng_state()
    value = unseen_loss(step, test, batch_size=64, seed=3)["loss"]
    assert unseen_loss(step, test, batch_size=64, seed=3)["loss"] == value
    assert unseen_loss(step, test, batch_size=64, seed=4)["loss"] != value
    assert step.encoder.training
    assert torch.equal(torch.get_rng_state(), state)
    for part in ("encoder", "head", "objective"):
        assert all(torch.equal(kept, before[part][key]) for key, kept in step.state()[part].items())
    chance = unseen_loss(step, Split(test.image[:1].expand(64, -1, -1, -1) * 0, test.label[:64]), batch_size=64, seed=3)
    assert chance["loss"] == pytest.approx(math.log(2 * 64 - 2), abs=0.05)  # of images that are all alike
    assert unseen_loss(build(composed(*words, "loss=glofnd")).step, test, batch_size=64, seed=3) == {}


@pytest.mark.parametrize(("words", "group"), [([], "test"), *further((["dataset.hold_out=true"], "val"))])
def test_it_is_on_held_out_images_where_there_are_some(composed, tmp_path, words, group):
    settings = composed(*BARE, "evaluator=[]", "epochs=2", *words)
    run_experiment(settings, tmp_path)
    curve = [(line["epoch"], line[f"{group}/loss"]) for line in logged_lines(tmp_path) if f"{group}/loss" in line]
    assert [epoch for epoch, _ in curve] == [0, 1, 2]
    untrained = build(settings)
    split = {"test": untrained.data.test, "val": untrained.data.probe_val}[group]
    assert curve[0][1] == unseen_loss(untrained.step, split, batch_size=settings.batch_size, seed=0)["loss"]


def test_a_bias_that_training_lacks_is_left_out(composed, tmp_path):
    experiment = build(composed(*TINY, "dataset=biased_digits", "loss=bias_balanced"))
    assert loss_of_unseen(experiment, None)
    other = replace(experiment.data.test, bias=experiment.data.test.bias + 5)
    assert loss_of_unseen(replace(experiment, data=replace(experiment.data, test=other)), None) == {}


def test_curves_of_a_loss_with_state_are_its_own(composed):
    """The negative term that GloFND shows leaves out what its thresholds leave out."""
    experiment = build(composed(*TINY, "loss=glofnd", "loss.start=0", "loss.alpha=0.5", "loss.lr=1", "log_every=1"))
    step, loss = experiment.step, experiment.step.objective.loss
    batch = next(experiment.loader.epoch(0))
    output = step(batch, generator("cpu", 0))
    shown = diagnose(step.objective, output)["debiasing/negative_estimate"]
    stateless = loss.diagnostics(output.main.outputs["projections"], batch.label, None)["debiasing/negative_estimate"]
    assert shown < stateless.item() - 0.01


def test_it_wants_the_labels_that_the_loss_wants(composed):
    experiment = build(composed(*TINY, "loss=supcon"))
    test = experiment.data.test
    assert unseen_loss(experiment.step, test, batch_size=64, seed=0)
    assert unseen_loss(experiment.step, Split(test.image, -1 - 0 * test.label), batch_size=64, seed=0) == {}
