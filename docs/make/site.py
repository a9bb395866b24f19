"""Pages of the site that are written outside docs/, and links that leave the site; mkdocs calls these functions."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from contrastive.config.reference import ROOT_FILE, group_settings, option_files
from contrastive.study.record import read_compared
from contrastive.study.render import files as comparison
from docs.make import loss_pages

ROOT = Path(__file__).resolve().parents[2]
STUDIES = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "studies").rglob("*.md"))]
PAGES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    **{name: name for name in STUDIES},
}
COMMANDS = re.compile(r"^```\n(?=(?:#.*\n)*(?:python|make|torchrun|contrastive|pip|\$) )", re.MULTILINE)
LINK = re.compile(r"\[([^\]\[]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """The address of the repository, for the link of every page, is that of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    config.repo_url = project["urls"].get("Repository")
    return config


def settings_reference() -> str:
    """The YAMLs of the package in Markdown, by group."""
    parts = ["Each file as it stands. `python train.py --help KEY` prints where a setting is read and set."]
    parts += ["## The run", f"```yaml\n{ROOT_FILE.read_text().strip()}\n```"]
    for group, item in group_settings().items():
        parts += [f"## {group}", f"{item.sentence[:1].upper()}{item.sentence[1:]}. Default: `{group}={item.value}`."]
        for name, file in option_files(group).items():
            parts += [f"### {group}={name}", f"```yaml\n{file.read_text().strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def whole_page(source: Path) -> str:
    """A page; below that of a study its tables, verdicts and protocol, which follow from its record."""
    path, text = next(source.parent.glob(f"{comparison.RECORD}*"), None), source.read_text()
    if path is None:
        return text
    sys.path.append(str(ROOT / "scripts"))
    from tables import page as table
    from tables.kept import table_of

    record = table_of(path)
    made = comparison.page(read_compared(path) or {}) if record is None else table.page(record)
    return f"{text}\n## All figures\n\n{made}\n"


def on_files(files: Files, *, config: Any) -> Files:
    """Add README, CONTRIBUTING and CHANGELOG, the studies with their pictures, the settings from the comments of the
    YAMLs, and the pages of losses."""
    for name, source in PAGES.items():
        files.append(File.generated(config, name, content=whole_page(ROOT / source)))
    for picture in (ROOT / "studies").rglob("*.png"):
        files.append(File.generated(config, picture.relative_to(ROOT).as_posix(), abs_src_path=str(picture)))
    files.append(File.generated(config, "settings.md", content=settings_reference()))
    for name, content in loss_pages.pages().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Point every link at a page or a picture of the site; what is not on it keeps its words without a link.

    Blocks of commands are told from other text, as they wrap where text scrolls.
    """
    name = page.file.src_uri
    source, up = ROOT / PAGES.get(name, f"docs/{name}"), "../" * name.count("/")
    docs, generated = ROOT / "docs", {ROOT / original: page for page, original in PAGES.items()}

    def rewritten(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if not target or "://" in target:
            return match[0]
        path = (source.parent / target).resolve()
        if path.is_relative_to(docs):
            return f"[{words}]({up}{path.relative_to(docs)}{anchor})"
        if path in generated:
            return f"[{words}]({up}{generated[path]}{anchor})"
        if path.is_relative_to(ROOT / "studies") and files.get_file_from_path(str(path.relative_to(ROOT))):
            return f"[{words}]({up}{path.relative_to(ROOT)}{anchor})"  # a picture
        return words

    return LINK.sub(rewritten, COMMANDS.sub("```bash\n", markdown))
