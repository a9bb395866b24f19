"""The words of the command line, checked and ordered before Hydra reads them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from hydra._internal.utils import get_args_parser

from contrastive.errors import ConfigError

FLAGS_WITH_A_VALUE = (
    "--config-dir",
    "-cd",
    "--config-path",
    "-cp",
    "--config-name",
    "-cn",
    "--package",
    "-p",
    "--cfg",
    "-c",
)


@contextmanager
def command_line_of(words: list[str]) -> Iterator[None]:
    """Give Hydra these words to read, which it takes from sys.argv."""
    before = sys.argv
    sys.argv = [before[0], *words]
    try:
        yield
    finally:
        sys.argv = before


def checked_flags(words: list[str]) -> list[str]:
    """The words in the order that Hydra's parser understands.

    Raises:
        ConfigError: a flag that does not exist, lacks its value, or unpickles a file.
    """
    words = flags_first(words)
    if any("pkg://" in word for word in words):
        raise ConfigError("pkg:// would import a package: try --config-dir with a folder")
    parser = get_args_parser()
    setattr(parser, "error", _refuse_flag)  # noqa: B010  argparse prints its usage and exits
    if parser.parse_args(words).experimental_rerun is not None:
        raise ConfigError("--experimental-rerun would load a pickle, which can run anything: try typing the settings")
    return words


def take_config_dirs(words: list[str]) -> tuple[list[Path], list[str]]:
    """Folders named by --config-dir, and the other words: for the commands that Hydra does not parse.

    Raises:
        ConfigError: the flag has no value, or one that is no folder.
    """
    folders: list[Path] = []
    others: list[str] = []
    rest = list(words)
    while rest:
        word, is_joined, value = rest.pop(0).partition("=")
        if word not in ("--config-dir", "-cd"):
            others.append(word + is_joined + value)
            continue
        name = value if is_joined else rest.pop(0) if rest else ""
        if not name or not Path(name).is_dir():
            raise ConfigError(f"--config-dir needs a folder, got {name!r}: try --config-dir mine")
        folders.append(Path(name).resolve())
    return folders, others


def _refuse_flag(message: str) -> NoReturn:
    raise ConfigError(f"{message}: try python train.py --help")


def flags_first(words: list[str]) -> list[str]:
    """The command line with its flags before its overrides: Hydra's parser takes overrides in one piece only.

    Raises:
        ConfigError: a flag at the end lacks its value.
    """
    flags: list[str] = []
    overrides: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        (flags if word.startswith("-") else overrides).append(word)
        if word in FLAGS_WITH_A_VALUE:
            if not rest:
                raise ConfigError(f"{word} needs a value after it: try python train.py --help")
            flags.append(rest.pop(0))
    return [*flags, *overrides]
