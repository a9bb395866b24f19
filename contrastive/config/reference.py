"""The YAMLs of configs/ as text: options, what they build, and where a setting stands.

What a setting is stands in the comment behind it and nowhere else. Docstrings are read from the source: nothing is
imported.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from contrastive.config import CONFIGS, PACKAGE
from contrastive.config.identity import COMPONENTS
from contrastive.files import YAML_LOADER

GROUPS = (*COMPONENTS, "experiment")
ROOT_FILE = CONFIGS / "train.yaml"
SECTIONS = re.compile(r"^(Args|Attributes|Shapes?|Raises|Returns|Yields)\b.*:", re.MULTILINE)


class Setting(NamedTuple):
    """`key: value   # sentence` of a YAML; the key as it is typed, such as loss.tau_plus."""

    key: str
    value: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}" + (f"   # {self.sentence}" if self.sentence else "")


def option_files(group: str, folders: Sequence[Path] = ()) -> dict[str, Path]:
    """{name: YAML} of the options of a group, of the package and of the folders of --config-dir, by name."""
    return dict(sorted((path.stem, path) for folder in (CONFIGS, *folders) for path in (folder / group).glob("*.yaml")))


def first_line(file: Path) -> str:
    """The first comment line of a YAML, which says what it is."""
    comments = re.findall(r"^# (?!@package)(.*)", file.read_text(errors="replace"), re.MULTILINE)
    return next(iter(comments), "")


def group_settings() -> dict[str, Setting]:
    """{group: what is used if nothing is typed, and what the group is}, as in train.yaml."""
    first_counts = reversed([*settings_in(ROOT_FILE)])  # evaluator: [knn, ...] before evaluator: {}
    found = {item.key: item for item in first_counts}
    return {group: found[group] for group in GROUPS}


def root_settings() -> dict[str, list[Setting]]:
    """{heading: the settings of train.yaml below it} of those that belong to no group."""
    parts: dict[str, list[Setting]] = {}
    for line in ROOT_FILE.read_text().splitlines():
        if line.startswith("# "):
            settings = parts[line.removeprefix("# ")] = []
        elif (found := re.match(r"(\w+): (.*?)\s+# (.*)", line)) and found[1] not in GROUPS:
            settings.append(Setting(*found.groups()))
    return {heading: settings for heading, settings in parts.items() if settings}


def settings_in(file: Path) -> Iterator[Setting]:
    """Every setting of a YAML, those inside of mappings by their dotted key, the options that it chooses included."""
    text = file.read_text()
    lines, package = text.splitlines(), re.search(r"^# @package (\S+)", text, re.MULTILINE)
    is_global = file == ROOT_FILE or (package is not None and package[1] == "_global_")

    def walk(node: yaml.Node, before: str) -> Iterator[Setting]:
        for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
            key = f"{before}{name.value}"
            if name.value == "defaults":
                for item in value.value:
                    for chosen in walk(item, ""):
                        yield chosen._replace(key=chosen.key.removeprefix("override ").removeprefix("/"))
            elif isinstance(value, yaml.MappingNode) and value.value:
                yield from walk(value, f"{key}.")
            elif not name.value.startswith("_") and not key.startswith("hydra."):
                comment = re.match(r"\s+# *(.*)", lines[value.end_mark.line][value.end_mark.column :])
                written = text[value.start_mark.index : value.end_mark.index]
                yield Setting(key, written or "null", comment[1] if comment else "")

    yield from walk(
        yaml.compose(text, YAML_LOADER), "" if is_global else f"{package[1] if package else file.parent.name}."
    )


def derivation(group: str, name: str, folders: Sequence[Path] = ()) -> list[Path]:
    """The YAML of an option, then the one that it derives from, and so on; KeyError where there is none."""
    file = option_files(group, folders)[name]
    content: Any = yaml.load(file.read_text(), YAML_LOADER) or {}
    bases = [item for item in content.get("defaults", []) if isinstance(item, str) and item != "_self_"]
    return [file, *(path for base in bases for path in derivation(group, base, folders))]


def target_of(group: str, name: str, folders: Sequence[Path] = ()) -> str:
    """What an option builds, as contrastive.loss.nt_xent.NTXent; nothing for an experiment."""
    found = (
        re.search(r"^ *_target_: (\S+)", file.read_text(), re.MULTILINE) for file in derivation(group, name, folders)
    )
    return next((match[1] for match in found if match), "")


@cache
def docstring_of(target: str, folders: tuple[Path, ...] = ()) -> str:
    """The docstring of a class or function up to its arguments; empty where its source is in none of the folders."""
    module, _, name = target.rpartition(".")
    files = (place / f"{module.replace('.', '/')}.py" for place in (PACKAGE.parent, Path.cwd(), *folders))
    source = next((file.read_text() for file in files if file.is_file()), "")
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    found = [node for node in nodes if node.name == name]
    return SECTIONS.split(ast.get_docstring(found[0]) or "")[0].strip() if found else ""


def every_setting(folders: Sequence[Path] = ()) -> Iterator[tuple[str, Setting]]:
    """(the option that has it, setting) of all YAMLs, train.yaml first."""
    yield from (("train.yaml", item) for item in settings_in(ROOT_FILE))
    for group in GROUPS:
        for name, file in option_files(group, folders).items():
            yield from ((f"{group}={name}", item) for item in settings_in(file))
