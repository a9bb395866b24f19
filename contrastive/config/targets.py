"""What a `_target_` may name: anything in a composed configuration, little in a file or run directory; and what its
constructor takes.

What you type and the folders that you name are yours and may name any class. A run directory is data, perhaps a
stranger's: it may name components and modules of the folders that you name, and nothing else. The current folder is
none of them by itself: it is where an archive was unpacked.

Hydra checks the types of root settings, which have a schema; nothing checks what a component's constructor gets, where
a word such as `no` is true.
"""

import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.utils import get_object

from contrastive.config import CONFIGS
from contrastive.config.identity import COMPONENTS, OF_EVERY_OPTION, targets
from contrastive.config.words import typed
from contrastive.errors import ConfigError
from contrastive.files import TYPED, misfit

ALLOWED = (*(f"contrastive.{group}" for group in COMPONENTS), "torch.nn", "torch.optim", "torchvision.models")
# Python's own, and what lies in a checkout of this project
NOT_YOURS = {*sys.stdlib_module_names, "__main__", "contrastive", "scripts", "setup", "tests", "train"}

NAME_IT = "if you know what {0} does, try --config-dir FOLDER, that of {0}.py, or in Python config_dir=FOLDER"


def check_targets(config: dict[str, Any], folders: Sequence[Path] = ()) -> None:
    """Check every `_target_` of a configuration that `read_config` read from a run directory, nested ones too.

    Args:
        config: plain containers.
        folders: of modules that it may name: those of --config-dir.

    Raises:
        ConfigError: one that is no component of this package, no class of torch.nn, torch.optim or torchvision.models,
            and of no module in the folders.
    """
    homes = [folder.resolve() for folder in folders]
    for key, target in targets(config):
        first = target.partition(".")[0] if isinstance(target, str) else ""
        may_be_yours = first.isidentifier() and first not in NOT_YOURS
        is_yours = may_be_yours and _lies_in(first, homes)
        if find_component(target, (*ALLOWED, first) if is_yours else ALLOWED) is None:
            raise ConfigError(
                f"{key}={target} is neither a component of this package nor of a module in a folder that you named: "
                + (NAME_IT.format(first) if may_be_yours else "try another run")
            )


def check_modules(config: dict[str, Any]) -> None:
    """Raise ConfigError for a `_target_` whose module Python does not find; nothing is imported, so it is quick."""
    for key, target in targets(config):
        if target is None:  # taken from a setting that is not set, as in augmentation=callable
            group = key.partition(".")[0]
            raise ConfigError(f"{key} is null: try python train.py --help {group}, which says what sets it")
        first, dot, _ = str(target).partition(".")
        if first == "__main__":  # no later command would find it, nor notice that it was edited
            raise ConfigError(
                f"{key}={target} is defined in a script or notebook: try it in a module, {key}=my_loss.MyLoss"
            )
        if not (first and dot and importlib.util.find_spec(first)):
            raise ConfigError(
                f"{key}={target} names no module that Python finds: try --config-dir with the folder of {first}.py"
            )


def check_package(name: str) -> None:
    """Raise ConfigError if a tracker's library is not installed; nothing is imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:  # the latter is a folder of that name, which the library may have left
        raise ConfigError(f"tracker=[{name}] needs the package {name}, which is not installed: try pip install {name}")


def load_target(target: str) -> Any:
    """Import the class or function of a dotted name, as Hydra does.

    Raises:
        ConfigError: it does not exist, or cannot be imported.
    """
    try:
        return get_object(target)
    except Exception as error:  # whatever code raises at import
        cause = error.__cause__ or error
        reason = " ".join(f"{type(cause).__name__}: {cause}".split())
        remedy = "a class of a module, as _target_=my_module.MyClass"
        if not isinstance(cause, ImportError | AttributeError):  # the module is there and breaks
            place = cause if isinstance(cause, SyntaxError) else traceback.extract_tb(cause.__traceback__)[-1]
            remedy = f"to mend {place.filename}, line {place.lineno}"
        raise ConfigError(f"_target_={target} cannot be imported ({reason}): try {remedy}") from error


def find_component(target: Any, places: Sequence[str]) -> Any:
    """The class or function of a dotted name, if it is defined below one of the `places`, packages or modules; or None.

    This package's classes may be called by their public name, too; of its functions only those count that a YAML names.
    """
    module, _, name = target.rpartition(".") if isinstance(target, str) else ("", "", "")
    if module != "contrastive" and not any(f"{module}.".startswith(f"{place}.") for place in places):
        return None
    if not all(part.isidentifier() and not part.startswith("_") for part in target.split(".")):
        return None
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):  # such as contrastive.encoder.torchvision.torch.hub.load: no module's path
        return None
    is_component = inspect.isclass(found) or (
        inspect.isfunction(found) and (module.partition(".")[0] != "contrastive" or target in _shipped())
    )
    home = f"{getattr(found, '__module__', '')}."
    return found if is_component and any(home.startswith(f"{place}.") for place in places) else None


def _shipped() -> set[str]:
    """What the YAMLs of this package name: its functions besides these are none that a configuration calls."""
    return {name for path in CONFIGS.rglob("*.yaml") for name in re.findall(r"_target_: ([\w.]+)", path.read_text())}


def _lies_in(module: str, homes: list[Path]) -> bool:
    """Whether a top-level module, found without importing it, lies directly in one of the folders."""
    spec = importlib.util.find_spec(module)
    places: Sequence[str | None] = [] if spec is None else spec.submodule_search_locations or [spec.origin]
    return bool(places) and all(place and Path(place).resolve().parent in homes for place in places)


def check_components(config: dict[str, Any]) -> None:
    """Check the nodes of every component; see `check_types`."""
    for group in COMPONENTS:
        node, general = config[group] or {}, OF_EVERY_OPTION.get(group, ())
        check_types({key: value for key, value in node.items() if key not in general}, group)


def check_types(node: Any, key: str) -> None:
    """Check a component's node and every node inside it.

    Args:
        node: plain containers, as instantiated.
        key: where the node stands among the settings, such as `loss`.

    Raises:
        ConfigError: a value is not of the type that the constructor declares.
    """
    for item in node if isinstance(node, list) else ():
        check_types(item, key)
    if not isinstance(node, dict):
        return
    for name, value in node.items():
        check_types(value, f"{key}.{name}")
    parameters = _parameters(node["_target_"]) if "_target_" in node else {}
    for name in node.keys() & parameters.keys():
        value, parameter = node[name], parameters[name]
        is_component = isinstance(value, dict) and "_target_" in value
        is_chosen = not is_component and value is not parameter.default
        if is_chosen and misfit(value, parameter.annotation, TYPED) is not None:
            default = parameter.default is not inspect.Parameter.empty
            raise ConfigError(
                f"{key}.{name} must be {inspect.formatannotation(parameter.annotation)}, "
                f"got {typed(value)}: try {key}.{name}={typed(parameter.default) if default else '...'}"
            )


def _parameters(target: str) -> dict[str, inspect.Parameter]:
    """The constructor's parameters; none where its signature cannot be read."""
    constructor = load_target(target)
    try:
        return dict(inspect.signature(constructor, eval_str=True).parameters)
    except Exception:  # a builtin, or whatever names in foreign annotations raise
        return {}
