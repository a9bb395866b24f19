"""Losses that keep numbers from step to step: slow transcriptions, the authors' values, limits, cost of the state."""

import math

import pytest
import torch
from torch import Tensor

from contrastive import GloFND, GroupDRO, Loss, NTXent, SogCLR
from contrastive.loss._per_image import write
from contrastive.testing.loss import in_tiles
from contrastive.training.objective import Embedded, Objective
from contrastive.types import Split

N, B, D, T = 12, 6, 5, 0.3
Batches = list[tuple[Tensor, Tensor]]


def train(n: int = N) -> Split:
    return Split(torch.zeros(n, 3, 1, 1, dtype=torch.uint8), torch.zeros(n, dtype=torch.long))


def prepared(loss: Loss, n: int = N) -> Loss:
    """The loss in float64, of n training images."""
    loss.prepare(train(n), n_classes=0, dim=D)
    return loss.double()


def step(loss: Loss, index: Tensor, z: Tensor) -> tuple[float, Tensor]:
    """Value and gradient on a batch, whose state the loss then takes over."""
    free = z.clone().requires_grad_()
    value = loss(free, index=index)
    (gradient,) = torch.autograd.grad(value, free)
    loss.after_step(lambda x: x)
    return value.item(), gradient


def some_batches() -> tuple[Tensor, Batches]:
    """A first batch of all images, and five of six images, in each of which some were seen more often than others."""
    rng = torch.Generator().manual_seed(7)
    batches = [
        (torch.randperm(N, generator=rng)[:B], torch.randn(B, 2, D, generator=rng, dtype=torch.float64))
        for _ in range(5)
    ]
    return torch.randn(N, 2, D, generator=rng, dtype=torch.float64), batches


def cosines(z: Tensor) -> Tensor:
    """(B, 2, B, 2)."""
    unit = z / z.norm(dim=-1, keepdim=True)
    return torch.einsum("iad,jbd->iajb", unit, unit)


def means(z: Tensor) -> Tensor:
    """(B, 2): the mean e^{s} over the negatives of each view, pair by pair."""
    cos, n = cosines(z), len(z)
    total = torch.zeros(n, 2, dtype=z.dtype)
    for i in range(n):
        for a in (0, 1):
            negatives = [math.exp(cos[i, a, j, b] / T) for j in range(n) if j != i for b in (0, 1)]
            total[i, a] = sum(negatives) / len(negatives)
    return total


def test_sogclr_is_its_formula_and_has_the_gradient_of_the_authors_code() -> None:
    gamma = 0.6
    loss = prepared(SogCLR(temperature=T, gamma=gamma))
    first, batches = some_batches()
    step(loss, torch.arange(N), first)
    u = means(first).mean(1)
    # of Optimization-AI/SogCLR at ef289b5: norm and first entry of the gradient
    authors = [
        (0.61034376234014, 0.0036872107487880626),
        (0.5446443185397094, 0.10630125580012811),
        (0.5900632366353364, -0.05331719712829214),
        (0.6085170965151951, 0.04827330568329085),
        (0.5256351453575046, -0.04531127130988939),
    ]
    for (index, z), (norm, entry) in zip(batches, authors, strict=True):
        moved = (1 - gamma) * u[index, None] + gamma * means(z)
        cos = cosines(z)
        positive = torch.stack([cos[i, 0, i, 1] for i in range(B)]) / T
        value, gradient = step(loss, index, z)
        assert value == pytest.approx((moved.log() - positive[:, None]).mean().item(), abs=1e-9)
        assert 2 * T * gradient.norm().item() == pytest.approx(norm, abs=1e-9)
        assert 2 * T * gradient[0, 0, 0].item() == pytest.approx(entry, abs=1e-9)
        u[index] = moved.mean(1)
    torch.testing.assert_close(loss.log_mean.exp(), u)
    assert u[[0, -1]].tolist() == pytest.approx([1.266471205291366, 2.281925698917645])  # theirs


