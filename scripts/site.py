"""Pages of the site that are written elsewhere, and links that leave docs/; mkdocs calls these functions."""

import re
from pathlib import Path
from typing import Any

import loss_pages
from mkdocs.structure.files import File, Files

from contrastive.cli.help import settings_reference

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
COMMANDS = re.compile(r"^```\n(?=(?:#.*\n)*(?:python|make|torchrun|contrastive|pip|\$) )", re.MULTILINE)
LINK = re.compile(r"\[([^\]\[]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, *, config: Any) -> Files:
    """Add README, CONTRIBUTING and CHANGELOG, the settings from the comments of the YAMLs, and the pages of losses."""
    for name, source in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    files.append(File.generated(config, "settings.md", content=settings_reference()))
    for name, content in loss_pages.pages().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Point every link at a page of the site; what lies outside docs/ keeps its words without a link.

    Blocks of commands are told from other text, as they wrap where text scrolls.
    """
    name = page.file.src_uri
    source, up = ROOT / PAGES[name] if name in PAGES else ROOT / "docs" / name, "../" * name.count("/")
    generated = {ROOT / original: page for page, original in PAGES.items()}

    def rewritten(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if not target or "://" in target:
            return match[0]
        path = (source.parent / target).resolve()
        if path in generated:
            return f"[{words}]({up}{generated[path]}{anchor})"
        if path.is_relative_to(ROOT / "docs"):
            return f"[{words}]({up}{path.relative_to(ROOT / 'docs')}{anchor})"
        return words

    return LINK.sub(rewritten, COMMANDS.sub("```bash\n", markdown))
