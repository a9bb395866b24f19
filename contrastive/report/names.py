"""Name configurations by what tells them apart, as a person would type it: `fairkl`, `no blur`, `t=0.2`."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from contrastive.run.identity import flatten

ABSENT = object()  # a key that this configuration does not have
CONTAINER = "{}"  # the kind of a mapping without a `_target_`
FIRST = ("dataset", "loss", "regularizer")  # said first, and wherever they differ
BARE = (*FIRST, "encoder", "optimizer")  # their options need no key: `fairkl`, `adam`
SHORT = {"temperature": "t"}
MAX_WORDS = 5

Members = dict[int, Any]  # {number of the configuration: its node}
Words = dict[int, list[str]]


def option_name(target: str) -> str:
    """The option that a `_target_` is: `contrastive.loss.nt_xent.NTXent` is nt_xent."""
    *modules, name = target.split(".")
    module = modules[-1] if modules else ""
    if module.replace("_", "") == name.replace("_", "").lower():
        return module
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def distinguish(configs: Sequence[dict[str, Any]], plain: Sequence[str], typed: Sequence[Sequence[str]]) -> list[str]:
    """A name for each of several configurations, no two of which are equal.

    The most common value of a setting is not said; where none is the most common, each is. Of a component that was
    replaced only the option is said; its settings are compared among configurations that have it.

    Args:
        configs: nested. plain: the names where nothing is to be said, such as the loss.
        typed: the overrides of each, which may name an option that is a bundle of settings, such as an augmentation.

    Returns:
        names, no two equal.
    """
    members: Members = dict(enumerate(configs))
    keys = list(dict.fromkeys(key for config in configs for key in config))
    words: Words = {i: [] for i in members}
    for key in sorted(keys, key=lambda key: FIRST.index(key) if key in FIRST else len(FIRST)):
        nodes = {i: config.get(key, ABSENT) for i, config in members.items()}
        for i, own in _differences(nodes, (key,), configs, typed).items():
            option = [word for word in typed[i] if word.startswith(f"{key}=")]
            words[i] += option[-1:] if len(own) > 2 and option and key not in BARE else own
    names = [_shortened(words[i], typed[i]) or plain[i] for i in members]
    return _told_apart(names, [flatten(config) for config in configs])


def _differences(
    nodes: Members, path: tuple[str, ...], configs: Sequence[dict[str, Any]], typed: Sequence[Sequence[str]]
) -> Words:
    """The words that tell each node from the others."""
    if len({_text(node) for node in nodes.values()}) == 1:
        return {i: [] for i in nodes}
    if not any(isinstance(node, dict) and node for node in nodes.values()):
        return _values(nodes, path, configs)
    kinds = {i: _kind(node) for i, node in nodes.items()}
    if CONTAINER in kinds.values():  # nothing is a container without any of the others' keys
        kinds = {i: kind or CONTAINER for i, kind in kinds.items()}
    words = _options(kinds, path, typed)
    for kind in dict.fromkeys(kinds.values()):
        members = {i: node if isinstance(node, dict) else {} for i, node in nodes.items() if kinds[i] == kind}
        for key in dict.fromkeys(key for node in members.values() for key in node if key != "_target_"):
            children = {i: node.get(key, ABSENT) for i, node in members.items()}
            for i, own in _differences(children, (*path, key), configs, typed).items():
                words[i] += own
    if path == ("augmentation", "ops"):
        words |= {i: ["augmentation=none"] for i, node in nodes.items() if not node and words[i]}
    return words


def _options(kinds: dict[int, str | None], path: tuple[str, ...], typed: Sequence[Sequence[str]]) -> Words:
    """A word for each component whose option, or absence, is not the usual one."""
    usual = None if len(path) == 1 and path[0] in FIRST else _most_common(kinds.values())
    is_in_half = set(Counter(kinds.values()).values()) == {len(kinds) / 2} and None in kinds.values()
    if is_in_half and len(path) > 1:  # the run for which least was typed has the usual
        usual = kinds[min(kinds, key=lambda i: len(typed[i]))]
    words: Words = {i: [] for i in kinds}
    for i, kind in kinds.items():
        if kind in (usual, CONTAINER) or len(set(kinds.values())) == 1:
            continue
        if kind is None:
            words[i] = [f"no {path[-1]}"]
        elif len(path) > 1 and usual is None and None in kinds.values():
            words[i] = [f"+{path[-1]}"]
        else:
            words[i] = [option_name(kind) if path[0] in BARE and len(path) == 1 else f"{path[-1]}={option_name(kind)}"]
    return words


def _values(nodes: Members, path: tuple[str, ...], configs: Sequence[dict[str, Any]]) -> Words:
    """`t=0.2` for each value that is not the usual one; nothing for one that a setting of the same name explains."""
    texts = {i: None if node is ABSENT else _text(node) for i, node in nodes.items()}
    usual = _most_common(texts.values())
    key = ".".join([*path[-2:-1], path[-1]] if len(path) > 2 else [SHORT.get(path[-1], path[-1])])
    above = {_text(config.get(path[-1], ABSENT)) for config in configs} if len(path) > 1 else set()
    is_explained = len(above) > 1  # by a top-level setting of the same name, which is said itself
    words: Words = {i: [] for i in nodes}
    for i, text in texts.items():
        if text != usual and not (is_explained and _text(configs[i].get(path[-1], ABSENT)) == text):
            words[i] = [f"no {key}" if text is None else f"{key}={text}"]
    return words


def _most_common(values: Iterable[str | None]) -> str | None:
    """The value that is more frequent than any other; None if there is none, or if that is absence."""
    first, *rest = Counter(values).most_common(2)
    return first[0] if not rest or first[1] > rest[0][1] else None


def _kind(node: Any) -> str | None:
    """The `_target_` of a component; None for nothing."""
    if node is ABSENT or node is None or node == {}:
        return None
    return str(node.get("_target_", CONTAINER)) if isinstance(node, dict) else _text(node)


def _text(value: Any) -> str:
    """A value as it is typed; equal texts are equal values."""
    if value is ABSENT:
        return "(absent)"
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)


def _shortened(words: list[str], typed: Sequence[str]) -> str:
    """The words in one line; of a whole recipe its name and the first ones."""
    if len(words) > MAX_WORDS:
        words = [*[word for word in typed if word.startswith("experiment=")][-1:], *words]
        words = [*words[:MAX_WORDS], f"and {len(words) - MAX_WORDS} more"]
    return " ".join(words)


def _told_apart(names: list[str], flat: list[dict[str, Any]]) -> list[str]:
    """The names, those that are equal with the first whole keys in which their configurations differ."""
    names = list(names)
    while twice := [name for name, n in Counter(names).items() if n > 1]:
        for name in twice:
            same = [i for i, other in enumerate(names) if other == name]
            for key in sorted({key for i in same for key in flat[i]}):
                longer = {
                    i: f"{names[i]} {key}={_text(flat[i][key])}" if key in flat[i] else f"{names[i]} no {key}"
                    for i in same
                }
                if len(set(longer.values())) > len({names[i] for i in same}):
                    for i in same:
                        names[i] = longer[i].strip()
    return names
