"""Configuration errors. Imports no torch, so that a mistake on the command line is answered at once."""

import math
from collections.abc import Collection


class ConfigError(Exception):
    """Invalid configuration: one sentence that ends with what to type instead. The program exits with 2."""


def check_choice(key: str, value: str, choices: Collection[str]) -> None:
    """Raise ConfigError unless `value` is one of `choices`.

    Args:
        key: the setting as it is typed, such as `loss.form`. choices: the accepted values, the usual one first.
    """
    if value not in choices:
        raise ConfigError(f"{key} must be one of {', '.join(choices)}, got {value}: try {key}={next(iter(choices))}")


def check_at_least(key: str, value: float, least: float, *, example: object) -> None:
    """Raise ConfigError unless `value` is a finite number of at least `least`.

    Args:
        key: the setting as it is typed, such as `evaluator.knn.k`. example: a value to type instead.
    """
    _check(least <= value < math.inf, key, f"at least {least:g}", value, example)


def check_above(key: str, value: float, bound: float, *, example: object) -> None:
    """Raise ConfigError unless `value` is a finite number above `bound`; arguments as in `check_at_least`."""
    _check(bound < value < math.inf, key, f"above {bound:g}", value, example)


def check_between(key: str, value: float, low: float, high: float, *, example: object) -> None:
    """Raise ConfigError unless `value` lies in [low, high]; arguments as in `check_at_least`."""
    _check(low <= value <= high and math.isfinite(value), key, f"between {low:g} and {high:g}", value, example)


def _check(fits: bool, key: str, bounds: str, value: float, example: object) -> None:
    if not fits:
        raise ConfigError(f"{key} must be {bounds}, got {value}: try {key}={example}")


def check_temperature(temperature: float) -> None:
    """Raise ConfigError unless t is finite and above 0."""
    if not 0 < temperature < math.inf:
        raise ConfigError(f"temperature must be above 0, got {temperature}: try temperature=0.5")


def check_tau_plus(tau_plus: float, *, allow_zero: bool) -> None:
    """Raise ConfigError unless τ⁺ lies in [0, 1) or, without `allow_zero`, in (0, 1)."""
    if not 0 <= tau_plus < 1 or (tau_plus == 0 and not allow_zero):
        interval = "[0, 1)" if allow_zero else "(0, 1)"
        raise ConfigError(
            f"tau_plus, the prior of the anchor's class, must lie in {interval}, got {tau_plus}: try tau_plus=0.1"
        )
