"""Write contrastive/experiment/keywords.pyi: what an editor offers for `contrastive.pretrain(`, from the YAMLs.

python -m scripts.keywords
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from contrastive.config.identity import LISTS
from contrastive.config.paths import options
from contrastive.config.reference import group_sentences, root_settings
from contrastive.config.settings import Settings

FILE = Path(__file__).resolve().parents[1] / "contrastive/experiment/keywords.pyi"
CHOICES = re.compile(r"(\w+(?: \| \w+)+)(?=;|$| \()")  # at the beginning of a sentence
HEAD = '''"""The settings of `pretrain` at the top level, for editors. Written by scripts/keywords.py from configs/."""

from typing import Literal, TypedDict

class Keywords(TypedDict, total=False):
    """Each is what it is on the command line; `python train.py --help KEY` explains one."""

'''


def keywords() -> str:
    """The text of the module."""
    lines = []
    for group, (_, sentence) in group_sentences().items():
        lines += [f"    # {sentence}", f"    {group}: {literal(options(group), is_list=group in LISTS)}"]
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
    FILE.write_text(keywords())
