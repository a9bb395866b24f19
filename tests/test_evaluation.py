"""kNN and the linear probe."""

import pytest
import torch
import torch.nn.functional as F

from contrastive import make
from contrastive.evaluator._accuracy import top
from contrastive.evaluator.alignment_uniformity import alignment, uniformity
from contrastive.evaluator.knn import knn, vote
from contrastive.testing import raw_inputs
from contrastive.training.features import extract, state_hash
from contrastive.types import Features, Split


def test_knn_goldens(golden):
    z = raw_inputs({"kind": "hash", "V": 2, "B": 40, "D": 16})
    label = torch.arange(40) % 5
    for case in golden["extra"]["knn"]:
        scores = vote(z[:, 0], label, z[:, 1], n_classes=5, k=case["k"], temperature=case["T"])
        assert scores.argmax(1).tolist() == case["pred"]
        torch.testing.assert_close(scores[0], torch.tensor(case["scores_query0"]), rtol=2e-5, atol=1e-4)
        assert top(scores, label, 1) == case["acc1"]
        assert top(scores, label, 5) == case["acc5"]


def test_knn_equals_a_loop():
    rng = torch.Generator().manual_seed(0)
    bank, query = torch.randn(60, 6, generator=rng), torch.randn(9, 6, generator=rng)
    label = torch.randint(0, 3, (60,), generator=rng)
    got = vote(bank, label, query, n_classes=3, k=7, temperature=0.3)
    for q, row in zip(query, got, strict=True):
        similarity = sorted(
            ((F.cosine_similarity(q, b, dim=0).item(), int(c)) for b, c in zip(bank, label, strict=True)), reverse=True
        )[:7]
        expected = [sum(pow(2.718281828459045, s / 0.3) for s, c in similarity if c == k) for k in range(3)]
        assert row.tolist() == pytest.approx(expected, rel=1e-4)


def test_knn_leaves_unlabeled_images_out_and_lowers_k():
    bank = Features(torch.eye(4).repeat(10, 1), torch.tensor([0, 1, -1, -1]).repeat(10))
    found = knn(bank, Features(torch.eye(4)[:2], torch.tensor([0, 1])), n_classes=2, k=200, temperature=0.5)
    assert found == {"knn_top1": 100.0, "knn_top5": 100.0}


def blobs(n: int, seed: int, noise: float = 1.0) -> Features:
    rng = torch.Generator().manual_seed(seed)
    label = torch.arange(n) % 4
    center = 3 * F.one_hot(label, 8).float()
    return Features(torch.randn(n, 8, generator=rng) * noise + center, label)


def test_probe_equals_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    probe = make("probe/linear", max_iter=500)
    train = blobs(300, 0, 2.0)
    x = (train.h - train.h.mean(0)) / train.h.std(0)
    ours = probe.fit(x, train.label, 4, 1e-2)
    theirs = linear_model.LogisticRegression(C=1 / (1e-2 * 300), max_iter=1000, tol=1e-8).fit(
        x.numpy(), train.label.numpy()
    )
    torch.testing.assert_close(ours[:, :-1], torch.from_numpy(theirs.coef_).float(), rtol=1e-2, atol=2e-3)


def test_probe_is_deterministic_selects_on_val_and_sees_the_signal():
    probe = make("probe/linear")
    train, val, test = blobs(200, 0), blobs(50, 1), blobs(400, 2)
    everything = Features(torch.cat([train.h, val.h]), torch.cat([train.label, val.label]))
    first, again = (probe(train, val, everything, test, 4)[0] for _ in range(2))
    assert first == again
    assert first["linear_top1"] > 90
    assert first["few_shot_top1"] > 70
    shuffled = Features(test.h, test.label[torch.randperm(400, generator=torch.Generator().manual_seed(0))])
    assert probe(train, val, everything, shuffled, 4)[0]["linear_top1"] < 40
    strict = make("probe/linear", l2=[1e3, 1e-3])
    more = blobs(201, 0)  # one image more of one class: at strength 1e3 that is all that is learned, and val rejects it
    assert strict(more, val, everything, test, 4)[0]["linear_top1"] > 90


def test_probe_converges_whatever_the_scales_of_its_features():
    rng = torch.Generator().manual_seed(0)
    mix = torch.randn(32, 32, generator=rng) * torch.logspace(-3, 0, 32)
    label = torch.arange(500) % 3
    h = (torch.randn(500, 32, generator=rng) + F.one_hot(label, 32)) @ mix
    x = (h - h.mean(0)) / h.std(0)

    def gradient(weight: torch.Tensor, l2: float) -> torch.Tensor:
        weight = weight.double().requires_grad_()
        value = F.cross_entropy(F.linear(x.double(), weight[:, :-1], weight[:, -1]), label)
        return torch.autograd.grad(value + l2 / 2 * weight[:, :-1].square().sum(), weight)[0]

    for l2 in (1e-1, 1e-3, 1e-5):
        assert gradient(make("probe/linear", max_iter=60).fit(x, label, 3, l2), l2).abs().max() < 2e-4


@pytest.mark.parametrize("dim", [64, 1024])
def test_probe_survives_collapsed_features(dim):
    rng = torch.Generator().manual_seed(0)
    h = torch.randn(400, 1, generator=rng) @ torch.randn(1, dim, generator=rng)  # one direction and no other
    for l2 in (0.0, 1e-6, 1e-2):
        weight = make("probe/linear").fit((h - h.mean(0)) / h.std(0), torch.arange(400) % 2, 2, l2)
        assert weight.isfinite().all()


def test_extract_freezes_and_restores():
    encoder = make("encoder/resnet18", width=2).train()
    before = state_hash(encoder)
    split = Split(torch.randint(0, 256, (7, 3, 8, 8), dtype=torch.uint8), torch.arange(7))
    found = extract(encoder, split, lambda x: x / 255, lambda: torch.autocast("cpu", enabled=False))
    assert found.h.shape == (7, 16)
    assert not found.h.requires_grad
    assert encoder.training
    assert state_hash(encoder) == before
    encoder.bn1.running_mean += 1e-6
    assert state_hash(encoder) != before


def test_alignment_and_uniformity_goldens(golden):
    z = F.normalize(raw_inputs({"kind": "hash", "V": 2, "B": 8, "D": 16}), dim=-1)
    values = {case["loss"]: case["value"] for case in golden["cases"] if case["id"] in (646, 647)}
    assert alignment(z[:, 0], z[:, 1]).item() == pytest.approx(values["align"], rel=1e-9)
    assert uniformity(z[:, 0]).item() == pytest.approx(values["uniform"], rel=1e-9)
