"""Base classes of losses and regularizers; a loss derives directly from one of these four and from nothing else.

Write `per_anchor(pairs)` for a contrastive loss (SelfSupervisedLoss, SupervisedContrastiveLoss), `per_batch(x, label,
bias)` if every view is a sample (SampleLoss), and `compute(z, label, bias, anchors)` for anything else (Loss).
"""

from contrastive.loss._loss import Loss, SampleLoss
from contrastive.loss._self_supervised import SelfSupervisedLoss
from contrastive.loss._supervised import SupervisedContrastiveLoss

__all__ = ["Loss", "SampleLoss", "SelfSupervisedLoss", "SupervisedContrastiveLoss"]
