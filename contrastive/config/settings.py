"""Typed settings: the schema of the configuration and the ranges of its values. Imports no torch: answers at once.

Types are checked by Hydra at the override, ranges in `Settings.__post_init__`, and what needs data or other components
where they are built. Defaults stand in configs/train.yaml.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from contrastive.config.identity import COMPONENTS, LISTS, OPTIONAL, flatten
from contrastive.config.targets import check_modules
from contrastive.config.words import no_setting
from contrastive.errors import (
    ConfigError,
    check_at_least,
    check_between,
    check_choice,
    check_tau_plus,
    check_temperature,
)
from contrastive.listing.names import check_no_secrets

MAX_THREADS = 1024
REPRODUCIBLE = {"device": "cpu", "precision": "fp32", "compile": False, "threads": 1}  # what auto is then
LEAST: dict[str, tuple[int, object]] = {  # a number's bound, and what to type instead
    "epochs": (0, 50), "batch_size": (2, 128), "n_views": (1, 2), "log_every": (1, 100),
    "checkpoint_every": (1, "auto"), "checkpoint_every_minutes": (0, 15), "seed": (0, 0), "devices": (1, 2),
    "grad_cache_chunk": (0, 128), "held_out": (0, 0), "encoder.frozen": (0, 0.5), "encoder.lora": (0, 8),
    "encoder.in_channels": (1, 3), "loss.push": (0, 4),
}  # fmt: skip
SHARED_KEYS = ("temperature", "tau_plus")  # root settings that only matter where a component's YAML reads them


@dataclass(kw_only=True)
class Settings:
    """Every setting of a run, under the name that is typed; components are nodes with a `_target_`."""

    dataset: dict[str, Any]
    augmentation: dict[str, Any]
    encoder: dict[str, Any]
    head: dict[str, Any]
    loss: dict[str, Any]
    regularizer: dict[str, Any] | None
    optimizer: dict[str, Any]
    schedule: dict[str, Any]
    evaluator: dict[str, Any]

    seed: int
    epochs: int
    batch_size: int
    n_views: int
    temperature: float
    tau_plus: float
    sampler: str
    noise_frac: float
    blur_frac: float

    views_forward: str
    precision: str
    channels_last: bool
    compile: bool | str
    device: str
    devices: int
    grad_cache_chunk: int
    resident: bool | str
    threads: int | str
    data_root: str

    log_every: int
    checkpoint_every: int | str
    checkpoint_every_minutes: float
    rerun: bool
    dry_run: bool
    quiet: bool
    deterministic: bool
    reproducible: bool
    profile: bool
    graphs: bool | str
    bias_from: str | None
    bias_as: str
    held_out: int | None
    average: dict[str, Any] | None
    teacher: dict[str, Any] | None
    hook: dict[str, Any]
    tracker: dict[str, Any]

    def __post_init__(self) -> None:
        """Raise ConfigError for a value out of range."""
        if self.reproducible:
            self._fix()
        given = flatten(self.to_dict())
        for key, (least, example) in LEAST.items():
            if given.get(key) not in (None, "auto"):
                check_at_least(key, given[key], least, example=example)
        check_between("encoder.layer_decay", given.get("encoder.layer_decay", 1), 0, 1, exclude=(0,), example=0.75)
        check_choice("views_forward", self.views_forward, ("fused", "per_view"))
        check_choice("sampler", self.sampler, ("uniform", "class_balanced", "group_balanced", "bias_balanced"))
        check_choice("bias_as", self.bias_as, ("predictions", "errors"))
        if self.bias_as != "predictions" and self.bias_from is None:
            raise ConfigError("bias_as needs the run that it reads: try bias_from=RUN")
        check_choice("precision", self.precision, ("auto", "fp32", "tf32", "bf16", "fp16"))
        check_temperature(self.temperature)
        check_tau_plus(self.tau_plus, allow_zero=True)
        if self.threads != "auto":
            check_between("threads", self.threads, 1, MAX_THREADS, example="auto")
        for key in ("compile", "resident", "graphs"):
            if (value := getattr(self, key)) not in ("auto", True, False):
                raise ConfigError(f"{key} must be auto, true or false, got {value!r}: try {key}=auto")
        for key, fraction in (("noise_frac", self.noise_frac), ("blur_frac", self.blur_frac)):
            check_between(key, fraction, 0, 1, example=0.3)
            if fraction > 0 and self.n_views < 2:
                raise ConfigError(f"{key} needs at least two views, got n_views=1: try n_views=2")

    def _fix(self) -> None:
        for key, value in REPRODUCIBLE.items():
            if getattr(self, key) == "auto":
                setattr(self, key, value)
        if self.device != "cpu" or self.precision not in ("fp32", "tf32") or self.compile:  # tf32 on a CPU is fp32
            raise ConfigError(
                "reproducible=true computes on a CPU, in fp32, without torch.compile: "
                "try reproducible=false, or device=cpu precision=fp32 compile=false beside it"
            )

    @classmethod
    def from_config(cls, cfg: DictConfig) -> "Settings":
        """The settings of a composed configuration, interpolations resolved.

        A recipe may hold settings of an evaluator that was not chosen: they are dropped.

        Raises:
            ConfigError: a key that is no setting, a component that is none, or a value out of range.
        """
        plain = cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
        plain.pop("hydra", None)
        for value in flatten(plain).values():
            check_no_secrets(str(value))
        for key in sorted(plain.keys() - cls.__dataclass_fields__.keys()):
            raise ConfigError(no_setting(key, cls.__dataclass_fields__))
        for key in sorted(cls.__dataclass_fields__.keys() - plain.keys()):
            raise ConfigError(f"the setting {key} is missing: try it without ~{key}")
        for group in COMPONENTS:
            if group not in OPTIONAL and "_target_" not in (plain[group] or {}):
                raise ConfigError(
                    f"{group} has no _target_: try it without ~{group}, or _target_: my_{group}.MyClass in its YAML"
                )
        chosen = {group: _chosen(group, plain[group]) for group in LISTS}
        absent = {group: plain[group] or None for group in ("average", "teacher")}  # the YAML of none is empty
        return cls(**{**plain, **chosen, **absent})

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, as config.yaml holds them."""
        return asdict(self)


