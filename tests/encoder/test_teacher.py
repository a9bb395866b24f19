"""teacher=ema and average=ema: formulas, explicit MoCo v2 and v3, BYOL and SimSiam, the queue, what is evaluated."""

import copy
import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

from contrastive import load_encoder
from contrastive.average.ema import EMA as Average
from contrastive.cli.evaluate import main as evaluate
from contrastive.experiment.build import build
from contrastive.experiment.run import run_experiment
from contrastive.head.predictor import PredictorHead
from contrastive.loss.byol import BYOL
from contrastive.loss.simsiam import SimSiam
from contrastive.run.files import read_result
from contrastive.seeding import generator
from contrastive.teacher.ema import EMA, Queue
from tests.helpers import BARE, compose_settings, further, logged_lines, saved_weights

WORDS = [*BARE, "evaluator=[knn]", "precision=fp32"]


def student() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 9, 6))
    return encoder, PredictorHead(in_dim=6, out_dim=5)


def after(encoder: nn.Module, head: nn.Module, done: int) -> SimpleNamespace:
    """Training of 10 steps after so many."""
    step = SimpleNamespace(encoder=encoder, head=head)
    return SimpleNamespace(step=step, steps_done=done, epochs=2, loader=[None] * 5)


@pytest.mark.parametrize("kind", ["constant", "cosine", "average"])
def test_weights_and_buffers_follow_the_formula(kind):
    encoder, head = student()
    both = nn.Sequential(encoder, head.projector)
    if kind == "average":
        teacher = Average(both, decay=0.5)
        network, encoder = teacher.encoder, both
    else:
        teacher = EMA(encoder, head, momentum=0.8, schedule=kind)
        network = teacher.network
    expected = {key: value.clone() for key, value in both.state_dict().items()}
    for k in range(1, 11):
        with torch.no_grad():
            for value in both.parameters():
                value.add_(torch.randn_like(value))
        both(torch.randn(4, 3, 5, 5))
        teacher.on_step(after(encoder, head, k), None)
        cosine = 1 - (1 - 0.8) * (math.cos(math.pi * k / 10) + 1) / 2
        m = {"constant": 0.8, "cosine": cosine, "average": min(0.5, (1 + k) / (10 + k))}[kind]  # from 8 steps on 0.5
        for key, value in both.state_dict().items():
            expected[key] = m * expected[key] + (1 - m) * value if value.is_floating_point() else value.clone()
    for key, value in network.state_dict().items():
        torch.testing.assert_close(value, expected[key])
    assert not (network.training if kind == "average" else any(value.requires_grad for value in network.parameters()))


def first_step(*words: str) -> tuple:
    """A step of a run with its first batch and the views of it."""
    built = build(compose_settings(*WORDS, *words))
    batch = next(iter(built.loader.epoch(0)))
    return built, batch, built.step.views(batch, generator("cpu", 0))


def projections(step, network: nn.Module, views: torch.Tensor) -> torch.Tensor:
    """(V, B, ...) → (B, V, D), all views in one pass in train mode, on a copy of the network."""
    z = copy.deepcopy(network).train()(step.normalize(views.flatten(0, 1)))
    return z.unflatten(0, views.shape[:2]).transpose(0, 1)


def unit(x: torch.Tensor) -> torch.Tensor:
    return x / x.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("chunk", [0, *further(16)])
def test_a_step_of_moco_v3_is_the_explicit_one(chunk):
    built, batch, views = first_step("teacher=ema", "head=predictor", f"grad_cache_chunk={chunk}", "temperature=0.2")
    step, queries = built.step, []
    with torch.no_grad():
        for value in step.teacher.network.parameters():  # so that it is another network than the student
            value.mul_(1.1)
    before = {key: value.clone() for key, value in step.teacher.network.state_dict().items()}
    parts = views.tensor_split(math.ceil(len(batch.image) / chunk), dim=1) if chunk else [views]
    keys = torch.cat([projections(step, step.teacher.network, part) for part in parts])
    queries = torch.cat([projections(step, nn.Sequential(step.encoder, step.head), part) for part in parts])
    output = step(batch, generator("cpu", 0))
    q, k = unit(queries), unit(keys)
    target = torch.arange(len(q))
    explicit = [F.cross_entropy(q[:, v] @ k[:, 1 - v].T / 0.2, target) for v in (0, 1)]
    torch.testing.assert_close(output.loss, (explicit[0] + explicit[1]).detach() / 2, rtol=1e-4, atol=1e-5)
    for key, value in step.teacher.network.state_dict().items():
        assert torch.equal(value, before[key]), key  # it moves in its hook alone, its statistics too


def test_a_loss_against_a_queue_alone_is_moco_v2():
    built, batch, views = first_step(
        "teacher=ema", "teacher.queue=50", "teacher.queue_only=true", "teacher.across=first", "temperature=0.1"
    )
    step = built.step
    q = unit(projections(step, nn.Sequential(step.encoder, step.head), views)[:, 0])
    k = unit(projections(step, step.teacher.network, views)[:, 1])
    queue = step.teacher.queue.z.clone()
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], 1) / 0.1
    explicit = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long)).detach()
    output = step(batch, generator("cpu", 0))
    torch.testing.assert_close(output.loss, explicit, rtol=1e-4, atol=1e-5)
    step.teacher.on_step(SimpleNamespace(step=step, steps_done=1), output)
    n = min(50, len(k))
    torch.testing.assert_close(step.teacher.queue.z[:n], k[-n:].detach(), rtol=1e-4, atol=1e-5)
    assert torch.equal(step.teacher.queue.rows[:n], batch.index[-n:])


