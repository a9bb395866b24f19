"""Runs from Python: the same settings, checks and run directories as train.py, without a command line."""

import json
from pathlib import Path

import torch
from hydra import compose, initialize_config_dir
from omegaconf import open_dict

from contrastive.config.compose import importable
from contrastive.config.messages import user_message
from contrastive.config.paths import CONFIGS
from contrastive.config.settings import checked_settings
from contrastive.config.targets import check_targets
from contrastive.errors import ConfigError
from contrastive.experiment.encoder import load_run_encoder
from contrastive.experiment.run import run_experiment
from contrastive.run.files import read_config, read_result


class Result:
    """A finished run.

    Attributes:
        path: the run directory.
        test: {name: value} after the last epoch, on the test split; accuracies in percent.
        untrained, val: the same before training, and on the validation split.

    Args:
        path: the directory of any finished run.

    Raises:
        ConfigError: there is no finished run in `path`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        record = read_result(self.path)
        if record is None:
            raise ConfigError(f"{path} holds no finished run: try python train.py hydra.run.dir={path}")
        self.test: dict[str, float] = record["test"]
        self.untrained: dict[str, float] = record["untrained"]
        self.val: dict[str, float] = record["val"]

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.2f}" for name, value in self.test.items())
        return f"Result({str(self.path)!r}: {figures})"

    @property
    def curves(self) -> list[dict[str, float]]:
        """The lines of metrics.jsonl: step, epoch and what was logged there; `pandas.DataFrame` takes them."""
        return [json.loads(line) for line in (self.path / "metrics.jsonl").read_text().splitlines()]

    def curve(self, name: str) -> tuple[list[float], list[float]]:
        """The epochs and values of one curve, such as `test/knn_top1`.

        Raises:
            ConfigError: there is no such curve.
        """
        points = [(line["epoch"], line[name]) for line in self.curves if name in line]
        if not points:
            known = sorted({key for line in self.curves for key in line} - {"step", "epoch"})
            raise ConfigError(f'there is no curve {name}, known are {", ".join(known)}: try curve("{known[0]}")')
        return [epoch for epoch, _ in points], [value for _, value in points]

    def encoder(self) -> torch.nn.Module:
        """The trained encoder in eval mode, on the CPU; it takes normalized images.

        The configuration of the run may name modules of the current folder.
        """
        config = read_config(self.path)
        check_targets(config)
        return load_run_encoder(self.path, config)[0]


def pretrain(*overrides: str) -> Result:
    """Train, evaluate and write one run, as `python train.py` does: `pretrain("loss=debiased_pos", "tau_plus=0.1")`.

    The same words resume an interrupted run and give the result of a finished one. The run directory is named as that
    of the command line; `hydra.run.dir=PATH` chooses another.

    Args:
        overrides: KEY=VALUE, as typed after train.py.

    Raises:
        ConfigError: a setting, or a combination of settings, that cannot be used.
    """
    flags = [word for word in overrides if word.startswith("-")]
    if flags:
        raise ConfigError(f"{flags[0]} is for the command line: try KEY=VALUE, and a loop for a sweep")
    try:
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            cfg = compose("train", list(overrides), return_hydra_config=True)
            with open_dict(cfg):
                cfg.hydra.job.config_name = "train"  # which hydra.main sets, and the naming of runs reads
                path = Path(cfg.hydra.run.dir)
                del cfg.hydra
        with importable(()):
            result = run_experiment(checked_settings(cfg, overrides), path, overrides)
        if not result:
            raise ConfigError("a dry run has no result: try dry_run=false")
        return Result(path)
    except Exception as error:
        message = user_message(error)
        if message is None or isinstance(error, ConfigError):
            raise
        raise ConfigError(message) from error
