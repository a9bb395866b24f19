"""The rules of the layout: imports go one way, files and folders stay small, Hydra and torch stay in their place."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from tests.helpers import ROOT

PACKAGE = ROOT / "contrastive"
FILES = sorted(PACKAGE.rglob("*.py"))
# A folder imports from its own line and from those above it.
ORDER = """
    types listing errors gathering seeding files text
    pairs
    dataset augmentation encoder head optimizer schedule
    loss
    regularizer evaluator
    distributed
    config
    run
    report
    training
    hook average tracker teacher
    experiment testing export integrations
    gallery
    cli
    study
""".strip().splitlines()
LEVEL = {folder: level for level, line in enumerate(ORDER) for folder in line.split()}


def folder(path: Path) -> str:
    """The folder of the package that a file counts to; doors to the command, `__main__` and the like, count to cli, and
    the commands of comparisons to study."""
    if path in (PACKAGE / "cli/compare.py", PACKAGE / "cli/verify.py"):
        return "study"
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return name if name in LEVEL and path.stem != "__main__" else "cli"


@cache
def tree(path: Path) -> list[ast.AST]:
    """Every node of a file."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path) -> set[str]:
    """Dotted names that a file imports, inside functions too."""
    nodes = tree(path)
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {f"{n.module}.{alias.name}" for n in nodes if isinstance(n, ast.ImportFrom) for alias in n.names}


def test_imports_go_one_way():
    arrows = [(path, name) for path in FILES for name in imports(path) if name.startswith("contrastive.")]
    back = [(path, name) for path, name in arrows if LEVEL.get(name.split(".")[1], 0) > LEVEL[folder(path)]]
    assert not back, "\n".join(sorted(f"{path} imports {name}" for path, name in back))


def test_nothing_in_config_imports_in_a_circle():
    """Imports inside functions count, too: they would hide one."""
    found = {path.stem: {name.split(".")[2] for name in imports(path) if name.startswith("contrastive.config.")}
             for path in (PACKAGE / "config").glob("*.py")}  # fmt: skip
    while leaves := [name for name, needs in found.items() if not needs & found.keys()]:
        for name in leaves:
            del found[name]
    assert not found


LOSSES = {*" ".join([*ORDER[:2], ORDER[3], "regularizer integrations"]).split()}  # they may be taken without the rest
SCRIPTS = [path for name in ("scripts", "docs", "studies") for path in (ROOT / name).rglob("*.py")]


def test_losses_stand_alone_and_the_package_without_scripts():
    up = [f"{path} imports {name}" for path in FILES if folder(path) in LOSSES for name in imports(path)
          if name.startswith("contrastive.") and name.split(".")[1] not in LOSSES]  # fmt: skip
    of_scripts = {path.relative_to(ROOT / "scripts").parts[0].removesuffix(".py") for path in SCRIPTS
                  if path.is_relative_to(ROOT / "scripts")} | {"scripts", "docs", "studies"}  # fmt: skip
    up += [f"{path} imports {name}" for path in FILES for name in imports(path) if name.split(".")[0] in of_scripts]
    assert not up


# what stands in one box of the diagram
BOXES = {
    **dict.fromkeys(ORDER[0].split(), "ground"),
    **dict.fromkeys(ORDER[2].split(), "components"),
    **dict.fromkeys(("hook", "average", "teacher", "tracker"), "hook"),
}


def test_the_diagram_of_folders_has_the_arrows_that_are_imports():
    """An arrow stands for imports that exist; those that a chain of arrows implies are left out."""
    arrows = set()
    for path in FILES:
        names = {name.split(".")[1] for name in imports(path) if name.startswith("contrastive.")}
        ends = {(BOXES.get(folder(path), folder(path)), BOXES.get(name, name)) for name in names & LEVEL.keys()}
        arrows |= {(a, b) for a, b in ends if a != b}
    chains = set(arrows)
    while more := {(a, d) for a, b in chains for c, d in arrows if b == c} - chains:
        chains |= more
    shortest = {(a, b) for a, b in arrows if not any((a, c) in arrows and (c, b) in chains for _, c in arrows)}
    page = (ROOT / "docs/dev/architecture.md").read_text()
    drawn = re.findall(r"^    (\w+)(?:\[.*?\])? --> (\w+)", page, re.MULTILINE)
    assert sorted(drawn) == sorted(shortest)


def test_files_and_folders_are_small():
    large = [path for path in FILES if len(path.read_text().splitlines()) > 400]
    n_files = Counter(path.parent for path in FILES if path.name != "__init__.py")
    full = [path for path, n in n_files.items() if n > 12 and path.name not in ("loss", "evaluator", "cli")]
    assert not large + full, "a file of more than 400 lines, or a folder of more than a dozen files"


def test_functions_fit_on_a_screen():
    def n_lines(function: ast.FunctionDef) -> int:  # without its docstring
        body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
        return function.end_lineno - body[0].lineno + 1

    nodes = ((path, node) for path in FILES for node in tree(path))
    long = [f"{path}: {node.name}" for path, node in nodes if isinstance(node, ast.FunctionDef) and n_lines(node) > 40]
    assert not long


def test_only_settings_and_commands_know_hydra():
    users = {folder(path) for path in FILES if any(name.startswith("hydra") for name in imports(path))}
    assert users <= {"config", "experiment", "study", "cli"}
    assert not [
        path
        for path in [*FILES, *SCRIPTS, ROOT / "train.py"]
        if any("hydra._internal" in name for name in imports(path))
    ]


def test_no_module_needs_what_windows_lacks():
    unix = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
    assert not [f"{path}: {name}" for path in FILES for name in imports(path) if name.partition(".")[0] in unix]


def test_settings_are_checked_without_importing_torch():
    modules = [f"contrastive.config.{path.stem}" for path in (PACKAGE / "config").glob("[!_]*.py")]
    modules += ["contrastive.cli.train", "hydra_plugins.contrastive_sweeper"]  # which Hydra loads before anything else
    code = f"import sys, contrastive, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
