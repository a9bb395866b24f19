"""Learning not to learn: an adversary reads the bias from a map inside the encoder, the encoder removes it."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from contrastive.errors import ConfigError, check_at_least, check_odd
from contrastive.regularizer.base import Regularizer
from contrastive.types import Split, widen

REVERSAL = 0.1  # the authors' factor on the reversed gradient


class _Reverse(torch.autograd.Function):
    """The identity, whose gradient is multiplied by -REVERSAL."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return -REVERSAL * gradient


def negative_entropy(logits: Tensor) -> Tensor:
    """mean_i Σ_c q_c log q_c of logits (S, C): at least -log C."""
    log_q = logits.log_softmax(1)
    return (log_q.exp() * log_q).sum(1).mean()


class LNL(Regularizer):
    """weight · mean Σ_c q_c log q_c, then a second update of adversary and encoder (Kim et al. 2019, eqs. 4-6).

    q is the adversary's prediction of the bias from a feature map inside the encoder: the one after the second of
    the four convolutions of SimpleConvNet. As in the released code of Hong & Yang 2021, every batch makes two updates:

        1. loss + weight · Σ q log q updates the encoder and the classifier, not the adversary;
        2. on the same views, embedded again, the cross-entropy of q updates the adversary and, with its gradient
           times -0.1, the encoder below the map.

    Weights without a gradient do not change in update 2. The authors' code differs here. In torch 1.7.1, which they
    pin, zero_grad() leaves gradients of zero. So their optimizer also updates the encoder above the map and the
    classifier, by momentum and weight decay. Their forward pass also goes through these layers, so that their
    BatchNorm counts every batch twice.

    The value of this regularizer is that of update 1; `adversarial` is the cross-entropy of update 2. Both use the
    optimizer of the run (theirs: one for each network, with equal settings). The adversary is theirs: two convolutions
    with BatchNorm and ReLU that double the channels each, a global average and a linear map.

    Args:
        weight: of the entropy, at least 0: 0.01 in the paper, 1 in Hong & Yang 2021. With 1 the encoder hides the
            bias from the adversary instead of removing it (studies/biased_digits/README.md).
        kernel_size: of the adversary's convolutions, odd.

    Shapes: map (B, V, C, H, W), bias (B,) → scalar.

    Raises:
        ConfigError: an argument out of range, or no adversary yet.
    """

    input = "map"
    needs_bias = True
    is_adversarial = True
    exempt_from = {"scale": "the adversary reads plain maps"}

    def __init__(self, *, weight: float = 0.01, kernel_size: int = 7) -> None:
        super().__init__()
        check_at_least("weight", weight, 0, example=0.01)
        check_odd("kernel_size", kernel_size, example=7)
        self.weight, self.kernel_size = weight, kernel_size
        self.adversary: nn.Sequential | None = None

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        assert train.bias is not None
        layers: list[nn.Module] = []
        for channels in (dim, 2 * dim):
            layers += [
                nn.Conv2d(channels, 2 * channels, self.kernel_size, padding=self.kernel_size // 2),
                # The adversary only ever sees training batches: no statistics to keep for later.
                nn.BatchNorm2d(2 * channels, track_running_stats=False),
                nn.ReLU(),
            ]
        n_biases = int(train.bias.max()) + 1
        self.adversary = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * dim, n_biases))

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        adversary = self._prepared()
        fixed = {name: value.detach().to(z.dtype) for name, value in adversary.named_parameters()}
        return self.weight * negative_entropy(functional_call(adversary, fixed, (z.flatten(0, 1),)))

    def adversarial(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> Tensor:
        assert bias is not None
        with torch.autocast(z.device.type, enabled=False):
            logits = self._prepared()(_Reverse.apply(_samples(z)))
        return F.cross_entropy(logits, bias.repeat_interleave(z.shape[1]))

    @torch.no_grad()
    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{bias/adversary_top1: percent of the views whose bias the adversary reads}."""
        if bias is None:
            return {}
        prediction = self._prepared()(_samples(z)).argmax(1)
        return {"bias/adversary_top1": 100 * (prediction == bias.repeat_interleave(z.shape[1])).float().mean()}

    def _prepared(self) -> nn.Sequential:
        if self.adversary is None:
            raise ConfigError("LNL has no adversary yet: try loss.prepare(train, n_classes=10, dim=map.shape[2])")
        return self.adversary


def _samples(z: Tensor) -> Tensor:
    """Maps (B, V, C, H, W) → (B · V, C, H, W), half precision as float32."""
    return widen(z).flatten(0, 1)
