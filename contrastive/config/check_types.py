"""Compare the values of component nodes with the annotations of the constructors they go to.

Hydra checks the types of root settings, which have a schema; nothing checks what a component's constructor gets, where
a word such as `no` is true.
"""

import inspect
import re
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString

from contrastive.config.identity import COMPONENTS, OF_EVERY_OPTION
from contrastive.config.settings import Settings
from contrastive.config.targets import load_target
from contrastive.errors import ConfigError
from contrastive.schema import TYPED, misfit

NUMBER = re.compile(r"\d+(_\d+)+|[\d_]+e\d+", re.IGNORECASE)  # text that Hydra reads as another, such as 2024_01_15


def check_components(settings: Settings) -> None:
    """Check the nodes of every component; see `check_types`."""
    for group in COMPONENTS:
        node, general = getattr(settings, group), OF_EVERY_OPTION.get(group, ())
        check_types({key: value for key, value in (node or {}).items() if key not in general}, group)


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


def typed(value: object) -> str:
    """A value as it is typed after KEY=: null, [a,b], {a:1}; quoted where Hydra would read signs of its own.

    Raises:
        ConfigError: it is a component, not the name of one.
    """
    if callable(value):  # a class, or what one built
        raise ConfigError(
            f"{getattr(value, '__name__', type(value).__name__)} is chosen by name, so that a run can be resumed: "
            'write its YAML, such as mine/loss/my_loss.yaml, and try loss="my_loss", config_dir="mine"'
        )
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(typed, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{typed(item)}' for key, item in value.items())}}}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    is_plain = re.fullmatch(r"[\w./+-]+", text, re.ASCII) and not (isinstance(value, str) and NUMBER.fullmatch(value))
    return text if is_plain else QuotedString(text, Quote.single).with_quotes()
