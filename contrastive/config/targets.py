"""A configuration is data, not a program: what a `_target_` may name, decided before anything is imported.

Allowed are the components of this package, classes of torch.nn and torch.optim, models of torchvision, and modules
that the user trusts: their file lies in the current folder or in that of --config-dir, or a typed `trust=[my_loss]`
names them.
Two checks belong together. `check_targets` reads names and imports nothing. `load_target` imports a name that passed
and refuses what is only passing through: `contrastive.dataset.cifar.torch.load` begins well and ends elsewhere.
"""

import importlib.util
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError

COMPONENTS = (
    "dataset", "augmentation", "encoder", "head", "loss", "regularizer", "optimizer", "schedule", "evaluator",
)  # fmt: skip
OWN = tuple(f"contrastive.{group}" for group in COMPONENTS)
LIBRARIES = ("torch.nn", "torch.optim", "torchvision.models")


def check_targets(settings: dict[str, Any], *, trust: Iterable[str] = (), folders: Iterable[Path]) -> None:
    """Check every `_target_` of a configuration, wherever it is nested. Imports nothing.

    Args:
        settings: the resolved configuration, plain containers. trust: modules that the user vouches for.
        folders: whoever may write here may also run code: the current folder and that of --config-dir.

    Raises:
        ConfigError: a component without a `_target_`, or one that names something else than what is allowed.
    """
    for group in COMPONENTS[:-1]:
        node = settings[group]
        is_absent = group == "regularizer" and not node
        if not is_absent and not (isinstance(node, dict) and "_target_" in node):
            raise ConfigError(f"the YAML of {group} has no _target_: try _target_: my_{group}.MyClass in it")
    homes = [folder.resolve() for folder in folders]
    for key, value in _values(settings):
        if key.endswith("._target_"):
            _check_name(value, key=key, trust=trust, folders=homes)
        elif isinstance(value, dict) and str(value.get("_target_")).startswith("torchvision."):
            _check_no_weights(value, key=key)
        elif isinstance(value, str) and "${" in value:  # building a component would resolve it, after the checks
            raise ConfigError(f"{key}={value} holds an interpolation that was escaped: try it without the backslash")


def typed_trust(words: Iterable[str]) -> list[str]:
    """The modules that `trust=[...]` on a command line vouches for."""
    values = (word.partition("=")[2] for word in words if word.lstrip("+").startswith("trust="))
    return re.findall(r"\w+", " ".join(values))


def check_trust(trust: Iterable[str], typed: Iterable[str]) -> None:
    """Raise ConfigError for modules that nobody typed: a YAML, perhaps somebody else's, cannot vouch for itself."""
    if untyped := [str(name) for name in trust if name not in typed]:
        names = f"trust=[{','.join(untyped)}]"
        raise ConfigError(f"{names} stands in a YAML, which cannot vouch for itself: try {names} on the command line")


