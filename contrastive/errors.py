"""Configuration errors. Imports no torch, so that a mistake on the command line is answered at once."""

import math
import sys
from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

Numbers = float | str | Sequence[float]  # text is refused; of a list each number is checked, it must not be empty


class ConfigError(Exception):
    """Invalid configuration: one sentence that ends with what to type instead. The program exits with 2."""


class SettingError(ConfigError):
    """A value that a setting does not take; who passes the setting on under another name raises it `renamed`."""

    def __init__(self, key: str, must: str, got: object, example: object) -> None:
        super().__init__(key, must, got, example)
        self.key, self.must, self.got, self.example = key, must, got, example

    def __str__(self) -> str:
        return f"{self.key} must be {self.must}, got {self.got}: try {self.key}={self.example}"

    def renamed(self, key: str) -> "SettingError":
        """The same of another setting."""
        return SettingError(key, self.must, self.got, self.example)


def without_package(error: ModuleNotFoundError) -> SystemExit:
    """The end of a program whose Python lacks a package, as one outside of the environment does: says what to type."""
    print(f"error: this Python lacks {error.name}: try . .venv/bin/activate, or make setup", file=sys.stderr)
    return SystemExit(2)


def check_encoding() -> None:
    """End a program on Windows whose files would not be in UTF-8, as runs of other systems are: says what to type."""
    if sys.platform == "win32" and not sys.flags.utf8_mode:
        print("error: this Python writes files in another encoding than UTF-8: try set PYTHONUTF8=1", file=sys.stderr)
        raise SystemExit(2)


def check_choice(key: str, value: str, choices: Collection[str]) -> None:
    """Raise ConfigError unless `value` is one of `choices`.

    Args:
        key: the setting as it is typed, such as `loss.form`.
        choices: the accepted values, the usual one first; the sentence ends in the one that is spelled most like
            `value`, else in the usual one.
    """
    if value not in choices:
        near = [*get_close_matches(str(value), choices, n=1), *choices][0]
        raise SettingError(key, f"one of {', '.join(choices)}", value, near)


def check_at_least(key: str, value: Numbers, least: float, *, example: object) -> None:
    """Raise ConfigError unless `value` is a finite number of at least `least`, or a list of such numbers.

    Args:
        key: the setting as it is typed, such as `evaluator.knn.k`.
        example: a value to type instead.
    """
    _check(key, value, lambda x: x >= least, f"at least {least}", example)


def check_above(key: str, value: Numbers, bound: float, *, example: object) -> None:
    """Raise ConfigError unless `value` is a finite number above `bound`; see `check_at_least`."""
    _check(key, value, lambda x: x > bound, f"above {bound}", example)


def check_between(
    key: str, value: Numbers, low: float, high: float, *, example: object, exclude: Collection[float] = ()
) -> None:
    """Raise ConfigError unless `value` lies in [low, high] without the bounds in `exclude`; see `check_at_least`."""
    without = f", without {' and '.join(map(str, exclude))}" if exclude else ""
    _check(key, value, lambda x: low <= x <= high and x not in exclude, f"between {low} and {high}{without}", example)


def check_odd(key: str, value: int, *, example: int) -> None:
    """Raise ConfigError unless `value`, the side of a kernel, is an odd number above 0; see `check_at_least`."""
    _check(key, value, lambda x: x > 0 and x % 2 == 1, "odd and above 0", example)


def check_temperature(temperature: float) -> None:
    """Raise ConfigError unless t is finite and above 0; a tensor is one that a loop learns, and set later."""
    if not isinstance(temperature, int | float):
        raise ConfigError(
            f"temperature must be a number at first, got {type(temperature).__name__}: "
            "try loss.temperature = t on the finished loss"
        )
    check_above("temperature", temperature, 0, example=0.5)


def check_tau_plus(tau_plus: float, *, allow_zero: bool) -> None:
    """Raise ConfigError unless τ⁺, the prior of the anchor's class, lies in [0, 1) or (0, 1)."""
    check_between("tau_plus", tau_plus, 0, 1, exclude=(1,) if allow_zero else (0, 1), example=0.1)


def _check(key: str, value: Numbers, fits: Callable[[float], bool], bounds: str, example: object) -> None:
    numbers = [value] if isinstance(value, int | float) else list(value) if isinstance(value, list | tuple) else []
    if not numbers or not all(isinstance(x, int | float) and math.isfinite(x) and fits(x) for x in numbers):
        got = f"[{','.join(map(str, value))}]" if isinstance(value, list | tuple) else value
        raise SettingError(key, bounds, got, example)
