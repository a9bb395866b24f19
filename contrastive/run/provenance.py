"""What produced a run, as environment.json records it: command, code, data, versions, processor.

It informs: a run of other code is shown and resumed, and says so. Only other settings, data and weights are refused.
"""

import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from contrastive.config import CONFIGS, LIBRARIES
from contrastive.config.identity import targets
from contrastive.distributed.hardware import device_name, processor
from contrastive.errors import ConfigError
from contrastive.files import file_hash
from contrastive.listing.places import Place

ADDED = "+hydra.callbacks.record_jobs"  # what a sweep adds to the words that were typed begins with this

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[2]
NOT_HASHED = ("contrastive", "torch", "torchvision")  # by module: their versions are recorded
TRAINS_NOTHING = {"cli", "render"}  # folders of the package
_RUNNING: dict[str, tuple[object, str]] = {}  # {module: what this process imported of it, hash of its file}
CODE_KEYS = ("commit", "dirty", "package", "modules")  # what tells one state of the code from another


def environment_record(
    device: "torch.device",
    *,
    config: dict[str, Any],
    overrides: Sequence[str],
    precision: str,
    compiled: bool | str = False,
    graphs: bool = False,
    data_hash: str,
    facts: dict[str, str],
    found: dict[str, Any] | None = None,
    files: dict[str, Place] | None = None,
) -> dict[str, Any]:
    """The content of environment.json.

    Args:
        config: the resolved configuration.
        overrides: the settings that were typed, as KEY=VALUE.
        compiled: what torch.compile compiles.
        graphs: whether steps are replayed as a CUDA graph.
        facts: recorded by the dataset, such as its name.
        found: what the dataset was found to hold, see `Found.record`.
        files: that it was read from, see `places`.
    """
    import torch

    from contrastive.distributed.process import world_size

    packages = (one.metadata for one in importlib.metadata.distributions())  # each parsed anew when it is asked for
    return {
        "command": typed_command(overrides),
        "overrides": list(overrides),
        **code_record(config),
        "data": data_hash,
        **facts,
        **({} if found is None else {"found": found}),
        **({"files": files} if files else {}),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(device),
        "processor": processor(device),
        "threads": torch.get_num_threads(),  # of each process
        "processes": world_size(),
        "precision": precision,
        "compile": compiled,
        **({**gpu_record(), "graphs": graphs} if device.type == "cuda" else {}),
        "job": job(),
        "packages": sorted({f"{own['Name']}=={own['Version']}" for own in packages}),
    }


def job() -> str | None:
    """What a scheduler calls the job that this process belongs to, which keeps its name if it is started again."""
    return os.environ.get("SLURM_JOB_ID") or os.environ.get("TORCHELASTIC_RUN_ID")