def _values(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of everything below a node, containers among them."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list | tuple) else ()
    for name, value in items:
        path = f"{key}.{name}" if key else str(name)
        yield path, value
        yield from _values(value, path)


def _check_name(target: Any, *, key: str, trust: Iterable[str], folders: list[Path]) -> None:
    parts = target.split(".") if isinstance(target, str) else []
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        raise ConfigError(f"{key} must be a dotted name, got {target}: try {key}=my_module.MyClass")
    if any(part.startswith("_") for part in parts):
        raise ConfigError(f"{key}={target} names something private: try python train.py --help")
    if parts[0] == "contrastive" and (len(parts) == 2 or ".".join(parts[:2]) in OWN):
        return
    if any(target.startswith(f"{library}.") for library in LIBRARIES):
        return
    if parts[0] in ("contrastive", "torch", "torchvision"):
        raise ConfigError(f"{key}={target} is no component: try python train.py --help")
    if parts[0] in trust:
        return
    if parts[0] in sys.stdlib_module_names:
        raise ConfigError(
            f"{key}={target} is refused, because {parts[0]} is of Python's own library: "
            f"try trust=[{parts[0]}] if you know what it does, or another name for a module of yours"
        )
    if not _lies_in(parts[0], folders, key=key, target=target):
        raise ConfigError(
            f"{key}={target} is refused, because {parts[0]} lies neither in this folder nor under --config-dir: "
            f"try trust=[{parts[0]}] if you know what it does"
        )


def _check_no_weights(node: dict[str, Any], *, key: str) -> None:
    """Refuse weights that torchvision would download, or take from a folder of downloads, and unpickle unchecked."""
    for name, value in node.items():
        is_weights = name == "_args_" or (("weights" in name or "pretrained" in name) and name != "init_weights")
        if is_weights and value:
            raise ConfigError(
                f"{key}.{name} would load unchecked weights: try encoder=torchvision encoder.pretrained=true"
            )


def _lies_in(module: str, folders: list[Path], *, key: str, target: str) -> bool:
    """Whether a top-level module's file, found without importing it, lies in the folders: libraries there do not."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        raise ConfigError(
            f"{key}={target} names a module that Python does not find: "
            f"try --config-dir with the folder of {module}.py, or PYTHONPATH with one that lies below this folder"
        )
    if spec.submodule_search_locations is not None:
        files = [Path(folder) for folder in spec.submodule_search_locations]
    else:
        files = [Path(spec.origin)] if spec.has_location and spec.origin else []
    homes = [file.resolve().parent for file in files]
    library = Path(sysconfig.get_path("stdlib")).resolve()  # parts of it are not among sys.stdlib_module_names: test
    is_own = not any(home.is_relative_to(library) for home in homes)
    return bool(homes) and is_own and all(any(_is_inside(home, folder) for folder in folders) for home in homes)


def _is_inside(home: Path, folder: Path) -> bool:
    """Whether a module's folder is `folder` or below it, but not a library installed there."""
    if not home.is_relative_to(folder):
        return False
    below = home.relative_to(folder).parts
    return not any(part in ("site-packages", "dist-packages") or part.startswith(".") for part in below)


def load_target(target: str) -> Any:
    """Import the class or function that a checked name stands for.

    Raises:
        ConfigError: it does not exist, cannot be imported, or is defined elsewhere than where its name says.
    """
    try:
        thing = _locate(target)
    except Exception as error:  # whatever code raises at import
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ConfigError(
            f"_target_={target} cannot be imported ({reason}): try python train.py --help for the components there are"
        ) from error
    home = getattr(thing, "__module__", None)
    is_callable = inspect.isclass(thing) or inspect.isroutine(thing)
    if not is_callable or not isinstance(home, str) or not _belongs(target, home, is_class=inspect.isclass(thing)):
        raise ConfigError(f"_target_={target} is no component, but comes from {home}: try python train.py --help")
    return thing


def _locate(target: str) -> Any:
    """The object of a dotted name, found as Hydra finds it: an attribute, else a submodule."""
    first, *rest = target.split(".")
    thing: Any = import_module(first)
    path = first
    for part in rest:
        path = f"{path}.{part}"
        try:
            thing = getattr(thing, part)
        except AttributeError:
            if not inspect.ismodule(thing):
                raise
            thing = import_module(path)
    return thing


def _belongs(target: str, home: str, *, is_class: bool) -> bool:
    """Whether something of the module `home` is what one would expect under the name."""
    family = target.split(".")[0]
    if family == "contrastive":
        return home.startswith(tuple(f"{group}." for group in OWN)) and "._" not in home
    if family in ("torch", "torchvision"):
        library = next(library for library in LIBRARIES if target.startswith(f"{library}."))
        return home.startswith(f"{library}.") and (is_class or _is_classifier(target))
    return home.split(".")[0] == family


def _is_classifier(target: str) -> bool:
    """Whether a function is `torchvision.models.NAME` of a classification network; others fetch weights unasked."""
    from torchvision import models  # late: names are checked without it

    return target.removeprefix("torchvision.models.") in models.list_models(module=models)
