"""Environment record of a run: command, code, data, versions, device."""

import ast
import hashlib
import importlib.metadata
import platform
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from contrastive.distributed.process import world_size
from contrastive.errors import ConfigError


def environment_record(
    device: torch.device,
    *,
    config: dict[str, Any],
    overrides: Sequence[str],
    precision: str,
    data_hash: str,
    facts: dict[str, str],
) -> dict[str, Any]:
    """The content of environment.json.

    Args:
        config: the resolved configuration; code that its `_target_`s name, and what it imports, is hashed too.
        overrides: the settings that were typed, as KEY=VALUE.
        facts: recorded by the dataset, such as its name.
    """
    status = _git("status", "--porcelain")
    return {
        "command": typed_command(overrides),
        "overrides": list(overrides),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
        "code": code_hash(targets(config)),
        "data": data_hash,
        **facts,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(device),
        "threads": torch.get_num_threads(),  # of each process
        "processes": world_size(),
        "precision": precision,
        "compile": config.get("compile"),
        "packages": sorted(f"{d.metadata['Name']}=={d.version}" for d in importlib.metadata.distributions()),
    }


def typed_command(overrides: Sequence[str]) -> str:
    """The command line of train.py; for a run that another program started, the one that would start the same run."""
    if Path(sys.argv[0]).name == "train.py":
        return shlex.join(["train.py", *sys.argv[1:]])
    return shlex.join(["train.py", *overrides])


def device_name(device: torch.device) -> str:
    """The GPU's name, or the processor's model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _git(*arguments: str) -> str | None:
    """What git says of this package's own checkout; None if it is none, such as a folder of site-packages."""
    if not (ROOT / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parent
INSTALLED = ("site-packages", "dist-packages")


def code_hash(targets: set[str]) -> str:
    """sha256 over train.py, every Python file of the package and the user's files behind `targets`.

    Args:
        targets: dotted names of classes and functions, their modules imported.

    Raises:
        ConfigError: a file changed since this process began, which runs what it was and not what it is.
    """
    digest = hashlib.sha256()
    for path in package_files():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + _unchanged(path))
    for target in sorted(targets):
        if not target.startswith(("contrastive.", "torch.")):
            for name, path in sorted(user_files(module_of(target)).items()):
                digest.update(name.encode() + b"\0" + _unchanged(path))
    return digest.hexdigest()


def package_files() -> list[Path]:
    """train.py, unless the package is installed without it, and every Python file of the package."""
    return [path for path in (ROOT / "train.py", *sorted(PACKAGE.rglob("*.py"))) if path.exists()]


def remember(module: str) -> None:
    """Note what a user's files are, before the module is imported: they may not be edited between that and the run."""
    for path in user_files(module).values():
        _first_seen(path)


def module_of(target: str) -> str:
    """The module of a dotted name, which may be a method of a class: the longest part that Python finds a file for."""
    module = target.rpartition(".")[0]
    while "." in module and not (module in sys.modules or _origin(module)):
        module = module.rpartition(".")[0]
    return module


def _unchanged(path: Path) -> bytes:
    """The content of a file, which must be what it was when this process first looked."""
    content = path.read_bytes()
    if hashlib.sha256(content).digest() != _first_seen(path):
        raise ConfigError(f"{path} changed since this program began: try the same command again, or a new kernel")
    return content


@cache
def _first_seen(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def user_files(module: str) -> dict[str, Path]:
    """{dotted name: file} of a module and of everything of the user's that it imports, in whatever depth.

    Imports are read from the source, those inside functions too, so that the files do not depend on what has run. Of an
    installed package only the module counts: environment.json records its version.
    """
    file = getattr(sys.modules.get(module), "__file__", None) or _origin(module)
    if file is None or not Path(file).is_file():
        return {}
    path = Path(file).resolve()
    if set(INSTALLED) & set(path.parts):
        return {module: path}
    homes: dict[str, Path | None] = {
        module.partition(".")[0]: path.parents[module.count(".") + (path.name == "__init__.py")]
    }
    files: dict[str, Path] = {}
    pending = _with_packages(module)
    while pending:
        name = pending.pop()
        top = name.partition(".")[0]
        if name in files or top == PACKAGE.name or not top:
            continue
        home = homes[top] if top in homes else homes.setdefault(top, _home(top, module))
        if home is not None and (found := _file_of(name, home)) is not None:
            files[name] = found
            pending += _imports(found, name)
    return {**files, module: path}


def _home(name: str, module: str) -> Path | None:
    """The folder of a top-level name's file where it is the user's: not Python's, nor of an installed package.

    Args:
        module: what is followed; its own top-level name counts, installed or not.
    """
    try:
        spec = find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.has_location else [])] if spec else []
    if not places or (name in _distributions() and name != module.partition(".")[0]):
        return None
    home = Path(str(places[0])).resolve().parent
    pythons = [Path(sysconfig.get_path(path)).resolve() for path in ("stdlib", "platstdlib")]
    return None if set(INSTALLED) & set(home.parts) or any(map(home.is_relative_to, pythons)) else home


@cache
def _distributions() -> frozenset[str]:
    """Top-level names of installed packages, wherever they lie."""
    return frozenset(packages_distributions())


def _origin(module: str) -> str | None:
    """The file that importing the module would read; None if there is none."""
    try:
        return getattr(find_spec(module), "origin", None)
    except (ImportError, ValueError, AttributeError):
        return None


def _file_of(module: str, folder: Path) -> Path | None:
    """The file of a module below `folder`; None for a package without a file of its own, and for modules elsewhere."""
    path = folder.joinpath(*module.split("."))
    names = [path / "__init__.py", *(path.with_name(path.name + suffix) for suffix in (".py", *EXTENSION_SUFFIXES))]
    return next((name for name in names if name.is_file()), None)


def _imports(file: Path, module: str) -> Iterator[str]:
    """Dotted names that a file imports, with the packages around them; `from a import b` gives a.b, too."""
    if file.suffix != ".py":
        return
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:  # of a file that an import inside a function names and that has not been imported
        return
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node.module or "", package, level=node.level)
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            typed = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "name")]
            words = [word.value for word in typed if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            names = [_absolute(word.lstrip("."), package, level=len(word) - len(word.lstrip("."))) for word in words]
        for name in names:
            if all(part.isidentifier() for part in name.split(".")):
                yield from _with_packages(name)


def _absolute(name: str, package: str, *, level: int) -> str:
    """The dotted name of an import inside a package, with `level` dots before it."""
    around = package.split(".")[: len(package.split(".")) - level + 1] if level else []
    return ".".join([*around, *([name] if name else [])])


def _with_packages(module: str) -> list[str]:
    """`a.b.c` with the packages around it: a, a.b, a.b.c."""
    parts = module.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


for _path in package_files():  # as early as can be: what is imported later is then known to be of the same time
    _first_seen(_path)


def targets(node: Any) -> set[str]:
    """Every `_target_` of a configuration."""
    if isinstance(node, dict):
        names = {node["_target_"]} if "_target_" in node else set()
        return names.union(*(targets(value) for value in node.values()))
    return set().union(*(targets(value) for value in node)) if isinstance(node, list) else set()
