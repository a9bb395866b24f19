"""The command line of `python -m contrastive.evaluate`: runs, and settings of datasets and evaluators.

Imports no torch: a mistake is answered at once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from contrastive.errors import ConfigError
from contrastive.program.configs import CONFIGS, options
from contrastive.program.settings import Settings, check_booleans, unused_overrides

USAGE = "try python -m contrastive.evaluate RUN 'evaluator=[knn,linear]'"
SETTABLE = ("evaluator", "dataset", "device", "data_root", "resident", "rerun", "trust", "hydra")
NEUTRAL = "image_folder"  # its recipe leaves every evaluator at its defaults


@dataclass(frozen=True, kw_only=True)
class Request:
    """One run to evaluate.

    Attributes:
        run: the run directory. config: its config.yaml. is_transfer: whether `dataset` was typed.
        settings: the composed settings; of use are dataset, evaluator, device, data_root, resident and rerun.
        dataset_name: in names and tables. warnings: sentences to print.
    """

    run: Path
    config: dict[str, Any]
    is_transfer: bool
    settings: Settings
    dataset_name: str
    warnings: tuple[str, ...]


def read_words(words: list[str], *, folders: Sequence[Path] = ()) -> list[Request]:
    """A request for each run.

    Args:
        folders: of YAMLs besides the package's own, those of --config-dir.

    Raises:
        ConfigError: a word that is neither a folder with finished runs nor a setting of an evaluation.
    """
    places = [word for word in words if Path(word).is_dir()]
    overrides = [word for word in words if not Path(word).is_dir()]
    for word in overrides:
        key, is_setting, _ = word.lstrip("+~").partition("=")
        if not is_setting or "/" in key:
            raise ConfigError(f"{word} is neither a folder nor KEY=VALUE: {USAGE}")
        if key.split(".")[0] not in SETTABLE:
            raise ConfigError(
                f"{key} is no setting of an evaluation, which are {', '.join(SETTABLE[:-1])}: "
                f"try python train.py {word} for a new run"
            )
    if not places:
        raise ConfigError(f"no run is named: {USAGE}")
    check_booleans(overrides)
    if folders:
        overrides.append(f"hydra.searchpath=[{','.join(_quoted(f'file://{folder}') for folder in folders)}]")
    return [_request(run, overrides) for place in places for run in finished_runs(Path(place))]


def _quoted(text: str) -> str:
    """A string in Hydra's grammar."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def finished_runs(folder: Path) -> list[Path]:
    """The run directory itself, or every finished run below the folder."""
    if (folder / "config.yaml").exists() and not (folder / "result.json").exists():
        raise ConfigError(f"the run in {folder} is not finished: try the command that began it once more")
    runs = sorted(path.parent for path in folder.rglob("result.json"))
    if not runs:
        raise ConfigError(f"there is no finished run below {folder}: try python train.py first")
    return runs


def _request(run: Path, overrides: list[str]) -> Request:
    config = yaml.safe_load((run / "config.yaml").read_text())
    typed = {word.lstrip("+~").partition("=")[0] for word in overrides}
    own = _option(config["dataset"]["_target_"]) or NEUTRAL
    words = [f"seed={config['seed']}", *([] if "dataset" in typed else [f"dataset={own}"]), *overrides]
    with initialize_config_dir(str(CONFIGS.resolve()), version_base="1.3"):
        cfg = compose("train", words, return_hydra_config=True)
    choice = str(cfg.hydra.runtime.choices.dataset)
    OmegaConf.set_struct(cfg, False)
    del cfg["hydra"]  # it names a run directory, and there is none
    if "dataset" not in typed:
        _keep_recorded(cfg, {"dataset": config["dataset"]}, typed, keep_absent=True)
        _keep_recorded(cfg, {"evaluator": config["evaluator"]}, typed, keep_absent=False)
    elif "size" in cfg.dataset and "dataset.size" not in typed and "size" in config["dataset"]:
        cfg.dataset.size = config["dataset"]["size"]
    warnings = [f"nothing reads {key} here, so {key} changes nothing" for key in unused_overrides(cfg, overrides)]
    settings = Settings.from_config(cfg)
    return Request(
        run=run,
        config=config,
        is_transfer="dataset" in typed,
        settings=settings,
        dataset_name=_dataset_name(choice, settings.dataset),
        warnings=tuple(warnings),
    )


def _keep_recorded(cfg: Any, nodes: dict[str, Any], typed: set[str], *, keep_absent: bool) -> None:
    """Give the settings the values that the run had, except where another was typed.

    Args:
        keep_absent: also settings that the composed node does not have; else only those of chosen evaluators.
    """
    for group, node in nodes.items():
        for name, value in node.items():
            key = f"{group}.{name}"
            if isinstance(value, dict) and group == "evaluator":
                if "_target_" in (cfg.evaluator.get(name) or {}):
                    _keep_recorded(cfg, {key: value}, typed, keep_absent=True)
            elif key not in typed and (keep_absent or OmegaConf.select(cfg, key) is not None):
                OmegaConf.update(cfg, key, value, merge=False)


def _option(target: str) -> str | None:
    """The option of configs/dataset that builds `target`."""
    for name in options("dataset"):
        if yaml.safe_load((CONFIGS / "dataset" / f"{name}.yaml").read_text())["dataset"]["_target_"] == target:
            return name
    return None


def _dataset_name(choice: str, node: dict[str, Any]) -> str:
    """The option's name; an image folder has its own."""
    folder = node.get("name") or (Path(node["root"]).resolve().name if "name" in node and node["root"] else "")
    return "-".join([choice, *([re.sub(r"[^\w.+-]+", "-", str(folder))] if folder else [])])
