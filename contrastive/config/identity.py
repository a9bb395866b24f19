"""Settings that identify a run, and the differences between two configurations. Imports no torch."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from contrastive.listing.names import name_of

# The groups of components, each a folder of configs/ and of the package.
COMPONENTS = (
    "dataset", "augmentation", "encoder", "head", "loss", "teacher", "regularizer", "optimizer", "schedule",
    "evaluator", "average", "hook", "tracker",
)  # fmt: skip
LISTS = ("evaluator", "hook", "tracker")  # of them, those of which a run has as many as are chosen
OPTIONAL = ("teacher", "regularizer", "average", *LISTS)  # of them, what a run can do without: null, or none chosen
# Settings of every option of a group, which no constructor is given
OF_EVERY_OPTION = {"encoder": ("weights", "prefix", "in_channels", "frozen", "lora", "layer_decay"), "loss": ("push",)}
# Settings under which a run may be resumed. Device, devices, compile, threads and, on a GPU,
# deterministic and graphs change its last bits, which is said.
NON_IDENTITY_KEYS = (
    "device", "data_root", "rerun", "checkpoint_every", "checkpoint_every_minutes", "log_every", "dataset.root",
    "dataset.test", "dataset.cache", "devices", "resident", "compile", "dry_run", "threads",
    "quiet", "deterministic", "profile", "graphs", "augmentation.workers",
)  # fmt: skip
CHANGES_TRAINING = "changes_training"  # true in the node of a hook that does more than watch
# how often a curve gets a point, and what watches
_WATCHING = re.compile(r"evaluator\.\w+\.every|(hook|tracker)(\..*)?")


def is_identity(key: str) -> bool:
    """Whether the dotted key is part of a run's identity."""
    return key not in NON_IDENTITY_KEYS and not _WATCHING.fullmatch(key)


def flatten(node: Any, prefix: str = "", sep: str = ".") -> dict[str, Any]:
    """A nested configuration as {dotted key: value}, or with another sign between the parts of a key."""
    if isinstance(node, dict) and node:
        return {k: v for key, value in node.items() for k, v in flatten(value, f"{prefix}{key}{sep}", sep).items()}
    return {prefix[:-1]: node}


def identity(config: dict[str, Any]) -> dict[str, Any]:
    """The flattened settings that are part of a run's identity; a hook is one if its node says `changes_training`."""
    flat = flatten(config)
    changing = [name for name in config.get("hook") or () if flat.get(f"hook.{name}.{CHANGES_TRAINING}")]
    kept = tuple(f"hook.{name}." for name in changing)
    return {key: value for key, value in flat.items() if is_identity(key) or key.startswith(kept)}


def targets(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of every `_target_` below a node."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list | tuple) else ()
    for name, value in items:
        path = f"{key}.{name}" if key else str(name)
        if name == "_target_":
            yield path, value
        yield from targets(value, path)


def option_name(target: str) -> str:
    """The option that a `_target_` is: `contrastive.loss.nt_xent.NTXent` is nt_xent."""
    *modules, name = target.split(".")
    module = modules[-1] if modules else ""
    if module.replace("_", "") == name.replace("_", "").lower():
        return module
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def dataset_name(option: str, node: Mapping[str, Any]) -> str:
    """A dataset as a heading or a folder: its option; an image folder, or that of shards, adds its own name."""
    if "name" not in node:
        return option
    name = node["name"] or (name_of(node["root"]) if node.get("root") else "")
    return "-".join([option, *([re.sub(r"[^\w.+-]+", "-", str(name))] if name else [])])


def key_of(word: str) -> str:
    """The setting that an override such as `+loss.epsilon=0.1` is about."""
    return word.lstrip("+~").split("=", 1)[0]


def config_hash(config: dict[str, Any]) -> str:
    """sha256 of the settings that make the run what it is; 1 and 1.0 are one setting."""
    plain = json.loads(json.dumps(identity(config), default=str), parse_int=float)
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The keys in which the identities of two configurations differ, as `key: old -> new`."""
    flat_old, flat_new, absent = identity(old), identity(new), "(absent)"
    return [
        f"{key}: {flat_old.get(key, absent)} -> {flat_new.get(key, absent)}"
        for key in sorted(flat_old.keys() | flat_new.keys())
        if flat_old.get(key, absent) != flat_new.get(key, absent)
    ]
