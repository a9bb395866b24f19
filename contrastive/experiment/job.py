"""From a composed configuration to its run: the one way, from the command line and from Python. Imports no torch."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from contrastive.config.settings import Settings, unused_overrides
from contrastive.config.targets import check_modules


def run_job(cfg: DictConfig, overrides: Sequence[str], path: Path, *, folders: Sequence[Path] = ()) -> dict[str, Any]:
    """Check the settings, then start, resume or show the run in `path`.

    Args:
        cfg: what the overrides compose. overrides: KEY=VALUE, as typed.
        folders: of modules that the configuration may name, besides the current one: that of --config-dir.

    Returns:
        The content of result.json; nothing from a dry run.

    Raises:
        ConfigError: a setting, or a combination of settings, that cannot be used.
    """
    settings = Settings.from_config(cfg)
    with importable(folders):
        check_modules(settings.to_dict())
        for key in unused_overrides(cfg, list(overrides)):
            print(f"warning: nothing reads {key} here, so {key} changes nothing")
        from contrastive.experiment.run import run_experiment  # late: torch takes seconds, mistakes do not

        return run_experiment(settings, path, tuple(overrides))


@contextmanager
def importable(folders: Sequence[Path]) -> Iterator[None]:
    """Let modules be imported from the current folder and from these, those of --config-dir, after all others."""
    before = list(sys.path)
    sys.path += [str(folder.resolve()) for folder in (Path.cwd(), *folders)]
    try:
        yield
    finally:
        sys.path[:] = before


@dataclass(frozen=True, kw_only=True)
class Request:
    """One run to evaluate again.

    Attributes:
        run: the run directory. config: its config.yaml. is_transfer: whether `dataset` was typed.
        settings: the composed settings; of use are dataset, evaluator, device, data_root, resident and rerun.
        dataset_name: in names and tables. unread: keys that were typed and that nothing reads.
    """

    run: Path
    config: dict[str, Any]
    is_transfer: bool
    settings: Settings
    dataset_name: str
    unread: tuple[str, ...]