def test_an_image_not_seen_before_starts_with_its_batch() -> None:
    z, batches = some_batches()
    loss = prepared(SogCLR(temperature=T, gamma=0.5), 2 * N)
    step(loss, torch.arange(N), z)
    index, z = batches[0]
    new = index + torch.tensor([0, 0, N, N, N, N])
    step(loss, new, z)
    torch.testing.assert_close(loss.log_mean[new[2:]].exp(), means(z).mean(1)[2:])
    assert loss.log_mean.isinf().sum() == N - 4


def test_glofnd_is_its_formula_and_the_authors_code() -> None:
    alpha, lr = 0.2, 0.3
    loss = prepared(GloFND(temperature=T, alpha=alpha, start=0, lr=lr))
    rng = torch.Generator().manual_seed(8)
    # of vibalcam/GloFND at b7f1dd1: twice the loss, and the norm of its gradient
    authors = [
        (5.95426499000112, 1.8899403867181), (3.6017648915123543, 1.668728136378267),
        (5.0983856570626, 2.1853358884883622), (4.031422392335224, 2.250838704513825),
        (5.904924859417673, 1.68467090838845), (4.594740886977173, 1.9841681896954446),
        (4.569476863413204, 1.5072403854117968), (4.483715121980585, 2.255253768636375),
    ]  # fmt: skip
    threshold, mean, square = [1.0] * N, [0.0] * N, [0.0] * N
    for epoch in range(4):
        order = torch.randperm(N, generator=rng)
        for half in range(2):
            index = order[half * B : (half + 1) * B]
            z = torch.randn(B, 2, D, generator=rng, dtype=torch.float64)
            cos, total = cosines(z), 0.0
            for i, row in enumerate(index.tolist()):
                negatives = [[cos[i, a, j, b].item() for j in range(B) if j != i for b in (0, 1)] for a in (0, 1)]
                above = sum(c > threshold[row] for view in negatives for c in view) / (4 * B - 4)
                mean[row] = 0.9 * mean[row] + 0.1 * (alpha - above)
                square[row] = 0.98 * square[row] + 0.02 * (alpha - above) ** 2
                corrected = mean[row] / (1 - 0.9 ** (epoch + 1))
                root = math.sqrt(square[row] / (1 - 0.98 ** (epoch + 1))) + 1e-8
                threshold[row] = min(1, max(-1, threshold[row] - lr * corrected / root))
                for view in negatives:
                    kept = [math.exp(c / T) for c in view if c <= threshold[row]]
                    positive = math.exp(cos[i, 0, i, 1].item() / T)
                    total += math.log(1 + (2 * B - 2) * sum(kept) / len(kept) / positive) if kept else 0
            in_pieces = in_tiles(loss)(z, index=index).item()
            value, gradient = step(loss, index, z)
            assert value == pytest.approx(in_pieces, abs=1e-12)
            assert value == pytest.approx(total / (2 * B), abs=1e-9)
            twice, norm = authors[2 * epoch + half]
            assert 2 * value == pytest.approx(twice, abs=1e-6)  # their thresholds are float32
            assert 2 * gradient.norm().item() == pytest.approx(norm, abs=1e-6)
    assert loss.state[:, 0].tolist() == pytest.approx(threshold)
    assert loss.state[:, 3].tolist() == [4.0] * N


def test_glofnd_is_nt_xent_until_it_starts() -> None:
    first, _ = some_batches()
    loss = prepared(GloFND(temperature=T, alpha=0.5, start=3, lr=0.5))
    plain = NTXent(temperature=T)
    for _ in range(3):
        value, _ = step(loss, torch.arange(N), first)
        assert value == pytest.approx(plain(first).item())
    for _ in range(2):  # from 1 in two steps of 0.5 down to 0
        value, _ = step(loss, torch.arange(N), first)
    assert value < plain(first).item() - 0.1
    assert loss(first).item() == pytest.approx(plain(first).item())  # images without an index


