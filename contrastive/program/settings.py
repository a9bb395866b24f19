"""The root settings: their ranges, and which of them belong to a run's identity. Imports no torch: answers at once."""

import json
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from contrastive.errors import ConfigError

# Settings that change neither the weights nor the result: a run may be taken up again with others.
FREE = (
    "device",
    "data_root",
    "rerun",
    "checkpoint_every",
    "log_every",
    "knn.every",
    "dataset.root",
    "dataset.cache",
    "devices",
    "resident",
    "compile",
    "dry_run",
    "search_metric",
)
KNOBS = ("temperature", "tau_plus")  # root settings that only matter where a component's YAML reads them


def settings(cfg: DictConfig) -> dict[str, Any]:
    """The resolved configuration as plain containers, its root values checked.

    Raises:
        ConfigError: a value of the wrong kind or out of range.
    """
    plain = cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True))
    for key, least, whole in (
        ("epochs", 1, 60),
        ("batch_size", 2, 128),
        ("n_views", 1, 2),
        ("log_every", 1, 100),
        ("checkpoint_every", 1, 1),
        ("seed", 0, 0),
        ("devices", 1, 2),
        ("grad_cache_chunk", 0, 128),
        ("knn.every", 0, 1),
        ("knn.k", 1, 20),
    ):
        value = OmegaConf.select(cfg, key)
        if not isinstance(value, int) or isinstance(value, bool) or not value >= least:
            raise ConfigError(f"{key} must be a whole number of at least {least}, got {value}: try {key}={whole}")
    for key, example in (("temperature", 0.5), ("tau_plus", 0.1), ("knn.temperature", 0.5)):
        value = OmegaConf.select(cfg, key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ConfigError(f"{key} must be a number, got {value}: try {key}={example}")
    if plain["resident"] not in ("auto", True, False):
        raise ConfigError(f"resident must be auto, true or false, got {plain['resident']}: try resident=auto")
    if plain["grad_cache_chunk"] == 1:
        raise ConfigError("grad_cache_chunk=1 leaves BatchNorm a single image: try grad_cache_chunk=128")
    if plain["devices"] != 1 and ":" in str(plain["device"]):
        raise ConfigError(
            f"device={plain['device']} names one GPU and there are {plain['devices']} processes: try device=cuda"
        )
    if plain["batch_size"] % plain["devices"] != 0:
        raise ConfigError(
            f"batch_size={plain['batch_size']} cannot be shared equally by devices={plain['devices']}: "
            f"try batch_size={max(1, plain['batch_size'] // plain['devices']) * plain['devices']}"
        )
    for key in ("rerun", "dry_run", "channels_last", "compile"):
        if not isinstance(plain[key], bool):
            raise ConfigError(f"{key} must be true or false, got {plain[key]}: try {key}=true")
    if plain["views_forward"] not in ("fused", "per_view"):
        raise ConfigError(
            f"views_forward must be fused or per_view, got {plain['views_forward']}: try views_forward=fused"
        )
    for key in ("temperature", "knn.temperature"):
        if not OmegaConf.select(cfg, key) > 0:
            raise ConfigError(f"{key} must be above 0, got {OmegaConf.select(cfg, key)}: try {key}=0.5")
    if not 0 <= plain["tau_plus"] < 1:
        raise ConfigError(f"tau_plus is a probability in [0, 1), got {plain['tau_plus']}: try tau_plus=0.1")
    for key in ("noise_frac", "blur_frac"):
        value = plain[key]
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ConfigError(f"{key} is a probability, got {value}: try {key}=0.3")
        if value != 0 and not plain["n_views"] >= 2:
            raise ConfigError(f"{key} is about view 1 and there is one view: try n_views=2")
    if plain["sampler"] not in ("uniform", "bias_balanced"):
        raise ConfigError(f"sampler must be uniform or bias_balanced, got {plain['sampler']}: try sampler=uniform")
    if plain["search_metric"] not in ("linear_top1", "classifier_top1"):
        raise ConfigError(
            "search_metric must be linear_top1 or "
            f"classifier_top1, got {plain['search_metric']}: try search_metric=linear_top1"
        )
    for key in ("device", "precision"):
        if not isinstance(plain[key], str):
            raise ConfigError(f"{key} must be a name, got {plain[key]}: try {key}=auto")
    return plain


def unread(cfg: DictConfig, overrides: list[str]) -> list[str]:
    """Root knobs that were given on the command line and that no component's YAML reads."""
    given = {item.split("=", 1)[0].lstrip("+") for item in overrides}
    written = json.dumps(OmegaConf.to_container(cfg, resolve=False))
    return [knob for knob in KNOBS if knob in given and f"${{{knob}}}" not in written]


def flatten(node: Any, prefix: str = "") -> dict[str, Any]:
    """A nested configuration as {dotted key: value}."""
    if isinstance(node, dict) and node:
        return {k: v for key, value in node.items() for k, v in flatten(value, f"{prefix}{key}.").items()}
    return {prefix[:-1]: node}
