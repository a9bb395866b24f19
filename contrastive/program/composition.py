"""Check what Hydra reads and composes before it acts on it.

Between composing a configuration and the first line of our own code Hydra starts callbacks, sets up logging and builds
a launcher and a sweeper, each from classes that the configuration names. It has no hook in between, so its loader is
replaced by one that checks.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from hydra._internal import hydra as hydra_module
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from contrastive.errors import ConfigError
from contrastive.program.yaml_files import check_yaml

PLUGINS = re.compile(r"hydra_plugins\.\w+\.\w+\.\w+|hydra\._internal\.core_plugins\.\w+\.\w+|optuna\.samplers\.\w+")
LOGGING = (
    "logging.StreamHandler", "logging.FileHandler", "logging.NullHandler", "logging.Formatter",
    "logging.handlers.RotatingFileHandler", "colorlog.ColoredFormatter",
)  # fmt: skip
STREAMS = ("ext://sys.stdout", "ext://sys.stderr")


class CheckedRepository(ConfigRepository):
    """Hydra's access to YAML files, which looks at a file before OmegaConf writes its aliases out."""

    def load_config(self, config_path: str) -> ConfigResult | None:
        source = self._find_object_source(config_path=config_path, object_type=ObjectType.CONFIG)
        if source is not None and source.scheme() == "file":
            check_yaml(Path(source.path) / source._normalize_file_name(config_path))
        return super().load_config(config_path)


class CheckedLoader(ConfigLoaderImpl):
    """Hydra's composition, followed by `check_hydra`."""

    def __init__(self, config_search_path: ConfigSearchPath) -> None:
        super().__init__(config_search_path)
        self.repository = CheckedRepository(config_search_path)

    def load_configuration(
        self,
        config_name: str | None,
        overrides: list[str],
        run_mode: RunMode,
        from_shell: bool = True,
        validate_sweep_overrides: bool = True,
    ) -> DictConfig:
        cfg = super().load_configuration(config_name, overrides, run_mode, from_shell, validate_sweep_overrides)
        check_hydra(cfg)
        return cfg


@contextmanager
def checked_composition() -> Iterator[None]:
    """While this holds, Hydra composes with `CheckedLoader`."""
    original = hydra_module.ConfigLoaderImpl
    hydra_module.ConfigLoaderImpl = CheckedLoader  # type: ignore[misc]
    try:
        yield
    finally:
        hydra_module.ConfigLoaderImpl = original  # type: ignore[misc]


def check_hydra(cfg: DictConfig) -> None:
    """Check the node that configures Hydra itself: only its own plugins and Python's logging are started from it.

    Raises:
        ConfigError: anything else would be.
    """
    node = cast(dict[str, Any], OmegaConf.to_container(cfg.hydra, resolve=False))
    if node["job"]["env_set"]:
        name = next(iter(node["job"]["env_set"]))
        raise ConfigError(f"hydra.job.env_set may not set variables: try {name}=... python train.py")
    for key in ("callbacks", "launcher", "sweeper"):
        _check_plugins(_resolved(cfg, key), f"hydra.{key}")
    for key in ("hydra_logging", "job_logging"):
        _check_logging(_resolved(cfg, key), f"hydra.{key}")
    for key in ("run.dir", "sweep.dir"):
        if OmegaConf.select(cfg.hydra, key, throw_on_resolution_failure=False) == "":
            raise ConfigError(f"hydra.{key} is empty and would be this folder: try hydra.{key}=outputs/mine")


def _resolved(cfg: DictConfig, key: str) -> Any:
    """One part of Hydra's node; what names the current job cannot be resolved yet and names no class."""
    text = OmegaConf.select(cfg.hydra, key)
    try:
        return OmegaConf.to_container(text, resolve=True) if OmegaConf.is_config(text) else text
    except Exception:  # of the many kinds of resolvers
        return OmegaConf.to_container(text, resolve=False)


def _check_plugins(node: Any, key: str) -> None:
    for name, value in _items(node):
        path = f"{key}.{name}"
        if name == "_target_" and not (isinstance(value, str) and PLUGINS.fullmatch(value)):
            raise ConfigError(f"{path}={value} is no plugin of Hydra: try it without")
        if name == "custom_search_space" and value is not None:
            raise ConfigError(f"{path}={value} would run code of its own: try hydra.sweeper.params")
        if isinstance(value, str) and name == "_target_":
            continue
        _check_plugins(value, path)


def _check_logging(node: Any, key: str) -> None:
    for name, value in _items(node):
        path = f"{key}.{name}"
        if name in ("()", "class") and value not in LOGGING:
            raise ConfigError(f"{path}={value} is no handler of Python's logging: try one of {', '.join(LOGGING[:3])}")
        if isinstance(value, str) and re.search(r"ext://|cfg://", value) and value not in STREAMS:
            raise ConfigError(f"{path}={value} would import a module: try {STREAMS[0]}")
        _check_logging(value, path)


def _items(node: Any) -> list[tuple[Any, Any]]:
    if isinstance(node, dict):
        return list(node.items())
    return list(enumerate(node)) if isinstance(node, list) else []