def test_group_dro_is_the_authors_code() -> None:
    group = torch.arange(6).repeat_interleave(torch.tensor([50, 5, 30, 10, 20, 3]))
    data = Split(torch.zeros(len(group), 3, 1, 1, dtype=torch.uint8), group // 2, group % 2)
    loss = GroupDRO(step_size=0.5)
    loss.prepare(data, n_classes=3, dim=3)
    rng = torch.Generator().manual_seed(9)
    # of kohpangwei/group_DRO at cbbc1c5: the loss, and the largest weight after it
    for value, largest in [
        (1.7608970403671265, 0.2319030612707138), (1.8524203300476074, 0.2877456843852997),
        (0.6853495240211487, 0.4229959547519684), (0.7438616752624512, 0.35914185643196106),
    ]:  # fmt: skip
        x = torch.randn(8, 3, generator=rng)
        label, bias = torch.randint(3, (8,), generator=rng), torch.randint(2, (8,), generator=rng)
        assert loss(x[:, None], label, bias).item() == pytest.approx(value, rel=1e-5)
        loss.after_step(lambda x: x)
        assert loss.log_weight.exp().max().item() == pytest.approx(largest, rel=1e-5)


def test_group_dro_leaves_out_groups_without_images_and_raises_small_ones() -> None:
    group = torch.tensor([0] * 90 + [1] * 9 + [3])
    data = Split(torch.zeros(len(group), 3, 1, 1, dtype=torch.uint8), group // 2, group % 2)
    x, label, bias = torch.zeros(4, 1, 2), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    equal = GroupDRO(step_size=0)
    equal.prepare(data, n_classes=2, dim=2)
    equal(x, label, bias)
    torch.testing.assert_close(equal.log_weight.exp(), torch.tensor([1, 1, 0, 1]) / 3)
    adjusted = GroupDRO(step_size=1, adjustment=2)
    adjusted.prepare(data, n_classes=2, dim=2)
    adjusted(x, label, bias)
    adjusted.after_step(lambda x: x)
    expected = torch.tensor([2 / math.sqrt(90), 2 / 3, -math.inf, 2]).softmax(0)
    torch.testing.assert_close(adjusted.log_weight.exp(), expected)


def test_of_an_image_drawn_twice_the_last_place_counts() -> None:
    state = torch.zeros(5)
    write(state, torch.tensor([3, 1, 3, 0, 1, 3]), torch.arange(1.0, 7))
    assert state.tolist() == [4, 5, 0, 6, 0]


def test_state_is_written_after_the_step_and_only_then() -> None:
    z, _ = some_batches()
    objective = Objective(SogCLR(), train=train(), n_classes=0, feature_dim=D, projection_dim=D).double()
    main = Embedded({"projections": z, "features": z}, torch.zeros(N, dtype=torch.long), None, torch.arange(N))
    before = {key: value.clone() for key, value in objective.state_dict().items()}
    objective(main)
    objective.diagnostics(main)
    assert all(torch.equal(value, before[key]) for key, value in objective.state_dict().items())
    objective(main)
    objective.after_step()
    assert objective.state_dict()["loss.log_mean"].isfinite().all()
    assert objective.loss.index is None


@pytest.mark.parametrize(("loss", "n_bytes"), [(NTXent(), 0), (SogCLR(), 4), (GloFND(), 16)])
def test_state_of_a_million_images(loss: Loss, n_bytes: int) -> None:
    million = Split(torch.zeros(1, 3, 1, 1, dtype=torch.uint8).expand(10**6, -1, -1, -1), torch.zeros(10**6).long())
    loss.prepare(million, n_classes=0, dim=D)
    assert sum(value.nbytes for value in loss.state_dict().values()) == n_bytes * 10**6
    assert loss.reads_index == bool(n_bytes)
