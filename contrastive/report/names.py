"""Name configurations by their overrides, the method first: `debiased_pos tau_plus=0.1 epochs=3`."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from contrastive.config.identity import flatten, is_identity, key_of, option_name

# Words that no name needs: the seed is the spread over runs, the dataset a heading, an evaluator part of its metrics.
LEFT_OUT = ("seed", "loss", "dataset", "evaluator", "hydra")
LONG_NUMBER = re.compile(r"(?<==)-?\d+\.\d{5,}(e[+-]?\d+)?$")  # as a search draws them


def typed_words(overrides: Sequence[str], target: str) -> tuple[str, ...]:
    """The words of a run's name: its method, then its overrides in the order typed. No other run matters.

    Args:
        overrides: of the command line.
        target: the `_target_` of the loss, for a run whose loss was not typed.
    """
    by_key = {key_of(word): word for word in overrides}  # of several for one key the last one holds
    method = by_key.get("loss", "").partition("=")[2] or option_name(target)
    kept = [word for key, word in by_key.items() if is_identity(key) and key not in LEFT_OUT]
    kept = [word for word in kept if not key_of(word).startswith(("evaluator.", "hydra.", "hydra/"))]
    return method, *(LONG_NUMBER.sub(lambda number: f"{float(number[0]):.4g}", word.lstrip("+")) for word in kept)


def told_apart(names: Sequence[str], configs: Sequence[dict[str, Any]]) -> list[str]:
    """The names; equal ones get the first settings in which their configurations differ, so that no two are equal.

    That happens if the same overrides meant something else, as after an edit of a YAML.

    Args:
        configs: by dotted keys, no two equal.
    """
    names = list(names)
    texts = [{key: setting_text(value) for key, value in config.items()} for config in configs]
    while twice := [name for name, n in Counter(names).items() if n > 1]:
        for name in twice:
            same = [i for i, other in enumerate(names) if other == name]
            for key in sorted({key for i in same for key in texts[i]}):
                more = {i: f"{key}={texts[i][key]}" if key in texts[i] else f"no {key}" for i in same}
                if len({(names[i], more[i]) for i in same}) > len({names[i] for i in same}):
                    names = [f"{own} {more[i]}".strip() if i in more else own for i, own in enumerate(names)]
    return names


def protocols_apart(protocols: Sequence[str]) -> dict[str, str]:
    """{protocol: the settings that tell it from the others, such as `k=5`}; nothing is said of a single one.

    Args:
        protocols: in JSON, no two equal.
    """
    configs = [{key.rpartition(".")[2]: v for key, v in flatten(json.loads(text)).items()} for text in protocols]
    return dict(zip(protocols, told_apart([""] * len(protocols), configs), strict=True))


def without_shared(names: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """(each name without the overrides that all of them have, these overrides); the method always stays.

    A table prints the shared ones once, above its rows.
    """
    shared = [word for word in names[0][1:] if all(word in name[1:] for name in names)] if len(names) > 1 else []
    return [" ".join([name[0], *(word for word in name[1:] if word not in shared)]) for name in names], shared


def setting_text(value: Any) -> str:
    """A value as it is typed; equal texts are equal values."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)
