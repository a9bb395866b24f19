"""Words of a command line: paths are quoted for Hydra's grammar, a mistaken word is answered with what to type."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from hydra.core.override_parser.types import Quote, QuotedString

from contrastive.config.identity import LISTS
from contrastive.config.reference import GROUPS, every_setting
from contrastive.errors import ConfigError
from contrastive.listing.names import check_no_secrets

GO_ON = (
    "the same command again, which resumes, "
    "encoder.weights=RUN, which starts from its weights, or rerun=true, which starts over"
)
# The words that people type most out of other programs: what to type here, {} for their value
SYNONYMS = {
    "learning_rate": "optimizer.lr={}",
    "gpus": "devices={}",
    "data": "dataset={}",
    "model": "encoder={}",
    "output_dir": "hydra.run.dir={}",
    "num_workers": "it without: no process loads images here",
    "wandb": "'tracker=[tensorboard,wandb]'",
    "resume": GO_ON,
    "checkpoint": GO_ON,
    "dataset.root": "dataset=image_folder dataset.root={}",
    "hydra/launcher=submitit_slurm": "pip install -e '.[slurm]'",
    "hydra/launcher=ray": "pip install -e '.[ray]'",
    "loss=simclr": "loss=nt_xent",
    "dataset=imagenet": "dataset=image_folder dataset.root=PATH, or experiment=imagenet100",
}
# flags of Hydra, which are none of our settings
FLAGS = {
    "--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
    "--shell-completion", "--config-path", "--config-name", "--config-dir", "--experimental-rerun",
}  # fmt: skip
SWEEPS = {"-m", "--multirun"}
SHOWS = {"-h", "--help", "--cfg", "-c", "hydra.mode=MULTIRUN"}

PLAIN = re.compile(r"[a-zA-Z/.][a-zA-Z0-9_./+%*@?|:-]*")  # a path without signs of Hydra's grammar, and no number
AS_IT_IS = re.compile(r"['\"[$]|choice\(|range\(|interval\(|(null)?$")  # quoted, or of Hydra's grammar by intention
PATHS = (
    "data_root", "bias_from", "hydra.run.dir", "hydra.sweep.dir",
    "dataset.root", "dataset.val", "dataset.test", "dataset.table", "dataset.unlabeled", "dataset.cache",
    "dataset.images", "dataset.labels", "dataset.test_images", "dataset.test_labels", "encoder.weights",
)  # fmt: skip
DATASET_PATHS = tuple(key for key in PATHS if key.startswith("dataset."))
NUMBER = re.compile(r"\d+(_\d+)+|[\d_]+e\d+", re.IGNORECASE)  # text that Hydra reads as another, such as 2024_01_15


def quote_paths(words: Sequence[str]) -> list[str]:
    """The words with quotes around paths that Hydra's grammar would read otherwise; ~ of a path expanded.

    What is quoted already, refers to another setting, or lists several values stays; of a sweep each value is a path of
    its own.
    """
    quoted = []
    for word in words:
        key, equals, value = word.partition("=")
        value = expanded(key, value)
        is_list = not SWEEPS.isdisjoint(words) and not AS_IT_IS.match(value)
        values = value.split(",") if is_list else [value]
        quoted.append(f"{key}{equals}{','.join(_quoted(key, one) for one in values)}")
    return quoted


def _quoted(key: str, value: str) -> str:
    is_text = key in PATHS and not PLAIN.fullmatch(value) and not AS_IT_IS.match(value)
    return "'" + value.replace("'", "\\'") + "'" if is_text else value


def expanded(key: str, value: str) -> str:
    """The value of a setting, the ~ of a path, or of each in a list, as the folder that it stands for."""
    if key not in PATHS or "~" not in value:
        return value
    return ",".join(str(Path(part).expanduser()) if part.startswith("~") else part for part in value.split(","))


def typed(value: object) -> str:
    """A value as it is typed after KEY=: null, [a,b], {a:1}; quoted where Hydra would read signs of its own.

    Raises:
        ConfigError: it is a component, not the name of one.
    """
    if callable(value):  # a class, or what one built
        raise ConfigError(
            f"{getattr(value, '__name__', type(value).__name__)} is chosen by name, so that a run can be resumed: "
            'write its YAML, such as mine/loss/my_loss.yaml, and try loss="my_loss", config_dir="mine"'
        )
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(typed, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{typed(item)}' for key, item in value.items())}}}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    is_plain = re.fullmatch(r"[\w./+-]+", text, re.ASCII) and not (isinstance(value, str) and NUMBER.fullmatch(value))
    return text if is_plain else QuotedString(text, Quote.single).with_quotes()


def check_words(words: Sequence[str]) -> None:
    """Refuse what Hydra takes in another sense without a word, or answers without what to type.

    Raises:
        ConfigError: with what to type.
    """
    for word in words:
        check_no_secrets(word)
    if (n := sum(word.startswith("dataset.root=") for word in words)) > 1:
        raise ConfigError(f"{n} words say dataset.root, as braces in the shell do: try 'dataset.root=X{{0..9}}.tar'")
    of_a_sweep = [word for word in words if word.startswith(("hydra/launcher=", "hydra/sweeper="))]
    if of_a_sweep and (SWEEPS | SHOWS).isdisjoint(words):
        raise ConfigError(f"{of_a_sweep[0]} is for the runs of a sweep: try -m before it, also for a single run")
    for word, after in zip(words, [*words[1:], "VALUE"], strict=True):
        key, equals, value = word.partition("=")
        if key.startswith("--") and key not in FLAGS:
            name = key.removeprefix("--").replace("-", "_")
            near = [*neighbors(name, (item.key for _, item in every_setting())), name][0]
            raise ConfigError(f"settings are given as KEY=VALUE, got {word}: try {near}={value if equals else after}")
        if key in GROUPS and key not in LISTS and value.startswith("["):
            raise ConfigError(f"{key} takes one option, got {value}: try {key}=OPTION, or python train.py -m {key}=A,B")
        if key == "dataset" and "/" in value:
            raise ConfigError(f"dataset={value} is a path: try dataset=image_folder dataset.root={value}")


def neighbors(word: str, known: Iterable[str]) -> list[str]:
    """Up to three of the known names, the nearest first: `lr` is near to `optimizer.lr`, `NTXent` to `nt_xent`."""
    names = {name: _plain(name) for name in known}
    near = [name for name, plain in names.items() if plain == _plain(word)]
    near += [name for name in names if name.endswith(f".{word}")]
    near += get_close_matches(word, names, n=3, cutoff=0.7)
    parts = [name for name, plain in names.items() if len(word) > 2 and _plain(word) in plain]
    return [*dict.fromkeys(near or parts)][:3]


def _plain(name: str) -> str:
    """A name as it is heard, without case, - and _."""
    return name.lower().replace("_", "").replace("-", "")


def did_you_mean(word: str, known: Iterable[str], *, typed: str = "{}") -> str:
    """`did you mean tau_plus?`, or nothing.

    Args:
        typed: how a name is typed, such as `loss={}`.
    """
    names = [typed.format(name) for name in neighbors(word, known)]
    return f"did you mean {' or '.join(names)}?" if names else ""


def no_setting(key: str, known: Iterable[str], value: str = "VALUE") -> str:
    """The sentence for a setting that does not exist."""
    if key in SYNONYMS:
        return f"there is no setting {key}: try {SYNONYMS[key].format(value)}"
    return f"there is no setting {key}: {f'{did_you_mean(key, known)} try python train.py --help'.lstrip()}"


def no_option(group: str, name: str, known: Iterable[str]) -> str:
    """The sentence for an option that a group does not have."""
    typed = f"{group}={name}"
    if typed in SYNONYMS:
        return f"there is no {typed}: try {SYNONYMS[typed]}"
    see = f"try python train.py --help {group}, or --config-dir DIR with one of your own"
    near = did_you_mean(name, known, typed=f"{group}={{}}") or f"known are {', '.join(known) or 'none'}:"
    return f"there is no {typed}: {near} {see}"
