"""The folders of --config-dir: their YAMLs and modules; and the names of runs, for all commands."""

import sys
from argparse import ArgumentError, ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from contrastive.config.naming import searched_in  # which also registers the resolver that names run directories
from contrastive.config.paths import CONFIGS


def search_path(folders: Sequence[Path]) -> list[str]:
    """The override that lets Hydra find the YAMLs of these folders, as --config-dir does; none without folders."""
    return searched_in([f"file://{folder.resolve()}" for folder in folders])


def config_dirs(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Folders that --config-dir names on a command line for Hydra, those that are there; and the other words."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config-dir", "-cd", action="append", default=[])
    try:
        known, others = parser.parse_known_args(words)
    except ArgumentError:  # no folder behind it, as Hydra says
        return [], list(words)
    return [Path(name).resolve() for name in known.config_dir if Path(name).is_dir()], others


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
