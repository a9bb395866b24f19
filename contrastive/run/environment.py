"""Environment record of a run: command, code, data, versions, device."""

import importlib.metadata
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from contrastive.distributed.process import world_size
from contrastive.run.code import ROOT, code_hash, targets


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
