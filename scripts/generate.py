"""Write what is made of the losses' files and of the YAMLs, and kept in the repository: make generate

The public names of losses in contrastive/__init__.pyi, what an editor offers for `contrastive.pretrain(`, and the
tables of losses in docs/. A test compares.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from contrastive.config.identity import LISTS
from contrastive.config.reference import group_settings, option_files, root_settings, target_of
from contrastive.config.settings import Settings
from docs.make.loss_pages import losses_table, push_table

ROOT = Path(__file__).resolve().parents[1]
CHOICES = re.compile(r"(\w+(?: \| \w+)+)(?=;|$| \()")  # at the beginning of a sentence
MARKS = "<!-- made by make generate -->", "<!-- end -->"
HEAD = '''"""The settings of `pretrain` at the top level, for editors. Made by scripts/generate.py from configs/."""

from typing import Literal, TypedDict

class Keywords(TypedDict, total=False):
    """Each is what it is on the command line; `python train.py --help KEY` explains one."""

'''


def generated() -> dict[Path, str]:
    """{file: its text}."""
    between = {"all_losses.md": losses_table(), "push.md": push_table(), "api.md": references()}
    pages = {ROOT / "docs" / name: with_part(ROOT / "docs" / name, part) for name, part in between.items()}
    stubs = {"__init__.pyi": public_names(), "experiment/keywords.pyi": keywords()}
    return pages | {ROOT / "contrastive" / name: text for name, text in stubs.items()}


def with_part(page: Path, part: str) -> str:
    """The page with this part between its marks."""
    before, _, rest = page.read_text().partition(MARKS[0])
    return f"{before}{MARKS[0]}\n{part}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def loss_targets() -> list[str]:
    """Paths of the classes of all losses."""
    return sorted({target_of("loss", name) for name in option_files("loss")})


def references() -> str:
    """A directive of mkdocstrings for each loss."""
    return "\n".join(f"::: {target}" for target in loss_targets())


def public_names() -> str:
    """The stub with a line for each loss; its other lines are kept."""
    head, *lines = re.split(r"^(?=from )", (ROOT / "contrastive/__init__.pyi").read_text(), flags=re.MULTILINE)
    *lines, last = lines
    last, blank, tail = last.partition("\n\n")
    kept = [line for line in [*lines, f"{last}\n"] if not re.match(r"from \.loss\.(?!base )", line)]
    paths = [target.removeprefix("contrastive").rpartition(".") for target in loss_targets()]
    made = [f"from {module} import {name} as {name}\n" for module, _, name in paths]
    return head + "".join(sorted(kept + made, key=lambda line: line.split()[1:4:2])) + blank[1:] + tail


def keywords() -> str:
    """The text of the module."""
    lines = []
    for group, item in group_settings().items():
        lines += [f"    # {item.sentence}", f"    {group}: {literal([*option_files(group)], is_list=group in LISTS)}"]
    kinds = {field.name: field.type for field in fields(Settings)}
    for settings in root_settings().values():
        for setting in settings:
            declared = kinds[setting.key]
            listed = CHOICES.match(setting.sentence) if declared is str else None
            plain = declared.__name__ if isinstance(declared, type) else str(declared)
            kind = literal(listed[1].split(" | ")) if listed else plain
            lines += [f"    # {setting.sentence}", f"    {setting.key}: {kind}"]
    return HEAD + "\n".join(lines) + "\n"


def literal(names: Sequence[str], *, is_list: bool = False) -> str:
    """A type of these words, or of lists of them; of no words, as of hooks, which are the reader's own, any."""
    before, after = ("list[", "]") if is_list else ("", "")
    quoted = ", ".join(f'"{name}"' for name in names)
    if not names:
        return f"{before}str{after}"
    if len(quoted) < 80:
        return f"{before}Literal[{quoted}]{after}"
    lines = textwrap.fill(f"{quoted},", 118, initial_indent=" " * 8, subsequent_indent=" " * 8)
    return f"{before}Literal[\n{lines}\n    ]{after}  # fmt: skip"


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text)
