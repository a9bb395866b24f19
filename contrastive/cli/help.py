"""`--help`: the groups and the settings on one screen, `--help KEY` for one of them; and the reference of the site.

What is said stands in the YAMLs and docstrings, see `contrastive.config.reference`. Imports no torch.
"""

import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from contrastive.config.compose import take_config_dirs
from contrastive.config.neighbors import did_you_mean, no_setting
from contrastive.config.reference import (
    GROUPS,
    Option,
    Setting,
    first_line,
    group_sentences,
    option_files,
    read_option,
    readers,
    recipes,
    root_settings,
    shared_settings,
)
from contrastive.errors import ConfigError

WIDTH = 120


def overview(*, _root_: DictConfig) -> str:
    """Groups and settings with a sentence each: the middle of `train.py --help`, which Hydra composes."""
    choices, sources = _root_.hydra.runtime.choices, _root_.hydra.runtime.config_sources
    folders = [Path(source.path) for source in sources if source.provider == "command-line"]
    rows = []
    for group, (option, sentence) in group_sentences().items():
        names = ", ".join(option_files(group, folders))
        default = option if option.startswith("[") else choices.get(group) or "null"
        rows.append((f"{group}={default}", f"{sentence}: {names}"))
    parts = ["Groups (group=option), each with its default:", _table(rows)]
    for heading, settings in root_settings():
        rows = [(f"{item.key}={_value(_root_[item.key])}", item.sentence) for item in settings]
        parts += [f"{heading} (key=value), each with its default:", _table(rows)]
    return "\n\n".join(parts).replace("$", "$$")  # Hydra fills a string.Template


def explain(words: Sequence[str]) -> str:
    """What `--help KEY ...` prints about groups (loss), options (loss=nt_xent) and settings (tau_plus, loss.tau_plus).

    Args:
        words: of the command line, also --config-dir; other flags and Hydra's own settings are skipped.

    Raises:
        ConfigError: there is no such group, option or setting.
    """
    folders, others = take_config_dirs(list(words))
    keys = [word.lstrip("+~") for word in others if not word.startswith(("-", "hydra"))]
    return "\n\n".join(_page(key, folders) for key in keys)


def settings_reference() -> str:
    """Every setting of the package in Markdown: key, type, default and sentence, by group and option."""
    parts = []
    for heading, settings in root_settings():
        parts += [f"## {heading}", _markdown([(item, _with_readers(item)) for item in settings])]
    for group, (default, sentence) in group_sentences().items():
        parts += [f"## {group}", f"{sentence[:1].upper()}{sentence[1:]}. Default: `{group}={default}`."]
        if shared := shared_settings(group):
            parts += ["Settings of every option:", _markdown([(item, item.sentence) for item in shared])]
        for name in option_files(group):
            option = read_option(group, name)
            parts += [f"### {group}={name}", "\n".join([option.about, *option.notes]).replace("|", "\\|")]
            if option.settings:
                parts.append(_markdown([(item, _sentence(item)) for item in option.settings]))
            if option.recipe:
                parts.append("Sets " + ", ".join(f"`{word}`" for word in option.recipe) + ".")
    return "\n\n".join(parts) + "\n"


OmegaConf.register_new_resolver("overview", overview, replace=True)


def _page(word: str, folders: Sequence[Path]) -> str:
    key, _, value = word.partition("=")
    if key in GROUPS:
        if not value:
            return _group_page(key, folders)
        return "\n\n".join(_option_page(key, name, folders) for name in value.strip("[]").split(","))
    known = {item.key: item for _, items in root_settings() for item in items}
    if key in known:
        return _setting_page(known[key])
    group = key.partition(".")[0]
    if group in GROUPS and (found := _of_options(key, folders)):
        return found
    names = [*GROUPS, *known, *(item.key for group in GROUPS for item in _all_settings(group, folders))]
    raise ConfigError(no_setting(key, names))


