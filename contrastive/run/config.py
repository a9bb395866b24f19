"""config.yaml of a run directory, which anybody may have written: read as data. Imports no torch."""

import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from contrastive.errors import ConfigError
from contrastive.run.identity import is_identity
from contrastive.run.yaml_files import check_yaml

NOT_ARGUMENTS = ("weights", "prefix")  # of an encoder's node: read by the program for every encoder
COMPONENTS = ("dataset", "augmentation", "encoder", "head", "loss")  # of every run, each with a `_target_`


def read_config(run: Path) -> dict[str, Any]:
    """The resolved configuration of a run.

    Raises:
        ConfigError: config.yaml is missing, damaged, no run's, or holds an interpolation.
    """
    file = run / "config.yaml"
    try:
        check_yaml(file)
        config = yaml.safe_load(file.read_text())
    except (ConfigError, OSError, ValueError, yaml.YAMLError):
        config = None
    if not is_config(config):
        raise ConfigError(f"{file} is missing or damaged: try rerun=true with the command of the run to start it over")
    if interpolation := next(_interpolations(config), None):
        raise ConfigError(f"{file} holds {interpolation}, which no run writes there: try another run")
    return config  # type: ignore[no-any-return]


def is_config(content: Any) -> bool:
    """Whether the content of a YAML is the configuration of a run."""
    if not isinstance(content, dict) or not isinstance(content.get("seed"), int):
        return False
    if not isinstance(content.get("channels_last"), bool):  # of what evaluations read, the last line of the file
        return False
    nodes = [content.get(name) for name in COMPONENTS]
    return isinstance(content.get("evaluator"), dict) and all(
        isinstance(node, dict) and isinstance(node.get("_target_"), str) for node in nodes
    )


def own_component(target: Any, groups: Sequence[str]) -> Any:
    """The class or function of this package that a file names; None for anything else, which is not imported.

    Args:
        groups: folders of the package that it may be defined in, such as encoder.
    """
    module, _, name = str(target).rpartition(".")
    is_inside = re.fullmatch(rf"contrastive\.({'|'.join(groups)})\.[a-z]\w*", module) and not name.startswith("_")
    if not is_inside or importlib.util.find_spec(module) is None:
        return None
    found = getattr(importlib.import_module(module), name, None)
    return found if getattr(found, "__module__", None) == module else None  # not what that module itself imports


def encoder_node(node: dict[str, Any], size: int | None) -> dict[str, Any]:
    """The arguments of the encoder's constructor: without weights and prefix, `image_size` filled in.

    Args:
        size: side of the dataset's images in pixels; None = not known.
    """
    arguments = {key: value for key, value in node.items() if key not in NOT_ARGUMENTS}
    if "image_size" in arguments and arguments["image_size"] is None:
        arguments["image_size"] = size
    return arguments


def dataset_below(config: dict[str, Any], data_root: str) -> dict[str, Any]:
    """The node of the dataset, with paths in the run's data_root moved to another."""
    old = str(config.get("data_root", ""))
    node = dict(config["dataset"])
    for key, value in node.items():
        if not is_identity(f"dataset.{key}") and isinstance(value, str) and Path(value).is_relative_to(old):
            node[key] = str(Path(data_root) / Path(value).relative_to(old))
    return node


def _interpolations(node: Any) -> Iterator[str]:
    """Every string below a node that OmegaConf would resolve."""
    if isinstance(node, str) and "${" in node:
        yield node
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for child in children:
        yield from _interpolations(child)