def is_restarted() -> bool:
    """Whether Slurm or torchrun started this job again."""
    counts = [os.environ.get(name, "0") for name in ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")]
    return counts != ["0", "0"]


def gpu_record() -> dict[str, Any]:
    """What decides how a GPU computes: versions, the GPUs that torch sees, the switches of its arithmetic."""
    import torch

    return {
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "tf32_convolutions": torch.backends.cudnn.allow_tf32,
        "tf32_matmul": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def code_record(config: dict[str, Any]) -> dict[str, Any]:
    """The state of the code: `commit` and `dirty` of the checkout, `package` (see `package_hash`), the user's
    `modules`, {name: sha256}, and `code`, a hash of the last two: a commit of documents alone is no other code.
    """
    record = {**_checkout(ROOT), "modules": module_hashes(config)}
    described = json.dumps([record["package"], record["modules"]], sort_keys=True)
    return {**record, "code": hashlib.sha256(described.encode()).hexdigest()[:16]}


@cache
def _checkout(root: Path) -> dict[str, Any]:
    """The package and what git says of its checkout, once in a process: later edits are not what it runs."""
    commit, changes = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain")
    return {"commit": commit, "dirty": None if changes is None else bool(changes), "package": package_hash()}


def package_hash() -> str:
    """A hash of this package's own code and YAMLs, but for commands and pages: other code would be other runs."""
    package = ROOT / "contrastive"
    places = {file.relative_to(package): file for file in package.rglob("*.py") if file.is_file()}  # no lock of Emacs
    trains = [(place, file) for place, file in sorted(places.items()) if not TRAINS_NOTHING.intersection(place.parts)]
    digest = hashlib.sha256()
    for place, file in [*trains, *((file.relative_to(CONFIGS), file) for file in sorted(CONFIGS.rglob("*.yaml")))]:
        digest.update(f"{place} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def repository() -> str | None:
    """The https address that this package's checkout was cloned from, without a user's name or token; None where it is
    no clone of such."""
    url = urlsplit(_git(Path(__file__).parents[2], "remote", "get-url", "origin") or "")
    return f"https://{url.netloc.rpartition('@')[2]}{url.path}" if url.scheme == "https" else None


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints; None where `root` is no checkout, such as a folder of site-packages."""
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="backslashreplace", timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def module_hashes(config: dict[str, Any]) -> dict[str, str]:
    """{module: sha256 of its file} of the user's own modules that the configuration names, see `own_modules`; of an
    installed library the version is recorded."""
    own = own_modules([target for _, target in targets(config)])
    return {name: _hash_of(name, file) for name, file in own.items()}


def _hash_of(name: str, file: Path) -> str:
    """That of a module's file, which must be the one that this process has imported.

    Raises:
        ConfigError: the file was edited since, or is another one of that name: what runs would not be what is recorded.
    """
    spec, now = getattr(sys.modules.get(name), "__spec__", None), file_hash(file)
    imported: tuple[object, str] = _RUNNING.get(name, (spec, now))
    known, first = imported
    if spec is None or (known is not None and known is not spec):  # not imported yet, or reloaded
        first = now
    if first != now:
        raise ConfigError(
            f"{file} is not the {name} that this Python has imported, but edited since or another: "
            "try a new Python (in a notebook, restart the kernel)"
        )
    _RUNNING[name] = spec, first
    return first


def own_modules(names: Sequence[str]) -> dict[str, Path]:
    """{module: file} of the user's own modules that these dotted names lead to, found without importing any. Of a
    package all modules, and of a folder of --config-dir all that lie in it: they may import each other.

    The user's own are those that are neither Python's, nor an installed library's, nor this package's.
    """
    found: dict[str, Path] = {}
    for top in {name.partition(".")[0] for name in names} - {*NOT_HASHED, *sys.stdlib_module_names, "__main__"}:
        if not top.isidentifier() or (spec := find_spec(top)) is None:
            continue
        for place in map(Path, spec.submodule_search_locations or [spec.origin or ""]):
            if _is_library(place) or not (place.is_dir() or place.suffix == ".py"):
                continue
            files, folder = [place] if place.suffix == ".py" else [*place.rglob("*.py")], place.parent
            if folder != Path.cwd():  # in which other programs lie
                files += [*folder.glob("*.py"), *folder.glob("*/*.py")]
            found |= {".".join(file.relative_to(folder).with_suffix("").parts): file for file in files}
    return {name.removesuffix(".__init__"): file for name, file in sorted(found.items())}


@cache
def _is_library(path: Path) -> bool:
    """Whether an installer has put this package or module there, beside its *.dist-info."""
    return bool(LIBRARIES.intersection(path.parts)) or next(path.parent.glob("*.dist-info"), None) is not None


def typed_command(overrides: Sequence[str]) -> str:
    """The command line of train.py; for a run that another program started, the one that would start the same run."""
    typed = sys.argv[1:] if Path(sys.argv[0]).name == "train.py" else overrides
    return shlex.join(["train.py", *takewhile(lambda word: not word.startswith(ADDED), typed)])
