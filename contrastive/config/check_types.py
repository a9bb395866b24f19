"""Compare the values of component nodes with the annotations of the constructors they go to.

Hydra checks the types of root settings, which have a schema; nothing checks what a component's constructor gets, where
a word such as `no` is true.
"""

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from torch import Tensor

from contrastive.config.settings import Settings
from contrastive.config.targets import COMPONENTS, load_target
from contrastive.errors import ConfigError

KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", type(None): "null"}
UNIONS = (Union, types.UnionType)
FLAGS = {"_args_": (list, "a list"), "_partial_": (bool, "true or false"), "_recursive_": (bool, "true or false")}
MAPPINGS = (dict, Mapping)
LISTS = (tuple, list, Sequence)


def check_components(settings: Settings) -> None:
    """Check the nodes of every component; see `check_types`."""
    for group in COMPONENTS:
        check_types(getattr(settings, group), group)


def check_types(node: Any, key: str) -> None:
    """Check a component's node and every node inside it.

    Args:
        node: plain containers, as instantiated. key: where the node stands among the settings, such as `loss`.

    Raises:
        ConfigError: a value is not of the type that the constructor declares.
    """
    if isinstance(node, list):
        for item in node:
            check_types(item, key)
    if not isinstance(node, dict):
        return
    for name, value in node.items():
        check_types(value, f"{key}.{name}")
    for name, (kind, words) in FLAGS.items():
        if name in node and not isinstance(node[name], kind):
            raise ConfigError(f"{key}.{name} must be {words}, got {_typed(node[name])}: try it without")
    parameters = _parameters(node["_target_"]) if "_target_" in node else {}
    for name, value in node.items():
        parameter = parameters.get(name)
        if parameter is None or value is parameter.default or (isinstance(value, dict) and "_target_" in value):
            continue
        if not fits(value, parameter.annotation):
            expected = " or ".join(dict.fromkeys(_describe(parameter.annotation)))
            raise ConfigError(
                f"{key}.{name} must be {expected}, got {_typed(value)}: try {key}.{name}={_example(parameter)}"
            )


def _parameters(target: str) -> dict[str, inspect.Parameter]:
    """The constructor's parameters; none where its signature cannot be read."""
    constructor = load_target(target)
    try:
        return dict(inspect.signature(constructor, eval_str=True).parameters)
    except Exception:  # a builtin, or whatever names in foreign annotations raise
        return {}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value from a YAML is of the annotated type; annotations that no YAML value could break always fit."""
    if get_origin(hint) in UNIONS:
        return any(fits(value, option) for option in get_args(hint))
    if hint is None or hint is type(None):
        return value is None
    if isinstance(value, dict):
        return get_origin(hint) not in LISTS and hint not in KINDS
    if get_origin(hint) in MAPPINGS:
        return False
    if hint is float:
        return type(value) in (int, float)
    if hint is str:
        return type(value) in (str, int, float)  # a folder may be called 2024
    if hint in KINDS:
        return type(value) is hint
    if get_origin(hint) in LISTS:
        return isinstance(value, list | tuple) and _items_fit(list(value), get_args(hint))
    return hint is not Tensor


def _items_fit(values: list[Any], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 1 or hints[1:] == (...,):
        return all(fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(fits, values, hints))


def _describe(hint: Any) -> list[str]:
    """The types of an annotation in words."""
    if get_origin(hint) in UNIONS:
        return [word for option in get_args(hint) for word in _describe(option)]
    if get_origin(hint) in LISTS:
        hints = get_args(hint)
        count = "" if len(hints) == 1 or hints[1:] == (...,) else f"{len(hints)} "
        return [f"a list of {count}{'whole numbers' if hints[0] is int else 'numbers'}"]
    if get_origin(hint) in MAPPINGS:
        return ["a mapping"]
    return [KINDS[hint]] if hint in KINDS else []


def _example(parameter: inspect.Parameter) -> str:
    """What to type: the default, else a value of the type."""
    if parameter.default is not inspect.Parameter.empty:
        return _typed(parameter.default)
    examples = {bool: "false", int: "1", float: "1.0", str: "TEXT"}
    return examples.get(parameter.annotation, "null")


def _typed(value: Any) -> str:
    """A value as it is typed on the command line."""
    if isinstance(value, tuple | list):
        return f"[{','.join(map(_typed, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_typed(item)}" for name, item in value.items()) + "}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
