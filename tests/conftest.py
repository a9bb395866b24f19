"""Shared by every test: one thread (the suite's tensors are small), and a way to compose configurations."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir

import contrastive.program.command_line  # noqa: F401  registers the resolvers
from contrastive.program.settings import settings

ROOT = Path(__file__).resolve().parent.parent
torch.set_num_threads(1)

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}  # a tiny network is faster on one
TINY = [
    "dataset.size=8",
    "encoder.width=2",
    "epochs=3",
    "batch_size=256",
    "knn.every=1",
    "probe.max_iter=5",
    "device=cpu",
]


@pytest.fixture
def composed() -> Iterator[Callable[..., dict[str, Any]]]:
    """composed(*overrides): the resolved configuration those words on the command line give."""
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        yield lambda *overrides: settings(compose("train", list(overrides)))


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    return json.loads((ROOT / "tests/data/golden.json").read_text())


def program(*words: str, cwd: Path = ROOT, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """Run train.py as a user does."""
    kwargs.setdefault("env", ONE_THREAD)
    return subprocess.run(
        [sys.executable, str(ROOT / "train.py"), *words], cwd=cwd, capture_output=True, text=True, timeout=300, **kwargs
    )