def _chosen(group: str, nodes: dict[str, Any]) -> dict[str, Any]:
    """The nodes of the options that were chosen, without settings of others."""
    if "_target_" in nodes:
        raise ConfigError(
            f"the YAML of {nodes['_target_']} has no package line: try '# @package {group}.NAME' as its first line"
        )
    return {name: node for name, node in nodes.items() if isinstance(node, Mapping) and "_target_" in node}


def checked_settings(cfg: DictConfig, overrides: Sequence[str]) -> Settings:
    """The settings of a run, whose modules Python finds; a warning for each override that nothing reads.

    Args:
        cfg: what the overrides compose.
        overrides: KEY=VALUE, as typed.

    Raises:
        ConfigError: a setting, or a combination of settings, that cannot be used.
    """
    settings = Settings.from_config(cfg)
    check_modules(settings.to_dict())
    for key in unused_overrides(cfg, overrides):
        print(f"warning: nothing reads {key} here, so {key} changes nothing")
    return settings


def unused_overrides(cfg: DictConfig, overrides: Sequence[str]) -> list[str]:
    """Typed settings that nothing reads: shared keys no component refers to, options that were not chosen."""
    typed = {item.split("=", 1)[0].lstrip("+") for item in overrides}
    written = json.dumps(OmegaConf.to_container(cfg, resolve=False))
    unused = [key for key in SHARED_KEYS if key in typed and f"${{{key}}}" not in written]
    for key in sorted(typed):
        group, _, rest = key.partition(".")
        name = rest.partition(".")[0]
        node = cfg[group].get(name) if group in LISTS and name else {"_target_": ""}
        if not (isinstance(node, Mapping) and "_target_" in node):
            unused.append(key)
    return unused


ConfigStore.instance().store(name="settings_schema", node=Settings)
