"""Typed settings: the schema of the configuration and the ranges of its values. Imports no torch: answers at once.

Types are checked by Hydra at the override, ranges in `Settings.__post_init__`, and what needs data or other components
where they are built. Defaults stand in configs/train.yaml.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from contrastive.errors import ConfigError, check_choice, check_tau_plus, check_temperature

MAX_THREADS = 1024
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
    compile: bool
    device: str
    devices: int
    grad_cache_chunk: int
    resident: bool | str
    threads: int | str
    data_root: str

    log_every: int
    checkpoint_every: int
    checkpoint_every_minutes: float
    rerun: bool
    search_metric: str
    dry_run: bool
    quiet: bool
    trust: Any  # a module or a list of them; a list once checked

    def __post_init__(self) -> None:
        """Raise ConfigError for a value out of range."""
        self._is_set()
        self._at_least("epochs", 0, example=50)
        self._at_least("batch_size", 2, example=128)
        self._at_least("n_views", 1, example=2)
        self._at_least("log_every", 1, example=100)
        self._at_least("checkpoint_every", 1, example=1)
        self._at_least("checkpoint_every_minutes", 0, example=15)
        self._at_least("seed", 0, example=0)
        self._at_least("devices", 1, example=2)
        self._at_least("grad_cache_chunk", 0, example=128)
        check_choice("views_forward", self.views_forward, ("fused", "per_view"))
        check_choice("sampler", self.sampler, ("uniform", "bias_balanced"))
        check_choice("precision", self.precision, ("auto", "fp32", "bf16", "fp16"))
        if self.resident != "auto" and not isinstance(self.resident, bool):
            raise ConfigError(f"resident must be auto, true or false, got {self.resident!r}: try resident=auto")
        check_threads(self.threads)
        self._fraction("noise_frac", example=0.3)
        self._fraction("blur_frac", example=0.3)
        self.trust = self.trust if isinstance(self.trust, list) else [self.trust]
        if not all(isinstance(module, str) and module.isidentifier() for module in self.trust):
            raise ConfigError(f"trust must be names of modules, got {self.trust}: try trust=[my_loss]")
        check_temperature(self.temperature)
        check_tau_plus(self.tau_plus, allow_zero=True)
        if self.grad_cache_chunk == 1:
            raise ConfigError("grad_cache_chunk=1 leaves BatchNorm a single image: try grad_cache_chunk=128")
        if self.devices > 1 and ":" in self.device:
            raise ConfigError(
                f"device={self.device} names one GPU and there are {self.devices} processes: try device=cuda"
            )
        if self.batch_size % self.devices:
            raise ConfigError(
                f"batch_size={self.batch_size} cannot be shared equally by devices={self.devices}: "
                f"try batch_size={max(1, self.batch_size // self.devices) * self.devices}"
            )

    def _is_set(self) -> None:
        for key, value in vars(self).items():
            if value == "???":
                raise ConfigError(f"{key}=??? is no value: try python train.py --cfg job to see its default")

    def _at_least(self, key: str, least: int, *, example: int) -> None:
        if not getattr(self, key) >= least:
            raise ConfigError(f"{key} must be at least {least}, got {getattr(self, key)}: try {key}={example}")

    def _fraction(self, key: str, *, example: float) -> None:
        value = getattr(self, key)
        if not 0 <= value <= 1:
            raise ConfigError(f"{key} is a probability, got {value}: try {key}={example}")
        if value > 0 and self.n_views < 2:
            raise ConfigError(f"{key} is about the second view and there is one: try n_views=2")

    @classmethod
    def from_config(cls, cfg: DictConfig) -> "Settings":
        """The settings of a composed configuration, interpolations resolved.

        A recipe may hold settings of an evaluator that was not chosen: they are dropped. So are `encoder.weights` and
        `encoder.prefix` where they are not set: a run without them has the configuration that it always had.

        Raises:
            ConfigError: a key that is no setting, or a value out of range.
        """
        plain = cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True))
        plain.pop("hydra", None)
        unknown = sorted(plain.keys() - cls.__dataclass_fields__.keys())
        if unknown:
            raise ConfigError(f"there is no setting {unknown[0]}: try python train.py --cfg job to see them all")
        missing = sorted(cls.__dataclass_fields__.keys() - plain.keys())
        if missing:
            raise ConfigError(f"the setting {missing[0]} is missing: try it without ~{missing[0]}")
        if "_target_" in plain["evaluator"]:
            raise ConfigError(
                f"the YAML of {plain['evaluator']['_target_']} does not say its name: "
                "try '# @package evaluator.NAME' as its first line"
            )
        for name, node in plain["evaluator"].items():
            if node is not None and not isinstance(node, dict):
                raise ConfigError(f"evaluator.{name} must be a YAML with a _target_, got {node}: try evaluator=[knn]")
        chosen = {name: node for name, node in plain["evaluator"].items() if "_target_" in (node or {})}
        unset = [key for key in ("weights", "prefix") if plain["encoder"].get(key) is None]
        encoder = {key: value for key, value in plain["encoder"].items() if key not in unset}
        return cls(**{**plain, "evaluator": chosen, "encoder": encoder})

    def to_dict(self) -> dict[str, Any]:
        """Plain containers, as config.yaml holds them."""
        return asdict(self)


def check_threads(threads: int | str) -> None:
    """Raise ConfigError for anything but auto or a number of threads."""
    is_short = str(threads).isdecimal() and len(str(threads)) <= len(str(MAX_THREADS))
    if threads != "auto" and not (is_short and 1 <= int(threads) <= MAX_THREADS):
        raise ConfigError(f"threads must be auto or a number from 1 to {MAX_THREADS}, got {threads}: try threads=auto")


def check_booleans(overrides: list[str]) -> None:
    """Raise ConfigError for a typed root setting that is true or false by another word: Hydra takes 5 for true."""
    booleans = [key for key, field in Settings.__dataclass_fields__.items() if field.type is bool]
    for key, _, value in (item.lstrip("+").partition("=") for item in overrides):
        if key in booleans and value.lower() not in ("true", "false"):
            raise ConfigError(f"{key} must be true or false, got {value}: try {key}=true")


def check_yaml_booleans(root: Any, path: Path) -> None:
    """The same for the root of a YAML: raise ConfigError for a number or a word where true or false belongs."""
    for key, field in Settings.__dataclass_fields__.items():
        value = root.get(key) if field.type is bool and isinstance(root, dict) else None
        if value is not None and not isinstance(value, bool) and not str(value).startswith("${"):
            raise ConfigError(f"{key} of {path} must be true or false, got {value}: try {key}: true in it")


def unused_overrides(cfg: DictConfig, overrides: list[str]) -> list[str]:
    """Typed settings that nothing reads: shared keys no component refers to, evaluators that were not chosen."""
    typed = {item.split("=", 1)[0].lstrip("+") for item in overrides}
    written = json.dumps(OmegaConf.to_container(cfg, resolve=False))
    unused = [key for key in SHARED_KEYS if key in typed and f"${{{key}}}" not in written]
    for key in sorted(typed):
        group, _, rest = key.partition(".")
        name = rest.partition(".")[0]
        node = cfg.evaluator.get(name) if group == "evaluator" and name else {"_target_": ""}
        if node is None or (isinstance(node, Mapping) and "_target_" not in node):
            unused.append(key)
    return unused


ConfigStore.instance().store(name="settings_schema", node=Settings)
