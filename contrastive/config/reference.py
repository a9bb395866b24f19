"""What the YAMLs say about themselves: each setting with the comment behind it, each option with the lines above it.

The sentences stand there and nowhere else. Docstrings and types are read from the source: nothing is imported.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from contrastive.config.identity import COMPONENTS
from contrastive.config.paths import CONFIGS, options
from contrastive.files import YAML_LOADER

GROUPS = (*COMPONENTS, "experiment")
SCHEMA = "contrastive.config.settings.Settings"
SECTIONS = re.compile(r"^(Args|Attributes|Shapes?|Raises|Returns|Yields)\b.*:", re.MULTILINE)


class Setting(NamedTuple):
    """`key=value` as it is typed, the comment behind it, and its type in Python's words."""

    key: str
    value: str
    sentence: str
    kind: str


class Option(NamedTuple):
    """One YAML of a group.

    Attributes:
        about: its first comment line. notes: the comment lines after it. file: its path.
        target: what it builds; empty for an experiment. docstring: of the target, up to its arguments.
        settings: its own ones, those of the options that it derives from included.
        recipe: words that it stands for besides, such as epochs=40 or encoder=resnet18.
    """

    group: str
    name: str
    about: str
    notes: list[str]
    file: Path
    target: str
    docstring: str
    settings: list[Setting]
    recipe: list[str]


def root_settings() -> list[tuple[str, list[Setting]]]:
    """The settings of configs/train.yaml that belong to no group, under the headings that stand above them."""
    file = CONFIGS / "train.yaml"
    _, kinds = _source(SCHEMA, ())
    lines, parts, last = file.read_text().splitlines(), list[tuple[str, list[Setting]]](), 0
    for line, setting in _leaves(file, kinds=kinds):
        if headings := [text for text in lines[last:line] if text.startswith("# ")]:
            parts.append((headings[-1].removeprefix("# "), []))
        if setting.key in kinds and setting.key not in GROUPS:
            parts[-1][1].append(setting)
        last = line
    return [(heading, settings) for heading, settings in parts if settings]


def shared_settings(group: str) -> list[Setting]:
    """The settings of every option of a group, such as encoder.weights."""
    return [setting for _, setting in _leaves(CONFIGS / "train.yaml") if setting.key.startswith(f"{group}.")]


def group_sentences() -> dict[str, tuple[str, str]]:
    """{group: (what is used if nothing is typed, an option or [several], what the group is)}, as in train.yaml."""
    text = (CONFIGS / "train.yaml").read_text()
    found = re.findall(r"^  - (\w+): (.+?)\s+# (.*)$", text, re.MULTILINE)
    lines = {group: (option.replace(" ", ""), sentence) for group, option, sentence in found}
    return {group: lines[group] for group in GROUPS}


def readers(key: str) -> list[str]:
    """The options whose YAML refers to a root setting, as `loss=nt_xent`."""
    files = (path for group in GROUPS for path in sorted((CONFIGS / group).glob("*.yaml")))
    return [f"{path.parent.name}={path.stem}" for path in files if f"${{{key}}}" in path.read_text()]


def recipes(key: str) -> dict[str, list[str]]:
    """{value: the datasets that give a root setting this default}, those of train.yaml left out."""
    values: dict[str, list[str]] = {}
    for name in options("dataset"):
        for word in read_option("dataset", name).recipe:
            if word.startswith(f"{key}="):
                values.setdefault(word.partition("=")[2], []).append(name)
    return values


def defaults(words: Sequence[str]) -> dict[str, tuple[str, str]]:
    """{setting: (its default, the option whose recipe gives it, or nothing)} for the options that the words choose.

    Args:
        words: as typed; options of one's own count as if they were not typed.
    """
    typed = dict(word.split("=", 1) for word in words if "=" in word)
    chosen = {group: option for group, (option, _) in group_sentences().items()}
    known = {group: option_files(group) for group in chosen}
    values: dict[str, tuple[str, str]] = {}
    experiment = typed.get("experiment", "")
    recipe = read_option("experiment", experiment).recipe if experiment in known["experiment"] else []
    ofs = {"dataset": typed.get("dataset", dict(w.split("=", 1) for w in recipe).get("dataset", chosen["dataset"]))}
    for group, name in (*ofs.items(), ("experiment", experiment)):
        for word in read_option(group, name).recipe if name in known[group] else ():
            key, value = word.split("=", 1)
            if key in chosen:
                chosen[key] = value
            else:
                values[key] = value, f"{group}={name}"
    chosen |= {key: value for key, value in typed.items() if key in chosen}
    found = {item.key: (item.value, "") for _, items in root_settings() for item in items}
    for group, names in chosen.items():
        for name in names.strip("[]").split(","):
            own = read_option(group, name).settings if name in known[group] else []
            found |= {item.key: (item.value, "") for item in (*own, *shared_settings(group))}
    gone = tuple(f"{key}." for key, (value, _) in values.items() if value == "null")
    kept = {key: value for key, value in found.items() if not key.startswith(gone)}
    return kept | {key: value for key, value in values.items() if key in kept}


def first_line(file: Path) -> str:
    """The first comment line of a YAML, which says what it is."""
    return next(iter(_header(file.read_text(errors="replace"))), "")


def option_files(group: str, folders: Sequence[Path] = ()) -> dict[str, Path]:
    """{name: YAML} of the options of a group, of the package and of the folders of --config-dir, by name."""
    return dict(sorted((path.stem, path) for folder in (CONFIGS, *folders) for path in (folder / group).glob("*.yaml")))


