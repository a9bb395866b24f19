"""NT-Xent of 128 dimensions, forward and backward: loss.py (ours|lightly) ANCHORS."""

import sys
from collections.abc import Callable

import torch
from measure import Clock, peak_mib, report
from torch import Tensor

from contrastive import make

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def nt_xent(who: str) -> Callable[[Tensor], Tensor]:
    """The loss of z (B, 2, 128), from this project or from lightly."""
    if who == "ours":
        ours: Callable[[Tensor], Tensor] = make("loss/nt_xent", temperature=0.5)
        return ours
    from lightly.loss import NTXentLoss

    theirs = NTXentLoss(temperature=0.5)
    return lambda z: theirs(z[:, 0], z[:, 1])


def main(who: str, n_anchors: str) -> dict[str, float]:
    anchors = int(n_anchors)
    z = torch.randn(anchors // 2, 2, 128, generator=torch.Generator().manual_seed(0)).to(DEVICE).requires_grad_()
    loss = nt_xent(who)

    def once() -> None:
        z.grad = None
        loss(z).backward()

    peak = peak_mib(once)  # also the warm-up
    clock, n = Clock(), max(1, 8192 // anchors) ** 2 if anchors < 8192 else 2
    clock.start()
    for _ in range(n):
        once()
    time = {key: value / n for key, value in clock.stop().items()}
    return {"value": loss(z).item(), "peak_mib": peak, **time}


if __name__ == "__main__":
    report(**main(*sys.argv[1:]))
