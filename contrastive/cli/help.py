"""`--help`: the groups and the settings on one screen, `--help KEY` for one of them.

The YAML is the help: what is said stands there and in docstrings, see `contrastive.config.reference`. Imports no torch.
"""

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from contrastive.config import CONFIGS
from contrastive.config.compose import config_dirs
from contrastive.config.identity import LISTS
from contrastive.config.reference import (
    GROUPS,
    ROOT_FILE,
    derivation,
    docstring_of,
    every_setting,
    first_line,
    group_settings,
    option_files,
    root_settings,
    settings_in,
    target_of,
)
from contrastive.config.words import no_option, no_setting, typed
from contrastive.errors import ConfigError

WIDTH = 120


def overview(*, _root_: DictConfig) -> str:
    """Groups and settings with a sentence each: the middle of `train.py --help`, which Hydra composes."""
    choices, sources = _root_.hydra.runtime.choices, _root_.hydra.runtime.config_sources
    folders = [Path(source.path) for source in sources if source.provider == "command-line"]
    rows = []
    for group, item in group_settings().items():
        default = item.value if group in LISTS else choices.get(group) or "null"
        rows.append((f"{group}={default}", f"{item.sentence}: {', '.join(option_files(group, folders))}"))
    parts = ["Groups (group=option), each with its default:", _table(rows)]
    for heading, settings in root_settings().items():
        rows = [(f"{item.key}={typed(_root_[item.key])}", item.sentence) for item in settings]
        parts += [f"{heading} (key=value), each with its default:", _table(rows)]
    return "\n\n".join(parts).replace("$", "$$")  # Hydra fills a string.Template


OmegaConf.register_new_resolver("overview", overview, replace=True)


def explain(words: Sequence[str]) -> str:
    """What `--help KEY ...` prints about groups (loss), options (loss=nt_xent) and settings (tau_plus, loss.tau_plus).

    Args:
        words: of the command line, also --config-dir; other flags and Hydra's own settings are skipped.

    Raises:
        ConfigError: there is no such group, option or setting.
    """
    folders, others = config_dirs(words)
    keys = [word.lstrip("+~") for word in others if not word.startswith(("-", "hydra"))]
    return "\n\n".join(_page(key, folders) for key in keys)


def _page(word: str, folders: Sequence[Path]) -> str:
    key, _, value = word.partition("=")
    if key not in GROUPS:
        return _setting_page(key, folders)
    if not value:
        return _group_page(key, folders)
    return "\n\n".join(_option_page(key, name, folders) for name in value.strip("[]").split(","))


def _group_page(group: str, folders: Sequence[Path]) -> str:
    default = group_settings()[group]
    rows = [(f"{group}={name}", first_line(file)) for name, file in option_files(group, folders).items()]
    parts = [f"{group}: {default.sentence}; default: {group}={default.value}", _table(rows)]
    return "\n\n".join([*parts, *_of_every_option(group)])


def _option_page(group: str, name: str, folders: Sequence[Path]) -> str:
    """The YAML as it stands, those that it derives from, and the docstring of what it builds up to its arguments."""
    files = option_files(group, folders)
    if name not in files:
        raise ConfigError(no_option(group, name, files))
    parts = []
    for file in derivation(group, name, folders):
        parts += [f"{_shown(file)}:", textwrap.indent(file.read_text().strip(), "  ")]
    if target := target_of(group, name, folders):
        parts += [f"{target}:", textwrap.indent(docstring_of(target, tuple(folders)), "  ")]
    return "\n\n".join(part for part in [*parts, *_of_every_option(group)] if part)


def _of_every_option(group: str) -> list[str]:
    """The settings that every option of a group has, such as encoder.weights."""
    items = [item for item in settings_in(ROOT_FILE) if item.key.startswith(f"{group}.")]
    rows = [(f"{item.key}={item.value}", item.sentence) for item in items]
    return ["settings of every option:", _table(rows)] if rows else []


def _setting_page(key: str, folders: Sequence[Path]) -> str:
    """Where a setting stands: what it is, which options read it, and which ones set it."""
    everywhere = list(every_setting(folders))
    found = [(place, item) for place, item in everywhere if f"{item.key}.".startswith(f"{key}.")]
    if not found:
        raise ConfigError(no_setting(key, [*GROUPS, *(item.key for _, item in everywhere)]))
    readers = [place for place, item in everywhere if item.value == f"${{{key}}}"]
    width = max(len(place) for place, _ in found)
    explained_first = sorted(found, key=lambda pair: not pair[1].sentence)
    said = [f"{place.ljust(width)}  {item}" for place, item in explained_first]
    return "\n".join([*said, *([f"read by {', '.join(readers)}"] if readers else [])])


def _shown(file: Path) -> str:
    return f"configs/{file.relative_to(CONFIGS)}" if file.is_relative_to(CONFIGS) else str(file)


def _table(rows: Sequence[tuple[str, str]]) -> str:
    """Two columns, the second one wrapped; a first cell that is too long has a line of its own."""
    width = max((len(left) for left, _ in rows if len(left) <= WIDTH // 3), default=0)
    lines = []
    for left, right in rows:
        body = textwrap.wrap(right, WIDTH - width - 4, break_on_hyphens=False) or [""]
        if len(left) > width:
            lines.append(f"  {left}")
            left = ""
        lines += [f"  {first.ljust(width)}  {line}".rstrip() for first, line in zip_longest([left], body, fillvalue="")]
    return "\n".join(lines)
