"""Configuration errors. Imports no torch, so that a mistake on the command line is answered at once."""

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
