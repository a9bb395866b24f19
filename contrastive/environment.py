"""What a run was made by: command, code, versions, device."""

import hashlib
import importlib.metadata
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent


def code_hash() -> str:
    """sha256 over train.py and every Python file of the package."""
    digest = hashlib.sha256()
    for path in [ROOT / "train.py", *sorted((ROOT / "contrastive").rglob("*.py"))]:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def describe(device: torch.device, *, precision: str, data: str, facts: dict[str, str]) -> dict[str, Any]:
    """The record of environment.json; `data` is the fingerprint of the data and `facts` what else it says of itself."""
    status = _git("status", "--porcelain")
    return {
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if status is None else bool(status),
        "code": code_hash(),
        "data": data,
        **facts,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "precision": precision,
        "packages": sorted(f"{d.metadata['Name']}=={d.version}" for d in importlib.metadata.distributions()),
    }


def device_name(device: torch.device) -> str:
    """The GPU's name, or the processor's model."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
