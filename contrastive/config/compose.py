"""The folders of --config-dir: their YAMLs and modules; and the names of runs, for all commands."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from contrastive.config.arguments import Parser
from contrastive.config.naming import searched_in  # which also registers the resolver that names run directories
from contrastive.config.paths import CONFIGS
from contrastive.errors import ConfigError


def search_path(folders: Sequence[Path]) -> list[str]:
    """The override that lets Hydra find the YAMLs of these folders, as --config-dir does; none without folders."""
    return searched_in([f"file://{folder.resolve()}" for folder in folders])


def take_config_dirs(words: list[str]) -> tuple[list[Path], list[str]]:
    """Folders named by --config-dir, and the other words: of a command line that Hydra parses.

    Raises:
        ConfigError: the flag has no value, or one that is no folder.
    """
    parser = Parser("train", "", add_help=False)
    parser.add_config_dir()
    typed, others = parser.parse_known_args(words)
    return typed.folders, others


def folders_in(words: Sequence[str]) -> list[Path]:
    """The folders of `take_config_dirs`; none where one is mistyped, of which another sentence tells."""
    try:
        return take_config_dirs(list(words))[0]
    except ConfigError:
        return []


@contextmanager
def composing() -> Iterator[None]:
    """Within, Hydra composes this package's configuration, also in a program with a Hydra of its own."""
    before = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = before  # which may be another instance by now


@contextmanager
def importable(folders: Sequence[Path]) -> Iterator[None]:
    """Let modules be imported from these folders, those of --config-dir, after all others.

    A command whose configuration is typed adds the current one; one that opens a run does not: a stranger may have
    filled it.
    """
    before = list(sys.path)
    sys.path += [str(folder.resolve()) for folder in folders]
    try:
        yield
    finally:
        sys.path[:] = before