def read_option(group: str, name: str, folders: Sequence[Path] = ()) -> Option:
    """One option; raises KeyError where there is none."""
    file = option_files(group, folders)[name]
    text = file.read_text()
    header = _header(text)
    package = re.search(r"^# @package (\S+)", text, re.MULTILINE)
    prefix = {None: f"{group}.", "_global_": ""}.get(package and package[1], f"{package and package[1]}.")
    content: Any = yaml.load(text, YAML_LOADER) or {}
    own, bases = f"{prefix or group + '.'}", list[str]()
    recipe, inherited = list[str](), dict[str, Setting]()
    for default in content.get("defaults", []):
        if isinstance(default, str):
            bases += [] if default == "_self_" else [default]
        else:
            ((key, value),) = default.items()
            chosen = f"[{','.join(value)}]" if isinstance(value, list) else value
            recipe.append(f"{key.removeprefix('override ').removeprefix('/')}={chosen}")
    target, docstring = "", ""
    for base in (read_option(group, base, folders) for base in bases):
        inherited |= {setting.key: setting for setting in base.settings}
        recipe, target, docstring = [*base.recipe, *recipe], base.target, base.docstring
    node = content.get(group) if package and package[1] == "_global_" else content
    target = (node or {}).get("_target_", target)
    docstring, kinds = _source(target, tuple(folders)) if target else (docstring, {})
    for _, setting in _leaves(file, prefix=prefix, kinds={f"{own}{key}": kind for key, kind in kinds.items()}):
        if not setting.key.startswith(own):
            recipe.append(f"{setting.key}={setting.value}")
            continue
        before = inherited.get(setting.key)
        if setting.value == "null" and not setting.sentence:  # it takes a part of its base away
            inherited = {key: item for key, item in inherited.items() if not key.startswith(f"{setting.key}.")}
        if before:
            setting = before._replace(value=setting.value, sentence=setting.sentence or before.sentence)
        inherited[setting.key] = setting
    about, *notes = header or [""]
    words = {word.partition("=")[0]: word for word in recipe}  # the last one of a key wins
    return Option(group, name, about, notes, file, target, docstring, list(inherited.values()), list(words.values()))


def _header(text: str) -> list[str]:
    """The comment lines at the top of a YAML, without Hydra's own."""
    lines = [line for line in re.match(r"(?:#.*\n|\s*\n)*", text)[0].splitlines() if line.strip()]  # type: ignore[index]
    return [line.removeprefix("#").strip() for line in lines if not line.startswith("# @package")]


def _leaves(file: Path, *, prefix: str = "", kinds: dict[str, str] | None = None) -> Iterator[tuple[int, Setting]]:
    """(line, setting) of every value of a YAML, those inside of mappings by their dotted key."""
    text = file.read_text()
    lines, root = text.splitlines(), yaml.compose(text, YAML_LOADER)

    def walk(node: yaml.MappingNode, before: str) -> Iterator[tuple[int, Setting]]:
        for name, value in node.value:
            key = f"{before}{name.value}"
            if name.value in ("_target_", "_partial_", "defaults") or key == "hydra":
                continue
            if isinstance(value, yaml.MappingNode) and value.value:
                yield from walk(value, f"{key}.")
                continue
            comment = re.match(r"\s+# *(.*)", lines[value.end_mark.line][value.end_mark.column :])
            kind = (kinds or {}).get(key) or _kind(value)
            yield name.start_mark.line, Setting(key, _typed(value), comment[1] if comment else "", kind)

    if isinstance(root, yaml.MappingNode):
        yield from walk(root, prefix)


def _typed(node: yaml.Node) -> str:
    """A value as it is typed: numbers as the YAML writes them, lists and mappings without blanks."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value) or "null"
    if isinstance(node, yaml.SequenceNode):
        return f"[{','.join(map(_typed, node.value))}]"
    return f"{{{','.join(f'{key.value}:{_typed(value)}' for key, value in node.value)}}}"


def _kind(node: yaml.Node) -> str:
    """The type of a value in a YAML, where the source declares none."""
    if not isinstance(node, yaml.ScalarNode):
        return "list" if isinstance(node, yaml.SequenceNode) else "dict"
    if re.fullmatch(r"[-+]?\d[\d.]*e[-+]?\d+", node.value):  # a number for OmegaConf, as for YAML 1.2
        return "float"
    kind = node.tag.rpartition(":")[2]
    return "" if node.value.startswith("${") or kind == "null" else kind


@cache
def _source(target: str, folders: tuple[Path, ...]) -> tuple[str, dict[str, str]]:
    """The first part of the docstring of a class or function, and {argument or field: its annotation}.

    Both are empty for what stands neither in this package nor in the folders, such as torch.optim.Adam.
    """
    module, _, name = target.rpartition(".")
    places = [folder / f"{module.replace('.', '/')}.py" for folder in (CONFIGS.parent, Path.cwd(), *folders)]
    places.insert(0, Path(__file__).parents[2] / f"{module.replace('.', '/')}.py")  # of an installed package
    file = next((place for place in places if place.is_file()), None)
    tree = ast.parse(file.read_text()) if file else ast.Module([], [])
    definitions = (node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    found = next((node for node in definitions if node.name == name), None)
    if found is None:
        return "", {}
    docstring = SECTIONS.split(ast.get_docstring(found) or "")[0].strip()
    inside = found.body if isinstance(found, ast.ClassDef) else [found]
    makers = [node for node in inside if isinstance(node, ast.FunctionDef) and node.name in ("__init__", name)]
    arguments = [argument for maker in makers for argument in (*maker.args.args, *maker.args.kwonlyargs)]
    kinds = {argument.arg: ast.unparse(argument.annotation) for argument in arguments if argument.annotation}
    fields = [node for node in inside if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return docstring, kinds | {field.target.id: ast.unparse(field.annotation) for field in fields}  # type: ignore[union-attr]
