"""Check the arguments of components against the types that their constructors declare.

Hydra checks the types of the root settings only; without this check `encoder.width=abc` would end in a traceback.
"""

import inspect
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pydoc import ErrorDuringImport, locate
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin

from contrastive.errors import ConfigError

PLAIN: dict[Any, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    NoneType: (NoneType, "null"),
}


def check_arguments(path: str, node: dict[str, Any]) -> None:
    """Raise ConfigError if a node, or one nested in it, has an argument of another type than its constructor declares.

    Numbers, booleans, null and lists of them are checked; constructors check everything else.

    Args:
        path: dotted key of the node, such as `loss`.
        node: plain containers; a component has a `_target_`.
    """
    for key, value in node.items():
        if isinstance(value, dict):
            check_arguments(f"{path}.{key}", value)
    parameters = _parameters(node["_target_"]) if "_target_" in node else {}
    for key in node.keys() & parameters.keys():
        annotation, default = parameters[key].annotation, parameters[key].default
        if not _accepts(annotation, node[key]):
            example = "..." if default is inspect.Parameter.empty else _as_typed(default)
            raise ConfigError(
                f"{path}.{key} must be {_name(annotation)}, got {_as_typed(node[key])}: try {path}.{key}={example}"
            )


def _parameters(target: str) -> Mapping[str, inspect.Parameter]:
    """Parameters of the class or function with this dotted name.

    Empty if it cannot be imported or has no signature: building the component then says what is wrong.
    """
    try:
        return inspect.signature(cast(Any, locate(target))).parameters
    except (ErrorDuringImport, TypeError, ValueError):  # TypeError: locate returned None
        return {}


def _accepts(annotation: Any, value: Any) -> bool:
    """Whether the value has the type; true for a type that is not checked here."""
    if annotation is bool:
        return isinstance(value, bool)
    if annotation in PLAIN:
        return isinstance(value, PLAIN[annotation][0]) and not isinstance(value, bool)
    if get_origin(annotation) in (Union, UnionType):
        return any(_accepts(member, value) for member in get_args(annotation))
    if get_origin(annotation) in (list, tuple, Sequence):
        return isinstance(value, list | tuple) and all(_accepts(get_args(annotation)[0], item) for item in value)
    return True


def _name(annotation: Any) -> str:
    if annotation is bool:
        return "true or false"
    if annotation in PLAIN:
        return PLAIN[annotation][1]
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(_name(member) for member in get_args(annotation))
    return f"a list, each entry {_name(get_args(annotation)[0])}"


def _as_typed(value: Any) -> str:
    """The value as it is written on the command line."""
    if isinstance(value, list | tuple):
        return f"[{','.join(_as_typed(item) for item in value)}]"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
