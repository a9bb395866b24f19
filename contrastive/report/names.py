"""Name configurations by what tells them apart, as a person would type it: `fairkl`, `no blur`, `t=0.2`."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

ABSENT = "(absent)"  # the text of a key that a configuration does not have
FIRST = ("dataset", "loss", "regularizer")  # said first, and wherever they differ
BARE = (*FIRST, "encoder", "optimizer")  # their options need no key: `fairkl`, `adam`
SHORT = {"temperature": "t"}
MAX_WORDS = 5

Texts = dict[int, str]  # {number of the configuration: its text of one setting}


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
        configs: by dotted keys. plain: the names where nothing is to be said, such as the loss.
        typed: the overrides of each, which may name an option that is a bundle of settings, such as an augmentation.

    Returns:
        names, no two equal.
    """
    texts = [{key: _text(value) for key, value in config.items()} for config in configs]
    keys = list(dict.fromkeys(key for own in texts for key in own))
    nodes = {".".join(key.split(".")[:n]) for key in keys for n in range(key.count(".") + 1)}
    words: list[dict[str, list[str]]] = [defaultdict(list) for _ in configs]  # by the first part of the key
    groups = list(dict.fromkeys([*FIRST, *(key.partition(".")[0] for key in keys)]))
    for key in sorted(keys, key=lambda key: groups.index(key.partition(".")[0])):
        if key in nodes:  # null or {}, which the keys below it in other configurations tell
            continue
        for values in _comparable(key, texts):
            if len(set(values.values())) > 1:
                is_component = key.endswith("._target_")
                said = _options(key, values, typed) if is_component else _values(key, values, texts)
                for i, word in said.items():
                    words[i][key.partition(".")[0]].append(word)
    names = []
    for own, by_group, overrides, usual in zip(texts, words, typed, plain, strict=True):
        if own.get("augmentation.ops") == "{}" and by_group["augmentation"]:
            by_group["augmentation"] = ["augmentation=none"]
        for group, own_words in by_group.items():
            option = [word for word in overrides if word.startswith(f"{group}=")]
            if len(own_words) > 2 and option and group not in BARE:
                by_group[group] = option[-1:]
        names.append(_joined([word for said in by_group.values() for word in said], overrides) or usual)
    return _told_apart(names, texts)


def _comparable(key: str, texts: list[dict[str, str]]) -> list[Texts]:
    """The texts of a key, in one dictionary those of configurations in which it belongs to the same component."""
    path = key.removesuffix("._target_").split(".")
    owners = [f"{'.'.join(path[:n])}._target_" for n in range(len(path) - 1, 0, -1)]
    same: dict[str | None, Texts] = defaultdict(dict)
    for i, own in enumerate(texts):
        same[next((own[owner] for owner in owners if owner in own), None)][i] = own.get(key, ABSENT)
    return list(same.values())


def _options(key: str, targets: Texts, typed: Sequence[Sequence[str]]) -> Texts:
    """A word for each component whose option, or absence, is not the usual one."""
    path = key.removesuffix("._target_")
    is_nested, name = "." in path, path.rpartition(".")[2]
    usual = ABSENT if path in FIRST else _most_common(targets)
    if usual is None and is_nested and ABSENT in targets.values():  # the run for which least was typed has the usual
        usual = targets[min(targets, key=lambda i: len(typed[i]))]
    words = {}
    for i, target in targets.items():
        if target == ABSENT:
            word = f"no {name}"
        elif is_nested and usual == ABSENT:
            word = f"+{name}"
        else:
            word = option_name(target) if path in BARE else f"{name}={option_name(target)}"
        if target != usual:
            words[i] = word
    return words


def _values(key: str, values: Texts, texts: list[dict[str, str]]) -> Texts:
    """`t=0.2` for each value that is not the usual one; nothing for one that a setting of the same name explains."""
    *path, name = key.split(".")
    shown = f"{path[-1]}.{name}" if len(path) > 1 else SHORT.get(name, name)
    above = [own.get(name, ABSENT) if path else ABSENT for own in texts]
    is_explained = len(set(above)) > 1  # by a top-level setting of the same name, which is said itself
    usual = _most_common(values) or ABSENT  # of as many with as without the setting, only its values are said
    return {
        i: f"no {shown}" if value == ABSENT else f"{shown}={value}"
        for i, value in values.items()
        if value != usual and not (is_explained and above[i] == value)
    }


def _most_common(values: Texts) -> str | None:
    """The value that is more frequent than any other; None if there is none."""
    first, *rest = Counter(values.values()).most_common(2)
    return None if rest and rest[0][1] == first[1] else first[0]


def _text(value: Any) -> str:
    """A value as it is typed; equal texts are equal values."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)


def _joined(words: list[str], typed: Sequence[str]) -> str:
    """The words in one line; of a whole recipe its name and the first ones."""
    if len(words) > MAX_WORDS:
        words = [*[word for word in typed if word.startswith("experiment=")][-1:], *words]
        words = [*words[:MAX_WORDS], f"and {len(words) - MAX_WORDS} more"]
    return " ".join(words)


def _told_apart(names: list[str], texts: list[dict[str, str]]) -> list[str]:
    """The names, those that are equal with the first whole keys in which their configurations differ."""
    while twice := [name for name, n in Counter(names).items() if n > 1]:
        for name in twice:
            same = [i for i, other in enumerate(names) if other == name]
            for key in sorted({key for i in same for key in texts[i]}):
                more = {i: f"{key}={texts[i][key]}" if key in texts[i] else f"no {key}" for i in same}
                if len({(names[i], more[i]) for i in same}) > len({names[i] for i in same}):
                    names = [f"{own} {more[i]}".strip() if i in more else own for i, own in enumerate(names)]
    return names
