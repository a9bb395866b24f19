"""Check what Hydra reads and composes before it acts on it.

Between composing a configuration and the first line of our own code Hydra starts callbacks, sets up logging and builds
a launcher and a sweeper, each from classes that the configuration names. It has no hook in between, so its loader is
replaced by one that checks.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from hydra import compose
from hydra._internal import hydra as hydra_module
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository
from hydra._internal.utils import get_args_parser
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from contrastive.config.paths import CONFIGS
from contrastive.config.settings import Settings, check_yaml_booleans
from contrastive.errors import ConfigError
from contrastive.run.files import check_yaml

LOADER = "ConfigLoaderImpl"  # the name under which hydra.main finds it
PLUGINS = re.compile(r"hydra_plugins\.\w+\.\w+(\.\w+)?|hydra\._internal\.core_plugins\.\w+\.\w+|optuna\.samplers\.\w+")
LOGGING = (
    "logging.StreamHandler", "logging.FileHandler", "logging.NullHandler", "logging.Formatter",
    "logging.handlers.RotatingFileHandler", "colorlog.ColoredFormatter",
)  # fmt: skip
IMPORTS = re.compile(r"\w+://")  # ext://module is imported by logging.config
HARMLESS = re.compile(r"ext://sys\.std(out|err)|\$\{hydra\.runtime\.output_dir\}/[^:]*")
# of a log file, which logging may empty
IN_THE_RUN = re.compile(r"\$\{hydra\.runtime\.output_dir\}/(\$\{hydra\.job\.name\})?[^/:$]*")


class CheckedRepository(ConfigRepository):
    """Hydra's access to YAML files, which looks at a user's file before OmegaConf writes its aliases out."""

    def initialize_sources(self, config_search_path: ConfigSearchPath) -> None:
        for element in config_search_path.get_path():
            path, scheme = str(element.path), re.match(r"[^/]*://", str(element.path))
            typed = str(element.provider).startswith("hydra.searchpath")  # the others are Hydra's and train.py's own
            if typed and scheme and scheme[0] != "file://":
                raise ConfigError(f"hydra.searchpath={path} would import a module: try file:// and a folder")
        super().initialize_sources(config_search_path)

    def load_config(self, config_path: str) -> ConfigResult | None:
        source = self._find_object_source(config_path=config_path, object_type=ObjectType.CONFIG)
        if source is None or source.scheme() != "file" or Path(source.path) == CONFIGS:
            return super().load_config(config_path)
        path = Path(source.path) / source._normalize_file_name(config_path)
        check_yaml(path)
        try:
            result = super().load_config(config_path)
        except Exception as error:  # of YAML's constructors, OmegaConf and Hydra
            reason = " ".join(str(error).split())
            raise ConfigError(f"{path} cannot be used ({reason}): compare it with configs/loss/nt_xent.yaml") from error
        if result is not None and result.header.get("package") == "_global_":
            check_yaml_booleans(OmegaConf.to_container(result.config, resolve=False), path)
        return result


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
        try:
            cfg = super().load_configuration(config_name, overrides, run_mode, from_shell, validate_sweep_overrides)
        except (TypeError, AttributeError, LookupError, AssertionError, RecursionError) as error:  # for odd values
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise ConfigError(f"these words make no configuration ({reason}): try python train.py --help") from error
        except ValueError as error:
            if type(error) is not ValueError:  # OmegaConf's own, which messages.py knows
                raise
            if "Config group override" in str(error):
                said = "a group needs one of its options, not null and no number: try python train.py --help"
                raise ConfigError(said) from error
            reason = " ".join(str(error).split())
            raise ConfigError(f"these YAMLs make no configuration ({reason}): try python train.py --help") from error
        check_hydra(cfg)
        if sorted([*cfg.hydra.overrides.hydra, *cfg.hydra.overrides.task]) != sorted(overrides):
            raise ConfigError("hydra.overrides is what was typed and stands in no YAML: try without it")
        return cfg


@contextmanager
def checked_composition() -> Iterator[None]:
    """While this holds, Hydra composes with `CheckedLoader`, and configurations read DATA_ROOT alone."""
    setattr(hydra_module, LOADER, CheckedLoader)
    try:
        yield
    finally:
        setattr(hydra_module, LOADER, ConfigLoaderImpl)


def search_path(folders: Sequence[Path]) -> list[str]:
    """The override that lets Hydra find the YAMLs of these folders, as --config-dir does; none without folders."""
    names = [str(folder.resolve()).replace("\\", "\\\\").replace("'", "\\'") for folder in folders]
    quoted = ",".join("'file://" + name + "'" for name in names)
    return [f"hydra.searchpath=[{quoted}]"] if folders else []


def check_hydra(cfg: DictConfig) -> None:
    """Check the node that configures Hydra itself: only its own plugins and Python's logging are started from it.

    Interpolations are looked at as they are written: the run's name, one of them, composes configurations in turn.

    Raises:
        ConfigError: anything else would be.
    """
    node = cast(dict[str, Any], OmegaConf.to_container(cfg.hydra, resolve=False))
    if node["job"]["env_set"]:
        name = next(iter(node["job"]["env_set"]))
        raise ConfigError(f"hydra.job.env_set may not set variables: try {name}=... python train.py")
    if re.search("[/$]", str(node["job"]["name"])):
        raise ConfigError(f"hydra.job.name={node['job']['name']} names a file elsewhere: try hydra.job.name=train")
    if not isinstance(node["verbose"], bool | str | list):
        raise ConfigError(
            f"hydra.verbose must be true, false or a logger, got {node['verbose']}: try hydra.verbose=true"
        )
    for key in ("launcher", "sweeper"):
        _check_plugin(node[key], f"hydra.{key}")
    for key in ("hydra_logging", "job_logging"):
        _check_logging(node[key], f"hydra.{key}")
    for key in ("run", "sweep"):
        if not node[key]["dir"]:
            raise ConfigError(f"hydra.{key}.dir is empty and would be this folder: try hydra.{key}.dir=outputs/mine")


def _check_plugin(node: Any, key: str) -> None:
    """A launcher or a sweeper: classes of Hydra's plugins, and interpolations into Hydra's own node."""
    if key.endswith("._target_") and not PLUGINS.fullmatch(str(node)):
        raise ConfigError(f"{key}={node} is no plugin of Hydra: try it without")
    if key.endswith(".custom_search_space") and node is not None:
        raise ConfigError(f"{key}={node} would run code of its own: try hydra.sweeper.params")
    if isinstance(node, str) and re.search(r"\$\{(?!hydra[.:])", node):
        raise ConfigError(f"{key}={node} refers to what is not Hydra's: try the value itself")
    for name, value in _items(node):
        _check_plugin(value, f"{key}.{name}")


def _check_logging(node: Any, key: str) -> None:
    """A configuration of Python's logging: its own handlers, and strings that import nothing."""
    if key.endswith((".()", ".class")) and node not in LOGGING:
        raise ConfigError(f"{key}={node} is no handler of Python's logging: try one of {', '.join(LOGGING[:3])}")
    if key.endswith(".filename") and not IN_THE_RUN.fullmatch(str(node)):
        raise ConfigError(f"{key}={node} may lie outside the run: try ${{hydra.runtime.output_dir}}/my.log")
    if isinstance(node, str) and (IMPORTS.search(node) or "${" in node) and not HARMLESS.fullmatch(node):
        raise ConfigError(f"{key}={node} could import a module: try ext://sys.stdout")
    for name, value in _items(node):
        _check_logging(value, f"{key}.{name}")


def _items(node: Any) -> list[tuple[Any, Any]]:
    """The children of a node with their keys or places."""
    if isinstance(node, dict):
        return list(node.items())
    return list(enumerate(node)) if isinstance(node, list) else []


@dataclass(frozen=True)
class Composer:
    """Composes words, with the options of a folder of one's own; Hydra must be initialized while it does.

    Attributes:
        folder: that of --config-dir, or None.
    """

    folder: Path | None

    def settings(self, words: tuple[str, ...]) -> dict[str, Any]:
        """All of it, resolved."""
        return Settings.from_config(self._compose(words)).to_dict()

    def dataset(self, words: tuple[str, ...]) -> dict[str, Any]:
        """The dataset's node, resolved."""
        return cast(dict[str, Any], OmegaConf.to_container(self._compose(words).dataset, resolve=True))

    def _compose(self, words: tuple[str, ...]) -> DictConfig:
        return compose("train", [*words, *search_path([] if self.folder is None else [self.folder])])


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
