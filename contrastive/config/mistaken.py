"""Words of other programs, and slips of the shell, that a command line may hold: what to type instead."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from contrastive.config.identity import LISTS
from contrastive.config.neighbors import neighbors
from contrastive.config.reference import GROUPS, ROOT_FILE, defaults, option_files, settings_in
from contrastive.errors import ConfigError
from contrastive.listing.names import check_no_secrets

# flags of Hydra, which are none of our settings
FLAGS = {
    "--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
    "--shell-completion", "--config-path", "--config-name", "--config-dir", "--experimental-rerun",
}  # fmt: skip
# the word of other programs: ours
ALIASES = {
    "gpus": "devices", "n_gpus": "devices", "num_gpus": "devices", "lr": "optimizer.lr",
    "learning_rate": "optimizer.lr", "weight_decay": "optimizer.weight_decay", "bs": "batch_size",
    "max_epochs": "epochs", "num_epochs": "epochs", "n_epochs": "epochs", "model": "encoder", "backbone": "encoder",
    "arch": "encoder", "data": "dataset", "temp": "temperature", "output_dir": "hydra.run.dir", "out": "hydra.run.dir",
    "save_dir": "hydra.run.dir", "log_dir": "hydra.run.dir",
}  # fmt: skip
NAMES = ("name", "run_name", "exp_name")  # words of other programs for a run, whose folder it is here
GO_ON = (
    "the same command again, which resumes, a larger epochs=N, which lengthens a finished run, "
    "encoder.weights=RUN, which starts from its weights, or rerun=true, which starts over"
)
# the word of other programs, or an option of theirs: what to type
INSTEAD = {
    **dict.fromkeys(("resume", "resume_from", "checkpoint", "ckpt_path"), GO_ON),
    "num_workers": "it without: no process loads images here",
    "wandb": "'tracker=[tensorboard,wandb]'",
    "mlflow": "'tracker=[tensorboard,mlflow]'",
    "amp": "precision=auto",
    "fp16": "precision=fp16",
    "bf16": "precision=bf16",
    "dataset=imagenet": "dataset=image_folder dataset.root=PATH, or experiment=imagenet100",
    "encoder=vit": "encoder=timm encoder.name=vit_small_patch16_224",
    "loss=simclr": "loss=nt_xent",
    "loss=infonce": "loss=nt_xent",
    "search_metric": "contrastive compare loss=NAME metric=knn_top1",
    "hydra/sweeper=search": "contrastive compare loss=NAME, which searches",
    "hydra/sweeper=optuna": "contrastive compare loss=NAME, which searches",
}
CHOOSES_DATA = ("dataset=", "experiment=")
EXCLUSIVE = ("--cfg", "-c", "--info", "-i", "--shell-completion", "-sc")  # with Hydra's multirun


BRACES = re.compile(r"[^'\"]*\{\d+\.\.\d+\}[^'\"]*")  # PATH/{000..099}.tar
SPECIAL = re.compile(
    r"[^\w./+%*@?|:-]", re.ASCII
)  # in a path they are letters, to Hydra grammar or none of its letters
AS_IT_IS = re.compile(r"['\"[$]|choice\(|range\(|interval\(")  # quoted, or of Hydra's grammar by intention
PATHS = (
    "data_root", "bias_from", "hydra.run.dir", "hydra.sweep.dir",
    "dataset.root", "dataset.val", "dataset.test", "dataset.table", "dataset.unlabeled", "dataset.cache",
    "dataset.images", "dataset.labels", "dataset.test_images", "dataset.test_labels", "encoder.weights",
)  # fmt: skip
DATASET_PATHS = tuple(key for key in PATHS if key.startswith("dataset."))


def quote_paths(words: Sequence[str]) -> list[str]:
    """The words with quotes around text that Hydra's grammar would read otherwise; ~ of a path expanded.

    That is a path with signs of the grammar or like a number, `{000..099}`, letters beyond ASCII, and the value of any
    setting of text that Hydra would take for a number, such as 2024_01_15. What is quoted already, refers to another
    setting, or lists several values stays; of a sweep each value is text of its own.
    """
    several = bool({"-m", "--multirun"}.intersection(words))
    quoted = []
    for word in words:
        key, equals, value = word.partition("=")
        is_list = several and key != "dataset.bias_pattern" and not AS_IT_IS.match(value)
        values = expanded(key, value).split(",") if is_list else [expanded(key, value)]
        quoted.append(f"{key}{equals}{','.join(_quoted(key, one) for one in values)}")
    return quoted


def _quoted(key: str, value: str) -> str:
    is_odd = SPECIAL.search(value) or _as_number(value) or (value == "null" and Path(value).exists())
    is_text = (key in PATHS and is_odd) or (_as_number(value) not in ("", value) and _takes_text(key))
    is_pattern = key == "dataset.bias_pattern" and not re.match(r"['\"]|\$\{|(null)?$", value)
    is_foreign = not value.isascii() and re.fullmatch(r"[\w .-]+", value)  # such as größe
    if (is_text and not AS_IT_IS.match(value)) or is_pattern or is_foreign or BRACES.fullmatch(value):
        return "'" + value.replace("'", "\\'") + "'"
    return value


def _as_number(value: str) -> str:
    """A value as Hydra writes the number that it reads in it, 1000.0 of 1e3; nothing if it is none."""
    with suppress(ValueError):
        number = float(value)
        return value if value in (f"{number}", f"{number:.0f}") else f"{number}"
    return ""


def _takes_text(key: str) -> bool:
    """Whether the YAMLs name a setting, and never give it a number, true or false."""
    files = (ROOT_FILE, *option_files(key.partition(".")[0]).values())
    values = {item.value for file in files for item in settings_in(file) if item.key == key}
    return bool(values) and not any(_as_number(value) or value in ("true", "false") for value in values)


def expanded(key: str, value: str) -> str:
    """The value of a setting, the ~ of a path, or of each in a list, as the folder that it stands for."""
    if key not in PATHS or "~" not in value:
        return value
    return ",".join(str(Path(part).expanduser()) if part.startswith("~") else part for part in value.split(","))


def check_words(words: Sequence[str]) -> None:
    """Check the words of a command line for what Hydra's own message would not explain.

    Raises:
        ConfigError: with what to type.
    """
    for word in words:
        check_no_secrets(word)
    if {"-m", "--multirun"}.intersection(words) and (shown := [word for word in words if word in EXCLUSIVE]):
        raise ConfigError(f"{shown[0]} shows one run, and -m starts several: try it without -m")
    if {"-m", "--multirun"}.intersection(words) and any(word.startswith("hydra.run.dir=") for word in words):
        raise ConfigError("hydra.run.dir is of one run, and -m starts several: try hydra.sweep.dir=PATH")
    if (n := sum(word.startswith("dataset.root=") for word in words)) > 1:
        raise ConfigError(f"{n} words say dataset.root, as braces in the shell do: try 'dataset.root=X{{0..9}}.tar'")
    of_a_sweep = [word for word in words if word.startswith(("hydra/launcher=", "hydra/sweeper="))]
    may_stand_alone = {"-m", "--multirun", "hydra.mode=MULTIRUN", "-h", "--help", "--hydra-help", *EXCLUSIVE}
    if of_a_sweep and may_stand_alone.isdisjoint(words) and of_a_sweep[0] not in INSTEAD:
        raise ConfigError(f"{of_a_sweep[0]} is for the runs of a sweep: try -m before it, also for a single run")
    for i, word in enumerate(words):
        key, equals, value = word.partition("=")
        name = key.lstrip("-").replace("-", "_").removeprefix("use_")
        if name in INSTEAD and (equals or key.startswith("--")):
            raise ConfigError(f"there is no setting {name}: try {INSTEAD[name]}")
        if key.startswith("--") and key not in FLAGS:
            given = value if equals else next(iter(words[i + 1 : i + 2]), "")
            raise ConfigError(f"settings are given as KEY=VALUE, got {word}: try {_typed(name, given or 'VALUE')}")
        if word.count("[") > word.count("]") or word.count("{") > word.count("}"):
            rest = words[i + 1 : i + 1 + next((n for n, w in enumerate(words[i + 1 :], 1) if w[-1:] in "]}"), 0)]
            if rest:
                raise ConfigError(f"the shell splits words at a space: try '{word}{''.join(rest)}'")
        if key in GROUPS and key not in LISTS and value.startswith("["):
            options = value.strip("[]").replace(" ", "")
            raise ConfigError(f"{key} takes one option: try python train.py -m {key}={options}")
        if key in LISTS and "," in value and not value.startswith("[") and not {"-m", "--multirun"}.intersection(words):
            raise ConfigError(f"{key} takes a list: try '{key}=[{value}]'")
        if key == "dataset" and "/" in value:
            folder = f" dataset.root={value}" if Path(value).is_absolute() or Path(value).exists() else ""
            raise ConfigError(f"dataset={value} is a path: try dataset=image_folder{folder or ' dataset.root=PATH'}")
        if key in ("dataset.root", "dataset.table") and not any(w.startswith(CHOOSES_DATA) for w in words):
            root = "" if any(w.startswith("dataset.root=") for w in words) else "dataset.root=PATH "
            raise ConfigError(f"dataset=digits reads no folder: try dataset=image_folder {root}{word}")
        if key in GROUPS and value.startswith("{") and (pairs := re.findall(r"([\w.]+): *([^,{}]+)", value)):
            folder = "dataset=image_folder " if key == "dataset" else ""
            raise ConfigError(f"{key} takes a name: try {folder}{' '.join(f'{key}.{k}={v}' for k, v in pairs)}")
        if equals and (key in ALIASES or key in NAMES):
            raise ConfigError(f"there is no setting {key}: try {_typed(key, value)}")


def _typed(name: str, value: str) -> str:
    """The setting that a word of other programs, or the name of a flag, is about, with its value."""
    if name in NAMES:
        return f"hydra.run.dir=outputs/{value}"
    return f"{ALIASES.get(name) or next(iter(neighbors(name, [*GROUPS, *defaults(())])), name)}={value}"
