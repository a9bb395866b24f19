"""Fractions of the labels, as few-label protocols use them."""

from torch import Tensor

from contrastive.dataset._splits import stratified
from contrastive.errors import ConfigError


def draw_labels(label: Tensor, fraction: float, draw: int) -> Tensor:
    """Indices of a fixed draw of the labels (N,): the fraction of each class, at least one image; sorted."""
    _, drawn = stratified(label.cpu(), fraction, "fraction of the labels", fraction, draw)
    return drawn.to(label.device)


def in_percent(fraction: float) -> str:
    """The name of a fraction in figures: 0.1 is `10pct`."""
    return f"{100 * fraction:g}pct"


def check_fractions(name: str, fractions: tuple[float, ...]) -> None:
    """Raise ConfigError unless the fractions of the evaluator `name` lie in (0, 1]."""
    if not fractions or not all(0 < fraction <= 1 for fraction in fractions):
        raise ConfigError(
            f"evaluator.{name}.fractions is a list of numbers in (0, 1], got {list(fractions)}: "
            f"try evaluator.{name}.fractions=[0.01,0.1]"
        )
