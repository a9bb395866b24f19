"""Words of a command line: text is quoted for Hydra's grammar, and what is mistaken is answered with what to type."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from contrastive.config.compose import config_dirs
from contrastive.config.identity import COMPONENTS, LISTS, OPTIONAL
from contrastive.config.neighbors import advice, neighbors, no_setting, synonym
from contrastive.config.reference import GROUPS, ROOT_FILE, defaults, option_files, settings_in
from contrastive.errors import ConfigError
from contrastive.listing.names import check_no_secrets

# flags of Hydra, which are none of our settings
FLAGS = {
    "--help", "--hydra-help", "--version", "--cfg", "--resolve", "--package", "--run", "--multirun", "--info",
    "--shell-completion", "--config-path", "--config-name", "--config-dir", "--experimental-rerun",
}  # fmt: skip
CHOOSES_DATA = ("dataset=", "experiment=")
EXCLUSIVE = ("--cfg", "-c", "--info", "-i", "--shell-completion", "-sc")  # with Hydra's multirun
SEVERAL = re.compile(r"\[?([\w./+-]+(, *[\w./+-]+)+|(?<=\[)[\w./+-]+)\]?")  # a,b or [a, b] or [a]

BRACES = re.compile(r"[^'\"]*\{\d+\.\.\d+\}[^'\"]*")  # PATH/{000..099}.tar
SPECIAL = re.compile(r"[^\w./+%*@?|:-]", re.ASCII)  # in a path they are letters, to Hydra grammar or none of its own
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
    several = _is_sweep(words)
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


def _is_sweep(words: Sequence[str]) -> bool:
    return bool({"-m", "--multirun"}.intersection(words))


def check_words(words: Sequence[str]) -> None:
    """Check the words of a command line for what Hydra would take in another sense, or not explain.

    Raises:
        ConfigError: with what to type.
    """
    for word in words:
        check_no_secrets(word)
    if _is_sweep(words) and (shown := [word for word in words if word in EXCLUSIVE]):
        raise ConfigError(f"{shown[0]} shows one run, and -m starts several: try it without -m")
    if _is_sweep(words) and any(word.startswith("hydra.run.dir=") for word in words):
        raise ConfigError("hydra.run.dir is of one run, and -m starts several: try hydra.sweep.dir=PATH")
    if (n := sum(word.startswith("dataset.root=") for word in words)) > 1:
        raise ConfigError(f"{n} words say dataset.root, as braces in the shell do: try 'dataset.root=X{{0..9}}.tar'")
    of_a_sweep = [word for word in words if word.startswith(("hydra/launcher=", "hydra/sweeper="))]
    if of_a_sweep and {"-m", "--multirun", "hydra.mode=MULTIRUN", "-h", "--help", *EXCLUSIVE}.isdisjoint(words):
        raise ConfigError(f"{of_a_sweep[0]} is for the runs of a sweep: try -m before it, also for a single run")
    for i, word in enumerate(words):
        key, equals, value = word.partition("=")
        if key.startswith("--") and key not in FLAGS:
            given = value if equals else next(iter(words[i + 1 : i + 2]), "VALUE")
            near = next(iter(neighbors(key[2:].replace("-", "_"), [*GROUPS, *defaults(())])), "KEY")
            meant = synonym(key[2:], given) or f"{near}={given}"
            raise ConfigError(f"settings are given as KEY=VALUE, got {word}: try {meant}")
        if equals and not word.startswith("-") and (key != key.strip() or value != value.strip()):
            shell = " in a script whose lines end as those of Linux do" if "\r" in word else ""
            raise ConfigError(f"{word!r} has blanks around its words: try {key.strip()}={value.strip()}{shell}")
        if word.startswith("~") and key[1:] in COMPONENTS and key[1:] not in OPTIONAL:
            raise ConfigError(f"every run has one option of {key[1:]}: try it without {word}")
        if word.count("[") > word.count("]") or word.count("{") > word.count("}"):
            rest = words[i + 1 : i + 1 + next((n for n, w in enumerate(words[i + 1 :], 1) if w[-1:] in "]}"), 0)]
            if rest:
                whole = re.sub(r"(?<=[^,:]) (?=[^,])", ",", " ".join([word, *rest])).replace(" ", "")
                raise ConfigError(f"the shell splits words at a space: try '{whole}'")
        _check_value(key, value, words)


def _check_value(key: str, value: str, words: Sequence[str]) -> None:
    """Raise ConfigError for a value of a kind that the setting does not take."""
    listed, is_bare = SEVERAL.fullmatch(value), not value.startswith("[") and not _is_sweep(words)
    if listed and key in LISTS and is_bare:
        raise ConfigError(f"{key} takes a list: try '{key}=[{value}]'")
    is_choice = key in GROUPS and key not in LISTS and value.startswith("[")
    if listed and (is_choice or (is_bare and key not in (*LISTS, *PATHS, "dataset.bias_pattern"))):
        several = value.strip("[]").replace(" ", "")
        point = f", or {key}={several.replace(',', '.')} with a point" if re.fullmatch(r"\d+,\d+", value) else ""
        sweep = f"python train.py -m {key}={several}" if "," in several else f"{key}={several}"
        raise ConfigError(f"{key} takes one {'option' if key in GROUPS else 'value'}: try {sweep}{point}")
    if key == "dataset" and "/" in value:
        folder = value if Path(value).is_absolute() or Path(value).exists() else "PATH"
        raise ConfigError(f"dataset={value} is a path: try dataset=image_folder dataset.root={folder}")
    if key in ("dataset.root", "dataset.table") and not any(word.startswith(CHOOSES_DATA) for word in words):
        root = "" if any(word.startswith("dataset.root=") for word in words) else "dataset.root=PATH "
        raise ConfigError(f"dataset=digits reads no folder: try dataset=image_folder {root}{key}={value}")


def not_a_setting(words: Sequence[str]) -> str | None:
    """The sentence for a word without =, such as `loss nt_xent`; None if there is none."""
    _, others = config_dirs(words)
    for i, (before, word) in enumerate(zip(["", *others], others, strict=False)):
        is_of_flag = before.startswith("-") and before not in ("-m", "--multirun")
        if "=" not in word and word[:1] not in ("-", "~") and not is_of_flag:
            after = next((other.lstrip("=") for other in others[i + 1 :] if other != "="), "VALUE")
            meant = f"{word}={after}" if word in {*GROUPS, *_known(())} else "python train.py --help"
            return f"{word} is not KEY=VALUE: try {meant}"
    return None


def unknown_setting(words: Sequence[str]) -> str | None:
    """The sentence for the first word that names no setting of the options that are chosen; None if there is none."""
    known = _known(words)
    for word in words if known else ():
        key, equals, value = word.partition("=")
        is_there = key in (*GROUPS, *known) or any(other.startswith(f"{key}.") for other in known)
        if equals and not is_there and not key.startswith(("-", "+", "~", "hydra")):
            return _unknown(key, value, words, known)
    return None


def no_option(group: str, name: str, folders: Sequence[Path] = ()) -> str:
    """The sentence for an option that a group does not have."""
    names, own = option_files(group, folders), "or --config-dir DIR with one of your own"
    see = f"encoder=timm encoder.name={name}" if group == "encoder" else f"python train.py --help {group}"
    said = advice(name, names, typed=f"{group}={{}}", otherwise=f"try {see}, {own}")
    known = f", known are {', '.join(names)}" if names and said.startswith(f"try {see}") else ""
    return f"there is no {group}={name}{known}: {said}"


def _known(words: Sequence[str]) -> dict[str, Any]:
    """The settings and defaults of the options that the words choose; none where their YAMLs cannot be composed."""
    with suppress(HydraException, OmegaConfBaseException, YAMLError):
        return defaults(words)
    return {}


def _unknown(key: str, value: str, words: Sequence[str], known: dict[str, Any]) -> str:
    """A setting that does not exist, or that belongs to an option which is not chosen."""
    if "accumul" in key:
        return (
            "plain gradient accumulation is another loss, whose anchors see the negatives of their own chunk only: "
            "try grad_cache_chunk=128, which has the gradient of the whole batch"
        )
    group, name = [*key.split("."), ""][:2]
    chosen = dict.fromkeys(other.split(".")[1] for other in known if other.startswith(f"{group}."))
    if group in LISTS and name in option_files(group, config_dirs(words)[0]) and name not in chosen:
        return f"{key} is of a {group} that is not chosen: try '{group}=[{','.join([*chosen, name])}]'"
    swept = next((word.partition("=")[2].split(",") for word in words if word.startswith(f"{group}=")), [])
    if having := [option for option in swept[: len(swept) * (len(swept) > 1)] if key in _known([f"{group}={option}"])]:
        lacking = " and ".join(option for option in swept if option not in having)
        return f"{lacking} has no setting {key}: try {group}={','.join(having)} with it, in a sweep of its own"
    return no_setting(key, [*GROUPS, *(name for name in known if "._" not in name)], value)
