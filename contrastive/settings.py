"""The root settings: their ranges, and which of them belong to a run's identity. Imports no torch: answers at once."""

import json
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from contrastive.refusal import require

# Settings that change neither the weights nor the result: a run may be taken up again with others.
FREE = ("device", "data_root", "rerun", "checkpoint_every", "log_every", "knn.every", "dataset.root", "dataset.cache",
        "devices", "resident", "compile", "dry_run", "search_metric")
KNOBS = ("temperature", "tau_plus")  # root settings that only matter where a component's YAML reads them


def settings(cfg: DictConfig) -> dict[str, Any]:
    """The resolved configuration as plain containers, its root values checked.

    Raises:
        Refusal: a value of the wrong kind or out of range.
    """
    plain = cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True))
    for key, least, whole in (("epochs", 1, 60), ("batch_size", 2, 128), ("n_views", 1, 2), ("log_every", 1, 100),
                                ("checkpoint_every", 1, 1), ("seed", 0, 0), ("devices", 1, 2),
                                ("grad_cache_chunk", 0, 128), ("knn.every", 0, 1), ("knn.k", 1, 20)):
        value = OmegaConf.select(cfg, key)
        require(isinstance(value, int) and not isinstance(value, bool) and value >= least,
                f"{key} must be a whole number of at least {least}, got {value}: try {key}={whole}")
    for key, example in (("temperature", 0.5), ("tau_plus", 0.1), ("knn.temperature", 0.5)):
        value = OmegaConf.select(cfg, key)
        require(isinstance(value, int | float) and not isinstance(value, bool),
                f"{key} must be a number, got {value}: try {key}={example}")
    require(plain["resident"] in ("auto", True, False), f"resident must be auto, true or false, got "
                                                        f"{plain['resident']}: try resident=auto")
    require(plain["grad_cache_chunk"] != 1,
            "grad_cache_chunk=1 leaves BatchNorm a single image: try grad_cache_chunk=128")
    require(plain["devices"] == 1 or ":" not in str(plain["device"]),
            f"device={plain['device']} names one GPU and there are {plain['devices']} processes: try device=cuda")
    require(plain["batch_size"] % plain["devices"] == 0,
            f"batch_size={plain['batch_size']} cannot be shared equally by devices={plain['devices']}: "
            f"try batch_size={max(1, plain['batch_size'] // plain['devices']) * plain['devices']}")
    for key in ("rerun", "dry_run", "channels_last", "compile"):
        require(isinstance(plain[key], bool), f"{key} must be true or false, got {plain[key]}: try {key}=true")
    require(plain["views_forward"] in ("fused", "per_view"),
            f"views_forward must be fused or per_view, got {plain['views_forward']}: try views_forward=fused")
    for key in ("temperature", "knn.temperature"):
        require(OmegaConf.select(cfg, key) > 0, f"{key} must be above 0, got {OmegaConf.select(cfg, key)}: "
                                                f"try {key}=0.5")
    require(0 <= plain["tau_plus"] < 1, f"tau_plus is a probability in [0, 1), got {plain['tau_plus']}: "
                                        "try tau_plus=0.1")
    for key in ("noise_frac", "blur_frac"):
        value = plain[key]
        require(isinstance(value, int | float) and 0 <= value <= 1,
                f"{key} is a probability, got {value}: try {key}=0.3")
        require(value == 0 or plain["n_views"] >= 2, f"{key} is about view 1 and there is one view: try n_views=2")
    require(plain["sampler"] in ("uniform", "bias_balanced"),
            f"sampler must be uniform or bias_balanced, got {plain['sampler']}: try sampler=uniform")
    require(plain["search_metric"] in ("linear_top1", "classifier_top1"), "search_metric must be linear_top1 or "
            f"classifier_top1, got {plain['search_metric']}: try search_metric=linear_top1")
    for key in ("device", "precision"):
        require(isinstance(plain[key], str), f"{key} must be a name, got {plain[key]}: try {key}=auto")
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
