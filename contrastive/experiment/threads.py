"""Choose the number of threads of a run: as many as there are free cores, and the same again when it is resumed.

Threads wait for each other in every operation: two of them beside one busy neighbor on two cores were 5 to 8 times
slower than one.
"""

import json
import os
import time
from functools import lru_cache
from pathlib import Path

import torch

from contrastive.distributed.cores import n_cores, usable_cores
from contrastive.distributed.process import broadcast_from_main, world_size
from contrastive.run.checkpoint import has_checkpoint
from contrastive.run.files import read_result

VARIABLE = "OMP_NUM_THREADS"
SAMPLE = 0.3  # seconds for which the load is watched


def set_threads(setting: int | str, path: Path, *, rerun: bool) -> str:
    """Set the number of torch's threads for the run in `path`, and say how it was chosen.

    A typed number wins, then the number that an interrupted run was started with, then OMP_NUM_THREADS, then the
    number of free cores.

    Args:
        setting: `auto` or a number of threads for each process. rerun: the run starts over, whatever it had.

    Returns:
        one line to print.
    """
    recorded, limit = None if rerun else recorded_threads(path), most_threads()
    n, reason = broadcast_from_main(lambda: choose_threads(setting, recorded, limit=limit))
    torch.set_num_threads(n)
    return f"{n} thread{'s' if n > 1 else ''}{f' ({reason})' if reason else ''}"


def choose_threads(setting: int | str, recorded: int | None, *, limit: int) -> tuple[int, str]:
    """The number of threads and why, if there is something to say.

    Args:
        recorded: of the interrupted run that is resumed; other numbers of threads round differently.
        limit: the most that `auto` takes.
    """
    if setting != "auto":
        n, reason = int(setting), ""
    elif recorded is not None:
        return recorded, "as before the interruption"
    elif os.environ.get(VARIABLE):
        n, reason = limit, VARIABLE
    elif limit == 1:
        return 1, ""
    else:
        busy = busy_cores()
        n = max(1, min(limit, int(n_cores() - busy + 0.5) // world_size()))
        reason = "" if n == limit else f"{busy:.1f} of {n_cores()} cores are busy: threads={limit} takes all"
    if recorded is not None and n != recorded:
        reason = f"it last ran with {recorded}: figures may differ in their last digits"
    return n, reason


def recorded_threads(path: Path) -> int | None:
    """The number of threads of the interrupted run in `path`; None if there is nothing to resume."""
    if read_result(path) is not None or not has_checkpoint(path):
        return None
    try:
        return int(json.loads((path / "environment.json").read_text())["threads"])
    except (OSError, ValueError, KeyError, TypeError):  # damaged: opening the run says so
        return None


@lru_cache
def most_threads() -> int:
    """The number that torch starts with; asked for before the first run of a sweep changes it."""
    return torch.get_num_threads()


def busy_cores() -> float:
    """How many of the usable cores work for others now; this process sleeps meanwhile."""
    before = core_ticks()
    if before is None:
        return os.getloadavg()[0]
    time.sleep(SAMPLE)
    after = core_ticks() or before
    return busy_between(before, after)


def core_ticks() -> dict[int, tuple[int, int]] | None:
    """{core: (busy, total) ticks since the machine started} of the usable cores; None where /proc does not tell."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return None
    ticks = {}
    for line in lines:
        name, *words = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in usable_cores():
            values = [int(word) for word in words[:8]]  # what guests take is counted in the first two
            idle = values[3] + values[4]  # idle, waiting for a disk
            ticks[int(name[3:])] = (sum(values) - idle, sum(values))
    return ticks or None


def busy_between(before: dict[int, tuple[int, int]], after: dict[int, tuple[int, int]]) -> float:
    """Busy cores between two readings of `core_ticks`."""
    return sum(
        (after[core][0] - busy) / max(1, after[core][1] - total)
        for core, (busy, total) in before.items()
        if core in after
    )
