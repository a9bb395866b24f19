"""What a `_target_` may name: anything in a composed configuration, little in one that a run directory holds.

What you type and the folders that you name are yours and may name any class. A run directory is data, perhaps a
stranger's: it may name components and your own modules, and nothing else.
"""

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra.utils import get_object

from contrastive.config.paths import CONFIGS
from contrastive.errors import ConfigError
from contrastive.run.identity import COMPONENTS

ALLOWED = (*(f"contrastive.{group}" for group in COMPONENTS), "torch.nn", "torch.optim", "torchvision.models")
# Python's own, and what lies in the current folder where that is a checkout of this project
NOT_YOURS = {*sys.stdlib_module_names, "contrastive", "scripts", "setup", "tests", "train"}


def check_targets(config: dict[str, Any], folders: Sequence[Path] = ()) -> None:
    """Check every `_target_` of a configuration that was read from a run directory or a file, nested ones too.

    Args:
        config: plain containers. folders: of modules that it may name besides the current one: those of --config-dir.

    Raises:
        ConfigError: one that is no component of this package, no class of torch.nn, torch.optim or torchvision.models,
            and of no module of yours; or a string that would be resolved later.
    """
    homes = [folder.resolve() for folder in (Path.cwd(), *folders)]
    for key, value in _leaves(config):
        if isinstance(value, str) and "${" in value:
            raise ConfigError(f"{key}={value} holds an interpolation, which no run writes: try another run")
        if key.rpartition(".")[2] == "_target_" and not _is_allowed(value, homes):
            raise ConfigError(
                f"{key}={value} is no component, and of no module in this folder: "
                "try --config-dir with the folder of the module, if you know what it does"
            )


def check_modules(config: dict[str, Any]) -> None:
    """Raise ConfigError for a `_target_` whose module Python does not find; nothing is imported, so it is quick."""
    for key, value in _leaves(config):
        first, dot, _ = str(value).partition(".")
        if key.rpartition(".")[2] == "_target_" and not (first and dot and importlib.util.find_spec(first)):
            raise ConfigError(
                f"{key}={value} names no module that Python finds: try --config-dir with the folder of {first}.py"
            )


def load_target(target: str) -> Any:
    """Import the class or function of a dotted name, as Hydra does.

    Raises:
        ConfigError: it does not exist, or cannot be imported.
    """
    try:
        return get_object(target)
    except Exception as error:  # whatever code raises at import
        reason = " ".join(f"{type(error.__cause__ or error).__name__}: {error.__cause__ or error}".split())
        raise ConfigError(
            f"_target_={target} cannot be imported ({reason}): try python train.py --help for the components there are"
        ) from error


def _leaves(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything below a node."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list | tuple) else ()
    for name, value in items:
        path = f"{key}.{name}" if key else str(name)
        yield path, value
        yield from _leaves(value, path)


def _is_allowed(target: Any, homes: list[Path]) -> bool:
    """Whether a name is a component's class or function, and is defined where it says."""
    module, _, name = target.rpartition(".") if isinstance(target, str) else ("", "", "")
    first = module.partition(".")[0]
    places = [place for place in ALLOWED if f"{module}.".startswith(f"{place}.")]
    places += ALLOWED if module == "contrastive" else ()  # its public names
    places += [first] if first and first not in NOT_YOURS and _is_yours(first, homes) else []
    if not places or not all(part.isidentifier() and not part.startswith("_") for part in target.split(".")):
        return False
    try:
        thing = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):  # such as contrastive.encoder.torchvision.torch.hub.load: no module's path
        return False
    is_function = inspect.isfunction(thing) and (first != "contrastive" or target in _shipped())
    home = f"{getattr(thing, '__module__', '')}."
    return (inspect.isclass(thing) or is_function) and any(home.startswith(f"{place}.") for place in places)


def _shipped() -> set[str]:
    """What the YAMLs of this package name: its functions besides these are none that a configuration calls."""
    return {name for path in CONFIGS.rglob("*.yaml") for name in re.findall(r"_target_: ([\w.]+)", path.read_text())}


def _is_yours(module: str, homes: list[Path]) -> bool:
    """Whether the source of a top-level module, found without importing it, lies in a folder of yours."""
    spec = importlib.util.find_spec(module)
    files = [] if spec is None else [spec.origin] if spec.origin else [*(spec.submodule_search_locations or [])]
    paths = [Path(file).resolve() for file in files if file]
    return any(
        path.is_relative_to(home) and not {"site-packages", "dist-packages"}.intersection(path.relative_to(home).parts)
        for path in paths
        for home in homes
    )
