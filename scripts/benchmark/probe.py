"""A linear probe on 50,000 × 512 features of ten overlapping classes: probe.py (ours|adam)."""

import sys

import torch
import torch.nn.functional as F
from measure import Clock, report

from contrastive.evaluator.base import topk_accuracy
from contrastive.evaluator.linear import fit_logistic

N, TEST, DIM, CLASSES = 50_000, 10_000, 512, 10
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def features() -> tuple[torch.Tensor, torch.Tensor]:
    rng = torch.Generator().manual_seed(0)
    label = torch.randint(CLASSES, (N + TEST,), generator=rng)
    center = 0.09 * torch.randn(CLASSES, DIM, generator=rng)
    mix = torch.randn(DIM, DIM, generator=rng) / DIM**0.5
    x = (center[label] + torch.randn(N + TEST, DIM, generator=rng)) @ mix
    return ((x - x.mean(0)) / x.std(0)).to(DEVICE), label.to(DEVICE)


def ours(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return fit_logistic(x, label, n_classes=CLASSES, l2=1e-5, max_iter=100)


def adam(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """The debiased papers' probe: 100 epochs of Adam on batches of 512, lr 1e-3, weight decay 1e-6."""
    layer = torch.nn.Linear(DIM, CLASSES, device=DEVICE)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-3, weight_decay=1e-6)
    for _ in range(100):
        order = torch.randperm(N, device=DEVICE)
        for batch in order.split(512):
            optimizer.zero_grad()
            F.cross_entropy(layer(x[batch]), label[batch]).backward()
            optimizer.step()
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], 1)


def main(who: str) -> dict[str, float]:
    x, label = features()
    torch.manual_seed(0)
    clock = Clock()
    clock.start()
    weight = {"ours": ours, "adam": adam}[who](x[:N], label[:N])
    time = clock.stop()
    return {"accuracy": topk_accuracy(F.linear(x[N:], weight[:, :-1], weight[:, -1]), label[N:], 1), **time}


if __name__ == "__main__":
    report(**main(*sys.argv[1:]))
