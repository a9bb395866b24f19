"""Runs from Python: the same settings, checks and run directories as train.py, without a command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np
import torch
from hydra import compose
from omegaconf import open_dict
from torch import Tensor, nn

from contrastive.config.compose import composing, importable, search_path
from contrastive.config.messages import user_message
from contrastive.config.settings import Settings, checked_settings
from contrastive.config.words import check_words, expanded, quote_paths, typed
from contrastive.dataset.arrays import as_images, given_data
from contrastive.dataset.splits import judged_on_training
from contrastive.errors import ConfigError
from contrastive.experiment.encoder import Picture, Transform, open_encoder
from contrastive.experiment.run import run_experiment
from contrastive.run.files import run_below
from contrastive.run.log import read_points
from contrastive.run.run import read_finished
from contrastive.types import Data

if TYPE_CHECKING:
    from contrastive.experiment.keywords import Keywords  # a stub


class Result:
    """A finished run.

    Attributes:
        path: the run directory.
        test: {name: value} after the last epoch, on the test split; accuracies in percent.
        untrained, val: the same before training, and on the validation split.
        audit: what `bias_audit` and `class_audit` found, such as `audit["groups"]`.

    Args:
        path: the directory of any finished run, or a folder with a single run below it.
        config_dir: a folder of your own modules, which the configuration of the run may name; None = it may name none.

    Raises:
        ConfigError: there is no finished run in `path`, or several below it.
    """

    def __init__(self, path: str | Path, *, config_dir: str | Path | None = None) -> None:
        self.path = run_below(Path(path))
        self._folders = [] if config_dir is None else [Path(config_dir).resolve()]
        record = read_finished(self.path).result
        self.test: dict[str, float] = record["test"]
        self.untrained: dict[str, float] = record["untrained"]
        self.val: dict[str, float] = record["val"]
        self.audit: dict[str, Any] = record["audit"]

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.2f}" for name, value in self.test.items())
        return f"Result({str(self.path)!r}: {figures})"

    @property
    def curves(self) -> list[dict[str, float]]:
        """The lines of metrics.jsonl: step, epoch and what was logged there; `pandas.DataFrame` takes them."""
        return read_points(self.path)

    def curve(self, name: str) -> tuple[list[float], list[float]]:
        """The epochs and values of one curve, such as `test/knn_top1`.

        Raises:
            ConfigError: there is no such curve.
        """
        points = [(line["epoch"], line[name]) for line in self.curves if name in line]
        if not points:
            known = sorted({key for line in self.curves for key in line} - {"step", "epoch"})
            raise ConfigError(f"there is no curve {name}: try one of {', '.join(known) or 'another run'}")
        return [epoch for epoch, _ in points], [value for _, value in points]

    def encoder(self) -> tuple[nn.Module, Transform]:
        """The trained encoder in eval mode, on the CPU, and the transform of its images, as `load_encoder` gives them.

        The network may be your own, from a module in `config_dir`, or after `pretrain` from one in the current folder.
        """
        return open_encoder(self.path, self._folders)

    def embed(self, images: Any, *, batch_size: int = 256) -> Tensor:
        """The features of images, (N, F) on the CPU; `contrastive embed` writes those of folders to a file.

        Args:
            images: a list or tuple of paths, PIL images or arrays (h, w, K), one of these alone, an array as `pretrain`
                takes it, or a tensor (N, K, h, w).

        Raises:
            ConfigError: tensors in a list, or an array of another kind.
        """
        encoder, transform = self.encoder()
        several = _several(images, n_channels=len(transform.mean))
        starts = range(0, len(several), batch_size)
        with torch.inference_mode():
            return torch.cat([encoder(transform(several[start : start + batch_size])) for start in starts])


def _several(images: Any, *, n_channels: int) -> list[Picture] | Tensor:
    """Images as a transform takes several of them."""
    if isinstance(images, np.ndarray | Tensor) and images.ndim == 3 and n_channels == 1 and 1 not in images.shape:
        images = images[:, None]  # gray images (N, h, w)
    if isinstance(images, Tensor):
        return images if images.ndim == 4 else images[None]
    if isinstance(images, np.ndarray) and images.ndim == 4:
        return as_images(images, "the images")
    return [*images] if isinstance(images, list | tuple) else [images]


@overload
def pretrain(  # what an editor completes
    *words: str, data: Any = None, config_dir: str | Path | None = None, **settings: "Unpack[Keywords]"
) -> Result: ...
@overload
def pretrain(*words: str, data: Any = None, config_dir: str | Path | None = None, **settings: Any) -> Result: ...
def pretrain(*words: str, data: Any = None, config_dir: str | Path | None = None, **settings: Any) -> Result:
    """Train, evaluate and write one run, as `python train.py` does: `pretrain(loss="debiased_pos", tau_plus=0.1)`.

    The same settings resume an interrupted run and give the result of a finished one. The run directory is named as
    that of the command line; `hydra.run.dir=PATH` chooses another.

        pretrain("augmentation=intensity", data=(images, labels), **{"dataset.name": "lungs"})

    Args:
        data: images and labels in memory, in place of a dataset: `(images, labels)`, images alone, a torch `Dataset`,
            {"train": ..., "test": ...} of such, or a `Data`; see `contrastive.dataset.arrays.given_data`. Images are
            uint8 or uint16, (N, H, W), (N, H, W, K) or (N, K, H, W). The recipe is that of dataset=arrays. To resume
            it, give the same data again.
        config_dir: a folder of YAMLs and modules of your own, as `--config-dir`: `pretrain(loss="my_loss",
            config_dir="mine")`.
        augmentation: the name of one, or a function of a module of yours that maps an image to a view, see
            `contrastive.augmentation.callable`.
        words: KEY=VALUE, as typed after train.py: `pretrain("dataset.size=8", "+augmentation.ops.solarize={...}")`.
        settings: the same as keywords, nested ones as `**{"dataset.size": 8}`; None is null.

    Raises:
        ConfigError: a setting, or a combination of settings, that cannot be used.
    """
    if callable(own := settings.get("augmentation")):
        settings |= {"augmentation": "callable", "augmentation.transform": _dotted_name(own)}
    texts = {key: expanded(key, str(value)) for key, value in settings.items() if isinstance(value, str | Path)}
    overrides = [*quote_paths(words), *(f"{key}={typed(value)}" for key, value in (settings | texts).items())]
    check_words(overrides)
    if data is not None:
        if named := [word for word in overrides if word.startswith("dataset=")]:
            raise ConfigError(f"{named[0]} names other data than those given: try pretrain(data=...) without it")
        overrides = ["dataset=arrays", *overrides]
    own_folders = [] if config_dir is None else [Path(config_dir).resolve()]
    try:
        with composing():
            cfg = compose("train", [*overrides, *search_path(own_folders)], return_hydra_config=True)
            with open_dict(cfg):
                cfg.hydra.job.config_name = "train"  # which hydra.main sets, and the naming of runs reads
                path = Path(cfg.hydra.run.dir)
                del cfg.hydra
        with importable(folders := [Path.cwd(), *own_folders]):
            checked = checked_settings(cfg, overrides)
            run_experiment(checked, path, overrides, data=None if data is None else _given(data, checked))
        found = Result(path)
        found._folders = folders  # the configuration is the caller's
        return found
    except Exception as error:
        message = user_message(error, words=[*overrides, *(f"--config-dir={folder}" for folder in own_folders)])
        if message is None or isinstance(error, ConfigError):
            raise
        raise ConfigError(message) from error


def _dotted_name(function: Any) -> str:
    """Under which a function is found again: by the run's workers, by a resumed run, and by who reads its record."""
    module, name = getattr(function, "__module__", "__main__"), getattr(function, "__qualname__", "<object>")
    if module == "__main__" or "<" in name:
        raise ConfigError(
            "an augmentation is found by its name in a module, so that a run can be resumed: "
            'try pretrain("augmentation=callable", "augmentation.transform=my_module.transform")'
        )
    return f"{module}.{name}"


def _given(data: Any, settings: Settings) -> Data:
    """The data of a run, as the program has them."""
    found = given_data(data, name=settings.dataset["name"] or "given", hold_out=settings.dataset["hold_out"])
    return found if settings.held_out is None else judged_on_training(found, settings.held_out)
