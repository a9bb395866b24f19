"""Learning not to learn: an adversary reads the bias from the features, the encoder removes it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from contrastive.errors import ConfigError, check_at_least
from contrastive.loss.base import Loss
from contrastive.types import Split, widen

REVERSAL = 0.1  # the authors' factor on the reversed gradient


def negative_entropy(logits: Tensor) -> Tensor:
    """mean_i Σ_c q_c log q_c of logits (S, C): at least -log C."""
    log_q = logits.log_softmax(1)
    return (log_q.exp() * log_q).sum(1).mean()


class LNL(Loss):
    """weight · mean Σ_c q_c log q_c + mean cross-entropy of q, its gradient reversed (Kim et al. 2019, eqs. 4-6).

    q is the prediction of the bias by an adversary, which reads the features. The entropy moves the encoder alone. The
    cross-entropy moves the adversary and, with its gradient times -0.1, the encoder.

    The paper's adversary reads a map inside the encoder, by convolutions. The released code of Hong & Yang 2021 takes
    the two terms in two updates of every batch.

    Args:
        weight: of the entropy, at least 0: 0.01 in the paper, 1 in Hong & Yang 2021. With 1 the encoder hid the bias
            from an adversary on a map instead of removing it (studies/biased_digits/README.md).

    Shapes: features (B, V, F), bias (B,) → scalar.

    Raises:
        ConfigError: an argument out of range, or no adversary yet.
    """

    input = "features"
    needs_bias = True
    exempt_from = {
        "scale": "the adversary reads plain features",
        "gradient": "a part of it is reversed",
        "descent": "the encoder raises the cross-entropy",
    }

    def __init__(self, *, weight: float = 0.01) -> None:
        super().__init__()
        check_at_least("weight", weight, 0, example=0.01)
        self.weight = weight
        self.adversary: nn.Sequential | None = None

    def prepare(self, train: Split, *, n_classes: int, dim: int) -> None:
        assert train.bias is not None
        self.adversary = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, int(train.bias.max()) + 1))

    def compute(self, z: Tensor, label: Tensor | None, bias: Tensor | None, anchors: slice) -> Tensor:
        assert bias is not None
        adversary, x = self._prepared(), z[anchors].flatten(0, 1)
        fixed = {name: value.detach() for name, value in adversary.named_parameters()}
        entropy = negative_entropy(functional_call(adversary, fixed, (x,)))
        logits = adversary((x + REVERSAL * x).detach() - REVERSAL * x)  # x, with the gradient times -REVERSAL
        return self.weight * entropy + F.cross_entropy(logits, bias[anchors].repeat_interleave(z.shape[1]))

    @torch.no_grad()
    def diagnostics(self, z: Tensor, label: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
        """{bias/adversary_top1: percent of the views whose bias the adversary reads}."""
        if bias is None:
            return {}
        prediction = self._prepared()(widen(z).flatten(0, 1)).argmax(1)
        return {"bias/adversary_top1": 100 * (prediction == bias.repeat_interleave(z.shape[1])).float().mean()}

    def _prepared(self) -> nn.Sequential:
        if self.adversary is None:
            raise ConfigError("LNL has no adversary yet: try loss.prepare(train, n_classes=10, dim=z.shape[2])")
        return self.adversary
