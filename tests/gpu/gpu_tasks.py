"""What tests/gpu/test_cuda.py runs in processes of its own.

Nothing here asks for a GPU when it is imported: a process of a pool imports it before it knows which GPU it may see.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from contrastive.experiment.run import run_experiment
from tests.helpers import compose_settings


@dataclass(frozen=True)
class Run:
    """Trains; returns whether CUDA had started before, how many GPUs it sees, the UUID of the first, kNN's accuracy."""

    words: tuple[str, ...]
    path: Path

    def __call__(self) -> tuple[bool, int, str, float]:
        had_started = torch.cuda.is_initialized()
        result = run_experiment(compose_settings(*self.words), self.path)
        gpu = str(torch.cuda.get_device_properties(0).uuid)
        return had_started, torch.cuda.device_count(), gpu, result["test"]["knn_top1"]
