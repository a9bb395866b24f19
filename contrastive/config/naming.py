"""Name a run's directory after the settings in which it differs from the composed defaults."""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from hydra import compose
from omegaconf import DictConfig, OmegaConf

from contrastive.config.identity import LISTS, dataset_name, identity
from contrastive.config.paths import batch_for, epochs_for, stem_for

MAX_LENGTH = 180  # characters of a directory's name
IN_THE_PATH = ("dataset", "loss", "seed")  # each is a folder of the path


def run_name(*, _root_: DictConfig) -> str:
    """`dataset/loss/changed settings/seed=N` of a composed configuration: equal configurations share a name.

    A setting is changed if its value differs from the default that dataset, loss and experiment give it; typing the
    default changes nothing. Settings without effect on the result are left out. A name that is too long, or that has
    characters a file name cannot have, is shortened and ends in a hash.
    """
    choices = {
        group: choice for group, choice in _root_.hydra.runtime.choices.items() if not group.startswith("hydra/")
    }
    name = _root_.hydra.job.config_name
    recipe = [f"{group}={choices[group]}" for group in ("experiment", "dataset", "loss") if choices.get(group)]
    found_in = searched_in(_root_.hydra.searchpath)
    # YAMLs of one's own may be edited between two calls from one process
    composed = _defaults.__wrapped__ if found_in else _defaults
    default_choices, default_leaves = composed(name, (*found_in, *recipe))
    for group in LISTS:
        choices.pop(group, None)  # Hydra's entry for a single option; a list of options has no entry
    changed = [f"{group}={choice}" for group, choice in choices.items() if default_choices.get(group) != choice]
    actual = _leaves(_root_)
    if _evaluators(actual) != _evaluators(default_leaves):
        changed.append(f"evaluator=[{','.join(_evaluators(actual))}]")
    defaults = composed(name, (*found_in, *recipe, *changed))[1]
    changed = [re.sub(r"[\[\]]", "", word.replace(",", "+")) for word in changed]
    changed += [f"{key}={_word(value)}" for key, value in actual.items() if defaults.get(key, "") != value]
    changed += [f"~{key}" for key in defaults if key not in actual]
    if choices.get("experiment"):
        changed.insert(0, f"experiment={choices['experiment']}")
    return (
        f"{dataset_name(choices['dataset'], _root_.dataset)}/{choices['loss']}/{_file_name(changed)}/seed={_root_.seed}"
    )


def searched_in(places: Sequence[str]) -> list[str]:
    """The override that lets Hydra find YAMLs in these places, such as file://mine; none without places."""
    quoted = ("'" + place.replace("\\", "\\\\").replace("'", "\\'") + "'" for place in places)
    return [f"hydra.searchpath=[{','.join(quoted)}]"] if places else []


@lru_cache
def _defaults(config_name: str, overrides: tuple[str, ...]) -> tuple[dict[str, str], dict[str, Any]]:
    """(choices, leaves) of the configuration that these overrides compose: once for all runs of a sweep."""
    cfg = compose(config_name, list(overrides), return_hydra_config=True)
    return dict(cfg.hydra.runtime.choices), _leaves(cfg)


def _leaves(cfg: DictConfig) -> dict[str, Any]:
    """The settings that are part of a run's identity, interpolations as written, by dotted key."""
    plain = cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False))
    plain.pop("hydra", None)
    for group in LISTS:
        nodes = plain[group] if isinstance(plain[group], dict) else {}  # what else it is, `Settings` says
        plain[group] = {name: node for name, node in nodes.items() if isinstance(node, dict) and "_target_" in node}
    return {key: value for key, value in identity(plain).items() if key not in (*IN_THE_PATH, "dataset.name")}


def _evaluators(leaves: dict[str, Any]) -> list[str]:
    """Names of the evaluators that were chosen."""
    return [key.split(".")[1] for key in leaves if re.fullmatch(r"evaluator\.\w+\._target_", key)]


def _word(value: Any) -> str:
    return str(value).replace(" ", "").replace("'", "")


def _file_name(words: list[str]) -> str:
    full = ",".join(words) or "default"
    clean = re.sub(r"[^\w.,=+-]+", "-", full)[:MAX_LENGTH]
    return clean if clean == full else f"{clean}-{hashlib.sha256(full.encode()).hexdigest()[:8]}"


OmegaConf.register_new_resolver("run_name", run_name, replace=True)
OmegaConf.register_new_resolver("batch_for", batch_for, replace=True)  # of experiment=domain
OmegaConf.register_new_resolver("epochs_for", epochs_for, replace=True)
OmegaConf.register_new_resolver("stem_for", stem_for, replace=True)
