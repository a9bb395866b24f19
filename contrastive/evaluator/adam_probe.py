"""The linear probe of the debiased-negative paper's released code."""

import functools

import torch

from contrastive.evaluator._accuracy import topk_accuracy
from contrastive.evaluator._minibatch import check_probe, train_linear
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores


class AdamProbe(Evaluator):
    """Test accuracy of a linear layer trained by Adam on augmented images (Chuang et al. 2020, released code).

    Features as the encoder gives them, cross-entropy, the run's own augmentation (one view), no schedule, last epoch.
    The encoder is frozen in eval mode. The released script leaves BatchNorm in training mode while the layer learns, so
    the running statistics of its "frozen" encoder drift; that is not imitated.

    Args:
        lr: of Adam, above 0. weight_decay: L2, at least 0. epochs, batch_size: at least 1.
        every: epochs between points of a curve; 0 = only after training.

    Raises:
        ConfigError: an argument out of range, or features without images.
    """

    before_training = False  # it costs as much as `epochs` epochs without backward

    def __init__(
        self,
        *,
        lr: float = 1e-3,
        weight_decay: float = 1e-6,
        epochs: int = 100,
        batch_size: int = 512,
        every: int = 0,
    ) -> None:
        check_probe("adam_probe", epochs=epochs, batch_size=batch_size, lr=lr)
        self.lr, self.weight_decay, self.epochs, self.batch_size, self.every = (
            lr,
            weight_decay,
            epochs,
            batch_size,
            every,
        )
        self.protocol = (
            f"linear layer on frozen features, Adam lr {lr:g} weight decay {weight_decay:g}, {epochs} epochs of "
            f"batches of {batch_size}, training augmentation on, last probe epoch (Chuang et al. 2020); last epoch"
        )

    def __call__(self, features: FeatureSets) -> Scores:
        scores = features.test.h
        for epoch_scores in train_linear(
            features,
            augmentation=None,
            optimizer=functools.partial(torch.optim.Adam, lr=self.lr, weight_decay=self.weight_decay),
            lr_factor=lambda epoch: 1.0,
            epochs=self.epochs,
            batch_size=self.batch_size,
            name="adam_probe",
        ):
            scores = epoch_scores
        return Scores(
            test={f"top{k}": topk_accuracy(scores, features.test.label, k) for k in (1, 5)},
            predictions={"": scores.argmax(1)},
        )
