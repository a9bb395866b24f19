"""Words of a command line: paths are quoted for Hydra's grammar, and what it would not refuse is, with what to type."""

import re
from collections.abc import Sequence
from pathlib import Path

from contrastive.config.identity import LISTS
from contrastive.config.neighbors import neighbors
from contrastive.config.reference import GROUPS, settings_for
from contrastive.errors import ConfigError
from contrastive.listing.names import check_no_secrets

# flags of Hydra, which are none of our settings
FLAGS = {
    "--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
    "--shell-completion", "--config-path", "--config-name", "--config-dir", "--experimental-rerun",
}  # fmt: skip
SHOWS = {"-h", "--help", "--cfg", "-c", "--info", "-i", "--shell-completion", "-sc"}  # in place of running

PLAIN = re.compile(r"[a-zA-Z/.][a-zA-Z0-9_./+%*@?|:-]*")  # a path without signs of Hydra's grammar, and no number
AS_IT_IS = re.compile(r"['\"[$]|choice\(|range\(|interval\(|(null)?$")  # quoted, or of Hydra's grammar by intention
PATHS = (
    "data_root", "bias_from", "hydra.run.dir", "hydra.sweep.dir",
    "dataset.root", "dataset.val", "dataset.test", "dataset.table", "dataset.unlabeled", "dataset.cache",
    "dataset.images", "dataset.labels", "dataset.test_images", "dataset.test_labels", "encoder.weights",
)  # fmt: skip
DATASET_PATHS = tuple(key for key in PATHS if key.startswith("dataset."))
PATTERN = "dataset.bias_pattern"


def quote_paths(words: Sequence[str]) -> list[str]:
    """The words with quotes around paths and patterns that Hydra's grammar would read otherwise; ~ of a path expanded.

    Of text beyond ASCII, such as größe, too. What is quoted already, refers to another setting, or lists several values
    stays; of a sweep each value is a path of its own.
    """
    quoted = []
    for word in words:
        key, equals, value = word.partition("=")
        value = expanded(key, value)
        is_list = _is_sweep(words) and key != PATTERN and not AS_IT_IS.match(value)
        values = value.split(",") if is_list else [value]
        quoted.append(f"{key}{equals}{','.join(_quoted(key, one) for one in values)}")
    return quoted


def _quoted(key: str, value: str) -> str:
    stays = re.match(r"['\"]|\$\{|(null)?$", value) if key == PATTERN else AS_IT_IS.match(value)
    is_text = (key in PATHS and not PLAIN.fullmatch(value)) or key == PATTERN
    is_foreign = not value.isascii() and re.fullmatch(r"[\w .-]+", value)
    return "'" + value.replace("'", "\\'") + "'" if not stays and (is_text or is_foreign) else value


def expanded(key: str, value: str) -> str:
    """The value of a setting, the ~ of a path, or of each in a list, as the folder that it stands for."""
    if key not in PATHS or "~" not in value:
        return value
    return ",".join(str(Path(part).expanduser()) if part.startswith("~") else part for part in value.split(","))


def _is_sweep(words: Sequence[str]) -> bool:
    return bool({"-m", "--multirun"}.intersection(words))


def check_words(words: Sequence[str]) -> None:
    """Refuse what Hydra takes in another sense without a word, or answers without what to type.

    Raises:
        ConfigError: with what to type.
    """
    for word in words:
        check_no_secrets(word)
    if _is_sweep(words) and (shown := SHOWS.intersection(words)):
        raise ConfigError(f"{min(shown)} shows one run, and -m starts several: try it without -m")
    if _is_sweep(words) and any(word.startswith("hydra.run.dir=") for word in words):
        raise ConfigError("hydra.run.dir is of one run, and -m starts several: try hydra.sweep.dir=PATH")
    if (n := sum(word.startswith("dataset.root=") for word in words)) > 1:
        raise ConfigError(f"{n} words say dataset.root, as braces in the shell do: try 'dataset.root=X{{0..9}}.tar'")
    of_a_sweep = [word for word in words if word.startswith(("hydra/launcher=", "hydra/sweeper="))]
    if of_a_sweep and not _is_sweep(words) and not SHOWS.intersection([*words, "hydra.mode=MULTIRUN"]):
        raise ConfigError(f"{of_a_sweep[0]} is for the runs of a sweep: try -m before it, also for a single run")
    for word, after in zip(words, [*words[1:], "VALUE"], strict=True):
        key, equals, value = word.partition("=")
        if key.startswith("--") and key not in FLAGS:
            name = key.removeprefix("--").replace("-", "_")
            near = [*neighbors(name, settings_for(())), name][0]
            raise ConfigError(f"settings are given as KEY=VALUE, got {word}: try {near}={value if equals else after}")
        if key in GROUPS and key not in LISTS and value.startswith("["):
            raise ConfigError(f"{key} takes one option, got {value}: try {key}=OPTION, or python train.py -m {key}=A,B")
        if key == "dataset" and "/" in value:
            raise ConfigError(f"dataset={value} is a path: try dataset=image_folder dataset.root={value}")
