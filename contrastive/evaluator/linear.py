"""The linear probe: multinomial logistic regression on frozen features."""

from dataclasses import dataclass

from contrastive.evaluator.base import Evaluator, FeatureSets, Scores
from contrastive.evaluator.probes import Standardizer, accuracies, fit_logistic, fit_strengths, logits


@dataclass(kw_only=True)
class Linear(Evaluator):
    """Test accuracy of logistic regression on standardized features, its strength chosen on the validation images.

    The strength is the one of `l2` with the highest accuracy on `val` (the strongest of equals), which is the
    validation metric. The classifier is then refitted on all labeled training images, and `test` is read once. Where
    the dataset draws colors, `val` shows nearly unbiased ones. Hong & Yang (2021) select by these, too; Barbano et al.
    (2023) do not. Unless `dataset.hold_out` is set, the encoder was trained on the images of `val`, and a supervised
    one also on their labels.

    Args:
        l2: strengths of at least 0, tried from strong to weak, each fit starting from the last solution.
        max_iter: Newton iterations per fit, at least 1.
    """

    protocol = (
        "logistic regression on standardized frozen features (Newton's method), strength chosen on probe_val "
        "(recolored nearly without bias where the dataset draws the colors), then refitted on all labeled training "
        "images; last epoch"
    )

    l2: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
    max_iter: int = 100

    def __call__(self, features: FeatureSets) -> Scores:
        train, val, bank, test, n = features.train, features.val, features.bank, features.test, features.n_classes
        standardize = Standardizer(train.h)
        x, x_val = standardize(train.h), standardize(val.h)
        best = fit_strengths(x, train.label, x_val, val.label, l2=self.l2, n_classes=n, max_iter=self.max_iter)
        x_bank = standardize(bank.h)
        weight = fit_logistic(x_bank, bank.label, n_classes=n, l2=best.l2, max_iter=self.max_iter, start=best.weight)
        scores = logits(weight, standardize(test.h))
        return Scores(
            test=accuracies(scores, test.label), val={"top1": best.val_top1}, predictions={"": scores.argmax(1)}
        )
