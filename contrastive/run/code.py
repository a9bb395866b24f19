"""Hash of the code that makes a run: this package, and the user's files that a configuration leads to."""

import hashlib
import sys
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent
INSTALLED = ("site-packages", "dist-packages")


def code_hash(targets: set[str]) -> str:
    """sha256 over train.py, every Python file of the package and the user's files behind `targets`.

    Args:
        targets: dotted names of classes and functions, their modules imported.
    """
    digest = hashlib.sha256()
    for path in (ROOT / "train.py", *sorted(PACKAGE.rglob("*.py"))):
        if path.exists():  # an installed package has no train.py beside it
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    for target in sorted(targets):
        if not target.startswith(("contrastive.", "torch.")):
            for name, path in sorted(user_files(target.rpartition(".")[0]).items()):
                digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def user_files(module: str) -> dict[str, Path]:
    """{dotted name: file} of an imported module and of everything in its folder that it imports, in whatever depth.

    The folder is the one that holds the top-level module or package. Imports are read from the source, those inside
    functions too, so that the files do not depend on what has run. Of an installed package only the module counts:
    environment.json records its version.
    """
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return {}
    path = Path(file).resolve()
    if set(INSTALLED) & set(path.parts):
        return {module: path}
    depth = module.count(".") + (path.name == "__init__.py")
    folder = path.parents[depth]
    finder = ModuleFinder([str(folder)], excludes=[PACKAGE.name])
    finder.import_hook(module)
    files = {name: getattr(part, "__file__", None) for name, part in finder.modules.items()}
    return {**{name: Path(file) for name, file in files.items() if file}, module: path}


def targets(node: Any) -> set[str]:
    """Every `_target_` of a configuration."""
    if isinstance(node, dict):
        names = {node["_target_"]} if "_target_" in node else set()
        return names.union(*(targets(value) for value in node.values()))
    return set().union(*(targets(value) for value in node)) if isinstance(node, list) else set()
