"""The tasks of a Slurm job step as the processes of one run."""

import os
import re
from collections.abc import Mapping


def torchrun_variables(slurm: Mapping[str, str]) -> dict[str, str]:
    """What torchrun would set in this task of a job step; {} outside of one, or in a step of a single task.

    A batch script that calls no srun is such a single task, however many the job has asked for.

    Args:
        slurm: the environment of the task. Port 20000 + the last four digits of the job's number is taken to be free.
    """
    n = slurm.get("SLURM_STEP_NUM_TASKS", "1")
    if n == "1" or "SLURM_PROCID" not in slurm:
        return {}
    tasks = tasks_per_node(slurm["SLURM_STEP_TASKS_PER_NODE"])
    return {
        "RANK": slurm["SLURM_PROCID"],
        "WORLD_SIZE": n,
        "LOCAL_RANK": slurm["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": str(tasks[int(slurm["SLURM_NODEID"])]),
        "MASTER_ADDR": first_node(slurm["SLURM_STEP_NODELIST"]),
        "MASTER_PORT": str(20_000 + int(slurm["SLURM_JOB_ID"]) % 10_000),
    }


def join_job_step() -> None:
    """Let this process know of the other tasks of its job step, unless torchrun has started it."""
    if "RANK" not in os.environ:
        os.environ.update(torchrun_variables(os.environ))


def odd_variable(environment: Mapping[str, str]) -> str | None:
    """The first of torchrun's variables that is no number, None where they are complete."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    return next((name for name in names if not environment.get(name, "").isdigit()), None)


def first_node(nodes: str) -> str:
    """The first name of Slurm's list: gpu03 of `gpu[03-05,9],login1`."""
    return re.sub(r"\[([^],-]+)[^]]*\]", r"\1", nodes).split(",")[0]


def tasks_per_node(tasks: str) -> list[int]:
    """Slurm's list of counts: [8, 8, 4] of `8(x2),4`."""
    counts = re.findall(r"(\d+)(?:\(x(\d+)\))?", tasks)
    return [int(n) for n, repeats in counts for _ in range(int(repeats or 1))]
