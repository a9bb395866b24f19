"""Checks of the operations' arguments. Every message ends with what to type."""

from collections.abc import Sequence

from contrastive.errors import ConfigError


def check_probability(key: str, value: float) -> None:
    """Raise ConfigError unless value is a number in [0, 1]."""
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"augmentation.ops.{key} is a probability, got {value}: try augmentation.ops.{key}=0.5")


def check_range(key: str, value: Sequence[float], *, most: float, example: str) -> tuple[float, float]:
    """Return value as (low, high); raise ConfigError unless 0 < low ≤ high ≤ most."""
    pair = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if len(pair) != 2 or not all(isinstance(v, int | float) for v in pair) or not 0 < pair[0] <= pair[1] <= most:
        bound = "above 0" if most == float("inf") else f"within (0, {most:g}]"
        raise ConfigError(
            f"augmentation.ops.{key} is a range [low,high] {bound}, got {value}: try augmentation.ops.{key}={example}"
        )
    return pair


def check_size(key: str, value: int | None) -> None:
    """Raise ConfigError unless value is a positive whole number or None."""
    if value is not None and (not isinstance(value, int) or not value > 0):
        raise ConfigError(f"augmentation.ops.{key} is a side in pixels, got {value}: try augmentation.ops.{key}=null")
