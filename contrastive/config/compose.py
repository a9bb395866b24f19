"""Composing the YAMLs: the folders of --config-dir, and a run's directory named after what differs from defaults."""

import hashlib
import os
import re
import sys
from argparse import ArgumentError, ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from contrastive.config import CONFIGS
from contrastive.config.identity import LISTS, dataset_name, identity

MAX_DATA = 48  # characters of the data's folder
MAX_LENGTH = 80  # of the folders of data, loss and settings: 100 with outputs/ and seed=10
LARGE = 64  # pixels, from which on views are large for a ResNet
VIEWS = 200_000  # images that are seen in a training whose epochs follow from the data
USUAL_COUNT = 10_000  # images, where nothing is known of their number
IN_THE_PATH = ("dataset", "loss", "seed")  # each is a folder of the path


def search_path(folders: Sequence[Path]) -> list[str]:
    """The override that lets Hydra find the YAMLs of these folders, as --config-dir does; none without folders."""
    return searched_in([f"file://{folder.resolve()}" for folder in folders])


def searched_in(places: Sequence[str]) -> list[str]:
    """The override that lets Hydra find YAMLs in these places, such as file://mine; none without places."""
    quoted = ("'" + place.replace("\\", "\\\\").replace("'", "\\'") + "'" for place in places)
    return [f"hydra.searchpath=[{','.join(quoted)}]"] if places else []


def config_dirs(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Folders that --config-dir names on a command line for Hydra, those that are there; and the other words."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--config-dir", "-cd", action="append", default=[])
    try:
        known, others = parser.parse_known_args(words)
    except ArgumentError:  # no folder behind it, as Hydra says
        return [], list(words)
    return [Path(name).resolve() for name in known.config_dir if Path(name).is_dir()], others


@contextmanager
def composing() -> Iterator[None]:
    """Within, Hydra composes this package's configuration, also in a program with a Hydra of its own."""
    before = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            yield
    finally:
        GlobalHydra.instance().hydra = before  # which may be another instance by now


@contextmanager
def importable(folders: Sequence[Path]) -> Iterator[None]:
    """Let modules be imported from these folders, those of --config-dir, after all others.

    A command whose configuration is typed adds the current one; one that opens a run does not: a stranger may have
    filled it.
    """
    before = list(sys.path)
    sys.path += [str(folder.resolve()) for folder in folders]
    try:
        yield
    finally:
        sys.path[:] = before


def run_name(*, _root_: DictConfig) -> str:
    """`data/loss/changed settings/seed=N` of a composed configuration: equal configurations share a name.

    A setting is changed if its value differs from the default that dataset, loss and experiment give it; typing the
    default changes nothing. Those of the dataset are in the first folder. Settings that change no weight are left out,
    so evaluators are. A name that is too long, or that has characters a file name cannot have, is shortened and ends in
    a hash.
    """
    chosen = _root_.hydra.runtime.choices.items()
    choices = {group: choice for group, choice in chosen if not group.startswith("hydra/")}
    name = _root_.hydra.job.config_name
    recipe = [f"{group}={choices[group]}" for group in ("experiment", "dataset", "loss") if choices.get(group)]
    found_in = searched_in(_root_.hydra.searchpath)
    # YAMLs of one's own may be edited between two calls from one process
    composed = _defaults.__wrapped__ if found_in else _defaults
    default_choices = composed(name, (*found_in, *recipe))[0]
    for group in LISTS:
        choices.pop(group, None)  # Hydra's entry for a single option; a list of options has no entry
    changed = [f"{group}={choice}" for group, choice in choices.items() if default_choices.get(group) != choice]
    defaults, actual = composed(name, (*found_in, *recipe, *changed))[1], _leaves(_root_)
    changed = [re.sub(r"[\[\]]", "", word.replace(",", "+")) for word in changed]
    leaves = {key: f"{key}={_word(value)}" for key, value in actual.items() if defaults.get(key, "") != value}
    leaves |= {key: f"~{key}" for key in defaults if key not in actual}
    of_data = [word.replace("dataset.", "", 1) for key, word in leaves.items() if key.startswith("dataset.")]
    changed += [word for key, word in leaves.items() if not key.startswith("dataset.")]
    if choices.get("experiment"):
        changed.insert(0, f"experiment={choices['experiment']}")
    data = _file_name([dataset_name(choices["dataset"], _root_.dataset), *of_data], MAX_DATA)
    settings = _file_name(changed or ["default"], MAX_LENGTH - len(data) - len(choices["loss"]))
    return f"{data}/{choices['loss']}/{settings}/seed={_root_.seed}"


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
    left_out = (*IN_THE_PATH, "dataset.name")
    return {k: v for k, v in identity(plain).items() if k not in left_out and not k.startswith("evaluator")}


def _word(value: Any) -> str:
    return str(value).replace(" ", "").replace("'", "")


def _file_name(words: list[str], most: int) -> str:
    full = ",".join(words)
    clean = re.sub(r"[^\w.,=+-]+", "-", full)
    if clean == full and len(full) <= most:
        return clean
    return f"{clean[: max(1, most - 9)].rstrip(',=-')}-{hashlib.sha256(full.encode()).hexdigest()[:8]}"


def n_files(folder: str | None, most: int | None = None) -> int:
    """Files in and below a folder, but for hidden ones, counted up to `most`; 10,000 without a folder."""
    if folder is None:
        return USUAL_COUNT
    files = (name for _, _, names in os.walk(folder) for name in names if not name.startswith("."))
    return sum(1 for _ in islice(files, most)) or USUAL_COUNT


def batch_within(most: int, folder: str | None) -> int:
    """A batch of `most` images, or of fewer below a folder the largest power of two of at most half of them."""
    n = n_files(folder, most)
    return most if n >= most else 1 << (max(2, n // 2).bit_length() - 1)


def batch_for(folder: str | None) -> int:
    """A batch for the images below a folder: the largest power of two of at most an eighth of them, from 16 to 256."""
    return max(16, min(256, 1 << (n_files(folder) // 16).bit_length()))


def epochs_for(folder: str | None) -> int:
    """Epochs in which some 200,000 images are seen, from 5 to 100."""
    return max(5, min(100, round(VIEWS / n_files(folder))))


def stem_for(*sides: Any) -> str:
    """The stem of a ResNet, `small` or `large`, for views of the first side that is known; without any `small`."""
    return "large" if next((side for side in sides if isinstance(side, int)), 0) >= LARGE else "small"


OmegaConf.register_new_resolver("run_name", run_name, replace=True)
OmegaConf.register_new_resolver("batch_within", batch_within, replace=True)  # of dataset=image_folder
OmegaConf.register_new_resolver("batch_for", batch_for, replace=True)  # of experiment=domain
OmegaConf.register_new_resolver("epochs_for", epochs_for, replace=True)
OmegaConf.register_new_resolver("stem_for", stem_for, replace=True)
