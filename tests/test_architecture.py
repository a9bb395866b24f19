"""Rules of the layout: imports go one way, files stay small, nothing lies loose."""

import ast
from pathlib import Path

import pytest

from tests.helpers import ROOT

PACKAGE = ROOT / "contrastive"
# Whatever stands on a line may import what stands on the same line or above it, and nothing below.
ORDER = [
    {"types", "errors", "seeding", "atomic"},
    {"pairs", "weights"},  # weights: files of networks; run directories write them, the program reads them
    {"dataset", "augmentation", "encoder", "head", "optimizer", "schedule"},
    {"loss"},
    {"regularizer", "evaluator"},
    {"distributed"},
    {"run"},
    {"training"},
    {"report"},
    {"program"},
    {"testing", "export", "evaluate", "doctor", "verify"},  # programs of their own, over everything else
]
LEVEL = {folder: level for level, folders in enumerate(ORDER) for folder in folders}
FILES = sorted(PACKAGE.rglob("*.py"))


def place(path: Path) -> str:
    """The folder of the package that a file lies in, or its own name on the top level."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Dotted names that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    own = place(path)
    if own == "__init__":
        return
    inner = {name.split(".")[1] for name in imports(path) if name.startswith("contrastive.")}
    assert inner <= LEVEL.keys()
    above = sorted(name for name in inner if LEVEL[name] > LEVEL[own])
    assert not above, f"{path.name} imports from above: {above}"
    components = ORDER[2] | {"loss", "regularizer", "evaluator"}
    others = (inner & components) - {own, "loss"} if own in ORDER[2] else set()
    assert not others, f"{path.name}: components of one kind do not import those of another: {sorted(others)}"


def test_no_other_module_stands_beside_the_folders():
    loose = {path.stem for path in PACKAGE.glob("*.py")}
    assert loose == {"__init__", "types", "errors", "seeding", "atomic", "verify", "evaluate"}


def test_only_the_program_imports_hydra():
    for path in FILES:
        if any(name.startswith(("hydra", "omegaconf")) for name in imports(path)):
            assert place(path) == "program", path


@pytest.mark.parametrize(
    "name",
    [
        "command_line",
        "settings",
        "naming",
        "messages",
        "trust",
        "composition",
        "resolvers",
        "evaluation_words",
        "evaluate_command",
        "job",
        "flags",
        "sweep_jobs",
    ],
)
def test_settings_are_checked_without_importing_torch(name):
    """train.py imports these modules before it has checked the settings."""
    pending, seen = {f"contrastive.program.{name}"}, set()
    while pending:
        module = pending.pop()
        seen.add(module)
        path = ROOT / (module.replace(".", "/") + ".py")
        for imported in top_level_imports(path) if path.exists() else ():
            assert not imported.startswith("torch"), f"{module} imports {imported}"
            candidates = {imported, imported.rpartition(".")[0]}
            pending |= {c for c in candidates if c.startswith("contrastive.")} - seen


def top_level_imports(path: Path) -> set[str]:
    """Dotted names that importing the file imports, those inside functions left out."""
    tree = ast.parse(path.read_text())
    module = ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], [])
    names = set()
    for node in module.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("path", [*FILES, ROOT / "train.py"], ids=lambda p: p.stem)
def test_files_are_small(path):
    assert len(path.read_text().splitlines()) <= 200
