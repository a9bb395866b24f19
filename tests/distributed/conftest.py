"""A task in several forked processes."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # so that forked processes have it already
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank: int, task: Callable[[], Any], world: int, rendezvous: Path, results: Path) -> None:
    warnings.simplefilter("error", FutureWarning)  # of what torch is about to remove
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world)
    torch.save(task(), results / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture
def together(tmp_path: Path) -> Callable[..., list[Any]]:
    """together(task, world=2): what task() returns in each process."""

    def run(task: Callable[[], Any], world: int = 2) -> list[Any]:
        mp.start_processes(worker, (task, world, tmp_path / "rendezvous", tmp_path), nprocs=world, start_method="fork")
        (tmp_path / "rendezvous").unlink(missing_ok=True)
        return [torch.load(tmp_path / f"{rank}.pt", weights_only=False) for rank in range(world)]

    return run
