"""The linear probe: multinomial logistic regression on frozen features."""

import torch
import torch.nn.functional as F
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.evaluator._accuracy import top
from contrastive.seeding import generator
from contrastive.types import Features

FEW_SHOT_DRAWS = 5


class LinearProbe:
    """`probe(train, val, everything, test, n_classes) → ({metric: percent}, test scores)`, full batch, deterministic.

    Features are standardized with the training set's mean and deviation and a linear classifier minimizes
    mean cross-entropy + l2/2 · |W|² by L-BFGS. The strength is the one of `l2` with the highest accuracy on `val`
    (the strongest of equals), which is reported as `val_top1`; the classifier is then refitted on `everything` that
    is labeled, and `test` is read once. `few_shot_top1` is the mean over five fixed draws of `shots` training images
    per class, with strength few_shot_l2.

    Args:
        l2: strengths, tried from strong to weak, each starting from the last solution.
        max_iter: L-BFGS iterations per fit.
        shots: training images per class of the few-shot probe.
    """

    def __init__(self, *, l2: list[float], max_iter: int, shots: int, few_shot_l2: float) -> None:
        if not l2 or not min(l2) >= 0:
            raise ConfigError(f"probe.l2 is a list of strengths of at least 0, got {l2}: try probe.l2=[1e-2,1e-3,1e-4]")
        if not max_iter >= 1:
            raise ConfigError(f"probe.max_iter must be at least 1, got {max_iter}: try probe.max_iter=100")
        if not shots >= 1:
            raise ConfigError(f"probe.shots must be at least 1, got {shots}: try probe.shots=5")
        self.l2, self.max_iter = sorted(l2, reverse=True), max_iter
        self.shots, self.few_shot_l2 = shots, few_shot_l2

    def __call__(
        self, train: Features, val: Features, everything: Features, test: Features, n_classes: int
    ) -> tuple[dict[str, float], Tensor]:
        mean, std = train.h.mean(0), train.h.std(0).clamp(min=1e-6)
        x, x_val, x_test = ((part.h - mean) / std for part in (train, val, test))
        x_all = (everything.h - mean) / std
        best, best_l2, solution = -1.0, self.l2[0], None
        for l2 in self.l2:
            solution = self.fit(x, train.label, n_classes, l2, solution)
            accuracy = top(_scores(solution, x_val), val.label, 1)
            if accuracy > best:
                best, best_l2, chosen = accuracy, l2, solution
        scores = _scores(self.fit(x_all, everything.label, n_classes, best_l2, chosen), x_test)
        return {
            "val_top1": best,
            "linear_top1": top(scores, test.label, 1),
            "linear_top5": top(scores, test.label, 5),
            "few_shot_top1": self._few_shot(x, train.label, x_test, test.label, n_classes),
        }, scores

    def fit(self, x: Tensor, label: Tensor, n_classes: int, l2: float, start: Tensor | None = None) -> Tensor:
        """(C, F + 1) weights, the last column the bias, that minimize the regularized cross-entropy on x (N, F).

        L-BFGS in coordinates where the Hessian of small weights, Cov(x) p (1 - p) + l2 with p = 1/C, is the identity: a
        few dozen iterations instead of hundreds.
        """
        share = 1 / n_classes
        hessian = (x.T @ x).double() * (share * (1 - share) / len(x))
        hessian.diagonal().add_(l2 + 1e-6 * hessian.trace() + 1e-12)
        root = torch.linalg.cholesky(hessian).to(x.dtype)
        inverse = torch.linalg.solve_triangular(root, torch.eye(len(root), device=x.device), upper=False)
        start = x.new_zeros(n_classes, x.shape[1] + 1) if start is None else start
        free = torch.cat([start[:, :-1] @ root, start[:, -1:]], 1).requires_grad_()
        optimizer = torch.optim.LBFGS(
            [free], max_iter=self.max_iter, tolerance_grad=1e-5, tolerance_change=1e-7, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            weight = free[:, :-1] @ inverse
            value = F.cross_entropy(F.linear(x, weight, free[:, -1]), label) + l2 / 2 * weight.square().sum()
            value.backward()
            return value

        optimizer.step(closure)
        return torch.cat([free[:, :-1] @ inverse, free[:, -1:]], 1).detach()

    def read_out(self, h: Tensor, target: Tensor, h_test: Tensor, target_test: Tensor, n: int) -> float:
        """Percent of h_test whose target, one of n, a regression on h (strength few_shot_l2) reads from it."""
        mean, std = h.mean(0), h.std(0).clamp(min=1e-6)
        weight = self.fit((h - mean) / std, target, n, self.few_shot_l2)
        return top(_scores(weight, (h_test - mean) / std), target_test, 1)

    def _few_shot(self, x: Tensor, label: Tensor, x_test: Tensor, test_label: Tensor, n_classes: int) -> float:
        scores = []
        for draw in range(FEW_SHOT_DRAWS):
            order = torch.randperm(len(x), generator=generator("cpu", "few shot", draw)).to(x.device)
            few = torch.cat([order[label[order] == c][: self.shots] for c in range(n_classes)])
            weight = self.fit(x[few], label[few], n_classes, self.few_shot_l2)
            scores.append(top(_scores(weight, x_test), test_label, 1))
        return sum(scores) / len(scores)


def _scores(weight: Tensor, x: Tensor) -> Tensor:
    return F.linear(x, weight[:, :-1], weight[:, -1])