def test_a_queue_is_written_round_and_keeps_the_newest():
    queue = Queue(5, 3, seed=0)
    torch.testing.assert_close(queue.z.norm(dim=1), torch.ones(5))
    keys = unit(torch.randn(4, 2, 3))
    queue.put(keys[:2], torch.tensor([7, 8]), torch.tensor([70, 80]))
    assert queue.label.tolist() == [7, 7, 8, 8, -1]
    queue.put(keys[2:], torch.tensor([9, 5]), torch.tensor([90, 50]))
    assert queue.rows.tolist() == [90, 50, 50, 80, 90]
    torch.testing.assert_close(queue.z[[4, 0]], keys[2])
    queue.put(unit(torch.randn(9, 1, 3)), torch.arange(9), torch.arange(9))
    assert sorted(queue.label.tolist()) == [4, 5, 6, 7, 8]


def test_a_loss_is_told_which_images_of_the_queue_are_those_of_the_batch():
    encoder, head = student()
    teacher, rows = EMA(encoder, head, queue=3), torch.tensor([10, 20])
    teacher.queue.put(torch.randn(3, 1, 5), torch.tensor([-1, -1, -1]), torch.tensor([10, 11, 12]))
    others = teacher.others(torch.randn(2, 2, 5), rows)
    assert others.ids is rows  # tests/loss/test_two_sources.py has what a loss makes of them
    assert others.memory_ids.tolist() == [10, 11, 12]


def test_byol_and_simsiam_are_their_formulas():
    torch.manual_seed(0)
    p = torch.randn(6, 2, 4, dtype=torch.float64, requires_grad=True)
    k = torch.randn(6, 2, 4, dtype=torch.float64, requires_grad=True)

    def distance(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (F.normalize(x, dim=1) - F.normalize(y, dim=1).detach()).square().sum(1)

    byol = (distance(p[:, 0], k[:, 1]) + distance(p[:, 1], k[:, 0])).mean()
    torch.testing.assert_close(BYOL()(p, across="both", keys=k), byol)
    torch.testing.assert_close(BYOL()(p, across="first", keys=k), distance(p[:, 0], k[:, 1]).mean())
    cosines = [F.cosine_similarity(p[:, v], k[:, 1 - v].detach()).mean() for v in (0, 1)]
    simsiam = SimSiam()(p, across="both", keys=k)
    torch.testing.assert_close(simsiam, -(cosines[0] + cosines[1]) / 2)
    (gradient,) = torch.autograd.grad(simsiam, p)
    (expected,) = torch.autograd.grad(-(cosines[0] + cosines[1]) / 2, p)
    torch.testing.assert_close(gradient, expected)
    assert not torch.autograd.grad(BYOL()(p, across="both", keys=k), k, allow_unused=True)[0]


@pytest.mark.slow
def test_evaluators_read_the_student_unless_the_teacher_is_chosen(tmp_path, capsys):
    result = run_experiment(compose_settings(*WORDS, "teacher=ema", "teacher.evaluated=true"), tmp_path)
    saved = torch.load(tmp_path / "checkpoints/last.pt", weights_only=True)
    written = load_file(tmp_path / "encoder.safetensors")
    assert all(torch.equal(written[key], value) for key, value in saved["hooks"]["average"]["encoder"].items())
    assert any(not torch.equal(written[key], value) for key, value in saved["encoder"].items())
    assert "teacher (EMA, momentum 0.99, constant)" in result["protocol"]["knn"]
    assert evaluate([str(tmp_path), "evaluator=knn", "device=cpu"]) == 0
    assert "knn_top1 as recorded" in capsys.readouterr().out


CURVES = [*BARE, "evaluator=[knn,online_probe]", "evaluator.knn.every=1", "log_every=2", "checkpoint_every_minutes=0"]
AVERAGED = [*CURVES, "average=ema", "average.decay=0.9"]


@pytest.mark.slow
def test_training_is_the_same_and_what_is_read_and_written_is_the_average(tmp_path):
    averaged, plain = tmp_path / "averaged", tmp_path / "plain"
    run_experiment(compose_settings(*AVERAGED), averaged)
    run_experiment(compose_settings(*CURVES), plain)
    mine, theirs = saved_weights(averaged), saved_weights(plain)
    assert all(torch.equal(mine[key], value) for key, value in theirs.items())
    for line, other in zip(logged_lines(averaged), logged_lines(plain), strict=True):
        assert line == other or any(key.startswith("test/knn") for key in line)
    key = "test/knn_top1"
    knn = [[line[key] for line in logged_lines(path) if key in line] for path in (averaged, plain)]
    assert knn[0][0] == knn[1][0]  # before training there is nothing to average
    assert knn[0][1:] != knn[1][1:]
    written = load_file(averaged / "encoder.safetensors")
    average = torch.load(averaged / "checkpoints/last.pt", weights_only=True)["hooks"]["average"]["encoder"]
    assert all(torch.equal(written[key], value) for key, value in average.items())
    assert not torch.equal(average["conv1.weight"], mine["conv1.weight"])
    assert not torch.equal(average["bn1.running_mean"], mine["bn1.running_mean"])
    assert torch.equal(load_encoder(averaged)[0].state_dict()["conv1.weight"], average["conv1.weight"])
    result, said = read_result(averaged), "weights averaged over the steps (EMA, decay 0.9)"
    assert result["encoder"]["average"] == said
    assert all(protocol.endswith(f"; {said}") for protocol in result["protocol"].values())
    for name in ("encoder.safetensors", "result.json"):  # lost, they are written from the checkpoint
        (averaged / name).unlink()
    run_experiment(compose_settings(*AVERAGED), averaged)
    again = load_file(averaged / "encoder.safetensors")
    assert all(torch.equal(again[key], value) for key, value in written.items())


def test_without_one_nothing_is_held():
    built = build(compose_settings(*CURVES))
    assert built.average is built.teacher is None
