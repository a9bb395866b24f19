"""LNL: the entropy moves the encoder alone, the cross-entropy the adversary and, reversed, the encoder."""

import torch
import torch.nn.functional as F

from contrastive.experiment.make import make
from contrastive.types import Split


def prepared(**options):
    bias = torch.arange(12) // 2 % 3
    lnl = make("regularizer/lnl", **options)
    torch.manual_seed(0)
    lnl.prepare(Split(torch.zeros(12, 3, 1, 1, dtype=torch.uint8), torch.arange(12) % 4, bias), n_classes=4, dim=4)
    z = torch.randn(12, 2, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
    return lnl, z, bias


def test_lnl_is_the_entropy_and_the_cross_entropy_with_its_gradient_reversed():
    lnl, z, bias = prepared(weight=0.3)
    logits = lnl.adversary(z.flatten(0, 1))
    q = logits.softmax(1)
    entropy, plain = 0.3 * (q * q.log()).sum(1).mean(), F.cross_entropy(logits, bias.repeat_interleave(2))
    of_entropy, *_ = torch.autograd.grad(entropy, [z], retain_graph=True)
    of_z, *of_adversary = torch.autograd.grad(plain, [z, *lnl.adversary.parameters()])
    value = lnl(z, torch.arange(12) % 4, bias)
    torch.testing.assert_close(value, entropy + plain)
    value.backward()
    torch.testing.assert_close(z.grad, of_entropy - 0.1 * of_z)
    torch.testing.assert_close([p.grad for p in lnl.adversary.parameters()], of_adversary)
