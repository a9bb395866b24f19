"""The configuration that words on train.py's command line give, composed without starting a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hydra import compose
from omegaconf import DictConfig, OmegaConf

from contrastive.program.composition import search_path
from contrastive.program.settings import Settings


@dataclass(frozen=True)
class Composer:
    """Composes words, with the options of a folder of one's own; Hydra must be initialized while it does.

    Attributes:
        folder: that of --config-dir, or None.
    """

    folder: Path | None

    def settings(self, words: tuple[str, ...]) -> dict[str, Any]:
        """All of it, resolved."""
        return Settings.from_config(self._compose(words)).to_dict()

    def dataset(self, words: tuple[str, ...]) -> dict[str, Any]:
        """The dataset's node, resolved."""
        return cast(dict[str, Any], OmegaConf.to_container(self._compose(words).dataset, resolve=True))

    def _compose(self, words: tuple[str, ...]) -> DictConfig:
        return compose("train", [*words, *search_path([] if self.folder is None else [self.folder])])