def _group_page(group: str, folders: Sequence[Path]) -> str:
    default, sentence = group_sentences()[group]
    rows = [(f"{group}={name}", first_line(file)) for name, file in option_files(group, folders).items()]
    shared = [_row(item) for item in shared_settings(group)]
    parts = [f"{group}: {sentence}; default: {group}={default}", _table(rows)]
    return "\n\n".join([*parts, *(["settings of every option:", _table(shared)] if shared else [])])


def _option_page(group: str, name: str, folders: Sequence[Path]) -> str:
    files = option_files(group, folders)
    if name not in files:
        advice = did_you_mean(name, files, typed=f"{group}={{}}") or f"try python train.py --help {group}"
        raise ConfigError(f"there is no {group}={name}: {advice}")
    option = read_option(group, name, folders)
    parts = [f"{group}={name}", textwrap.indent("\n".join([option.about, *option.notes]), "  ")]
    if option.docstring:
        parts.append(textwrap.indent(option.docstring, "  "))
    if rows := [_row(item) for item in (*option.settings, *shared_settings(group))]:
        parts.append(_table(rows))
    if option.recipe:
        parts.append(_wrapped("sets ", " ".join(option.recipe)))
    target = f"{option.target}, " if option.target else ""
    parts.append(f"  source  {target}{_shown(option)}")
    return "\n\n".join(parts)


def _setting_page(item: Setting) -> str:
    lines = [f"{item.key}={item.value}  ({item.kind})", "", f"  {item.sentence}"]
    if found := readers(item.key):
        lines += ["", _wrapped("read by ", ", ".join(found))]
    others = {value: names for value, names in recipes(item.key).items() if value != item.value}
    lines += [""] * bool(others)
    lines += [f"  {item.key}={value} with dataset={', '.join(names)}" for value, names in others.items()]
    return "\n".join(lines)


def _of_options(key: str, folders: Sequence[Path]) -> str:
    """The settings of a dotted key, or below it, in every option that has it."""
    group, parts = key.partition(".")[0], []
    for item in shared_settings(group):
        if item.key == key:
            parts.append(_table([_row(item)]))
    for name in option_files(group, folders):
        settings = read_option(group, name, folders).settings
        if rows := [_row(item) for item in settings if f"{item.key}.".startswith(f"{key}.")]:
            parts.append(f"{group}={name}\n\n{_table(rows)}")
    return "\n\n".join(parts)


def _all_settings(group: str, folders: Sequence[Path]) -> list[Setting]:
    options = [read_option(group, name, folders) for name in option_files(group, folders)]
    return [*shared_settings(group), *(item for option in options for item in option.settings)]


def _row(item: Setting) -> tuple[str, str]:
    return f"{item.key}={item.value}", _sentence(item)


def _sentence(item: Setting) -> str:
    """Of a value that refers to a setting of the run, that setting's."""
    if item.sentence or not item.value.startswith("${"):
        return item.sentence
    return next((f"the run's {root.key}: {root.sentence}" for _, items in root_settings() for root in items
                 if item.value == f"${{{root.key}}}"), "")  # fmt: skip


def _with_readers(item: Setting) -> str:
    found = readers(item.key)
    return f"{item.sentence} (read by {', '.join(found)})" if found else item.sentence


def _shown(option: Option) -> str:
    return f"configs/{option.group}/{option.name}.yaml" if option.file.parts[-3] == "configs" else str(option.file)


def _wrapped(head: str, text: str) -> str:
    indent = " " * (2 + len(head))
    return textwrap.fill(text, WIDTH, initial_indent=f"  {head}", subsequent_indent=indent, break_on_hyphens=False)


def _value(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


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


def _markdown(rows: Sequence[tuple[Setting, str]]) -> str:
    lines = ["| setting | type | default | |", "|---|---|---|---|"]
    for item, sentence in rows:
        kind = item.kind.replace(" | ", " or ")  # a | within code would end the cell
        cells = (f"`{item.key}`", f"`{kind}`" if kind else "", f"`{item.value}`", sentence)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)
