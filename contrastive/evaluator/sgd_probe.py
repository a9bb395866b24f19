"""The linear probe of SupCon's released code, which Barbano et al. use too."""

import functools

import torch

from contrastive.augmentation.compose import Compose
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.errors import ConfigError
from contrastive.evaluator._accuracy import BestEpoch, topk_accuracy
from contrastive.evaluator._minibatch import check_probe, train_linear
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores


class SGDProbe(Evaluator):
    """Test accuracy of a linear layer trained by SGD on cropped and flipped images (Khosla et al. 2020, released code).

    Features as the frozen encoder in eval mode gives them, cross-entropy, a learning rate that falls by steps. The
    published figure is that of the best test epoch; it is `best_test_top1`, selected on the test split, and the figure
    of the last probe epoch, `top1`, stands beside it.

    Args:
        lr: of SGD, above 0: 5 for SupCon, 1 for SimCLR. momentum: in [0, 1). weight_decay: at least 0.
        epochs, batch_size: at least 1. milestones: probe epochs after which lr is multiplied by `decay`.
        scale: (least, most) share of the area that a crop shows. flip: probability.
        every: epochs between points of a curve; 0 = only after training.

    Raises:
        ConfigError: an argument out of range, or features without images.
    """

    before_training = False  # it costs as much as `epochs` epochs without backward

    def __init__(
        self,
        *,
        lr: float = 5.0,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        epochs: int = 100,
        batch_size: int = 512,
        milestones: tuple[int, ...] = (60, 75, 90),
        decay: float = 0.2,
        scale: tuple[float, float] = (0.2, 1.0),
        flip: float = 0.5,
        every: int = 0,
    ) -> None:
        check_probe("sgd_probe", epochs=epochs, batch_size=batch_size, lr=lr)
        if not 0 <= momentum < 1:
            raise ConfigError(
                f"evaluator.sgd_probe.momentum must lie in [0, 1), got {momentum}: try evaluator.sgd_probe.momentum=0.9"
            )
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self.epochs, self.batch_size, self.every = epochs, batch_size, every
        self.milestones, self.decay = tuple(milestones), decay
        self.augmentation = Compose(ops={"crop": RandomResizedCrop(scale=scale, flip=flip)})
        self.protocol = (
            f"linear layer on frozen features, SGD lr {lr:g} momentum {momentum:g}, {epochs} epochs of batches of "
            f"{batch_size}, lr x {decay:g} after {', '.join(map(str, milestones))}, crop and flip "
            "(Khosla et al. 2020); best_test figures: best test epoch, as published; top1, top5: last probe epoch"
        )

    def lr_factor(self, epoch: int) -> float:
        """The factor on lr in a probe epoch, counted from 0."""
        return float(self.decay ** sum(epoch >= milestone for milestone in self.milestones))

    def __call__(self, features: FeatureSets) -> Scores:
        best, scores = BestEpoch(), features.test.h
        for scores in train_linear(
            features,
            augmentation=self.augmentation,
            optimizer=functools.partial(
                torch.optim.SGD, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay
            ),
            lr_factor=self.lr_factor,
            epochs=self.epochs,
            batch_size=self.batch_size,
            name="sgd_probe",
        ):
            best.update(scores, features.test.label)
        assert best.predictions is not None
        return Scores(
            test={
                **{f"top{k}": topk_accuracy(scores, features.test.label, k) for k in (1, 5)},
                "best_test_top1": best.top1,
            },
            predictions={"": scores.argmax(1), "best_test": best.predictions},
        )
