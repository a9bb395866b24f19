"""LNL: two updates of every batch, transcribed from the released code of Hong & Yang."""

import pytest
import torch
import torch.nn.functional as F

from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.make import make
from contrastive.experiment.run import run_experiment
from contrastive.seeding import generator
from contrastive.types import Split

WORDS = [
    "experiment=hong_yang_lnl", "dataset=biased_digits", "dataset.size=8", "encoder.width=2", "encoder.kernel_size=3",
    "regularizer.kernel_size=3", "regularizer.weight=0.7", "batch_size=64", "precision=fp32", "device=cpu",
    "optimizer=sgd", "optimizer.lr=0.1", "evaluator=[]",
]  # fmt: skip


def prepared(**options):
    bias = torch.arange(12) // 2 % 3
    lnl = make("regularizer/lnl", kernel_size=3, **options)
    torch.manual_seed(0)
    lnl.prepare(Split(torch.zeros(12, 3, 1, 1, dtype=torch.uint8), torch.arange(12) % 4, bias), n_classes=4, dim=4)
    z = torch.randn(12, 2, 4, 5, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    return lnl, z, bias


def test_lnl_first_update_leaves_the_adversary_alone():
    lnl, z, bias = prepared(weight=0.3)
    value = lnl(z, torch.arange(12) % 4, bias)
    q = lnl.adversary(z.flatten(0, 1)).softmax(1)
    torch.testing.assert_close(value, 0.3 * (q * q.log()).sum(1).mean())
    value.backward()
    assert z.grad.abs().max() > 0
    assert all(p.grad is None for p in lnl.adversary.parameters())


def test_lnl_gradient_reversal():
    lnl, z, bias = prepared()
    plain = F.cross_entropy(lnl.adversary(z.flatten(0, 1)), bias.repeat_interleave(2))
    of_map, *of_adversary = torch.autograd.grad(plain, [z, *lnl.adversary.parameters()])
    value = lnl.adversarial(z, None, bias)
    torch.testing.assert_close(value, plain)
    value.backward()
    torch.testing.assert_close(z.grad, -0.1 * of_map)
    torch.testing.assert_close([p.grad for p in lnl.adversary.parameters()], of_adversary)


def test_a_step_is_the_two_updates_of_the_released_code(composed):
    ours, theirs = (build(composed(*WORDS)).step for _ in range(2))
    batch = next(build(composed(*WORDS)).loader.epoch(0))
    ours.encoder.train()
    ours(batch, generator("cpu", 0))

    encoder, classifier = theirs.encoder.train(), theirs.objective.classifier
    adversary = theirs.objective.regularizer.adversary
    body, predictor = (torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4) for p in (
        [*encoder.parameters(), *classifier.parameters()], adversary.parameters()
    ))  # fmt: skip
    x = theirs.normalize(batch.image)
    q = adversary(encoder.map(x)).softmax(1)
    logits = classifier(encoder.features(encoder.map(x)))
    (F.cross_entropy(logits, batch.label) + 0.7 * (q * q.log()).sum(1).mean()).backward()
    body.step()
    body.zero_grad()
    predictor.zero_grad()
    bias_loss = F.cross_entropy(adversary(encoder.map(x)), batch.bias)
    bias_loss.backward()
    for p in encoder.parameters():
        p.grad = None if p.grad is None else -0.1 * p.grad
    body.step()
    predictor.step()

    for mine, other in ((ours.encoder, encoder), (ours.objective, theirs.objective)):
        for (name, p), q in zip(mine.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.slow
def test_the_schedule_moves_the_adversary_too(composed, tmp_path):
    words = ["epochs=2", "schedule=step", "schedule.milestones=[1]", "schedule.gamma=0.5"]
    run_experiment(composed(*WORDS, *words), tmp_path)
    groups = torch.load(tmp_path / "checkpoints/last.pt", weights_only=True)["optimizer"]["param_groups"]
    assert [group["lr"] for group in groups] == [0.05, 0.05]


def test_the_adversary_of_the_papers_network_has_its_layers():
    lnl = make("regularizer/lnl")
    lnl.prepare(
        Split(torch.zeros(10, 3, 1, 1, dtype=torch.uint8), torch.arange(10), torch.arange(10)), n_classes=10, dim=32
    )
    shapes = [tuple(p.shape) for name, p in lnl.adversary.named_parameters() if p.dim() > 1]
    assert shapes == [(64, 32, 7, 7), (128, 64, 7, 7), (10, 128)]


@pytest.mark.parametrize(
    ("group", "options", "remedy"),
    [
        ("regularizer/lnl", {"weight": -1.0}, "weight=0.01"),
        ("regularizer/lnl", {"kernel_size": 4}, "kernel_size=7"),
        ("regularizer/cross_entropy", {"term": make("regularizer/lnl")}, r"LNL\(weight=0.01\)"),
    ],
)
def test_lnl_rejects_bad_arguments(group, options, remedy):
    with pytest.raises(ConfigError, match=f"try {remedy}"):
        make(group, **options)


def test_lnl_needs_the_map_of_an_encoder(composed):
    with pytest.raises(ConfigError, match="a map must be"):
        make("regularizer/lnl")(torch.zeros(4, 1, 3), torch.arange(4), torch.arange(4))
    words = ["dataset=biased_digits", "dataset.size=8", "encoder=resnet18_narrow", "~encoder.kernel_size"]
    with pytest.raises(ConfigError, match="try encoder=simple_convnet"):
        build(composed(*words, "loss=cross_entropy", "regularizer=lnl"))
