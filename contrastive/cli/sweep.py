"""Sweeps: which launcher runs the jobs, how each of them went, and the table at the end."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from contrastive.config.messages import in_a_line, user_message
from contrastive.distributed.hardware import gpus_for, n_cores
from contrastive.errors import ConfigError
from contrastive.experiment.summary import command
from contrastive.report.facts import section_text
from contrastive.report.frame import read_frame
from contrastive.run.files import read_result
from contrastive.run.provenance import ADDED
from contrastive.run.run import Run
from contrastive.text import as_typed

COMPARE = "hydra/sweeper=compare"  # whose jobs are those of a sweep


def choose_launcher(overrides: Sequence[str]) -> list[str]:
    """The override `hydra/launcher=cores` for a sweep on several GPUs, or without a GPU on several cores; else none.

    Two runs of one thread each end sooner than one after the other with two threads: 1.3 to 1.5 times on two cores. A
    sweep keeps Hydra's own launcher, one run after the other in one process, on a single GPU, for `devices` and
    `device=cuda:N`, and when a launcher or a sweeper is chosen. `hydra.launcher.n_jobs` asks for several at a time.
    """
    from hydra_plugins.contrastive_launcher import CoresLauncher  # late: only the process that starts a sweep needs it

    Plugins.instance().register(CoresLauncher)  # Hydra itself finds plugins only in folders of sys.path
    if COMPARE in overrides:
        from hydra_plugins.contrastive_sweeper import CompareSweeper  # late: it needs all of study/

        Plugins.instance().register(CompareSweeper)
        overrides = [word for word in overrides if word != COMPARE]
    chosen = ("hydra/launcher=", "hydra/sweeper=", "devices=", "device=cuda:")
    if any(word.startswith(chosen) for word in overrides):
        return []
    # reproducible=true,false: the instructions that a process once took are those of its later runs, too
    is_asked_for = any(word.startswith(("hydra.launcher.n_jobs=", "reproducible=")) for word in overrides)
    return ["hydra/launcher=cores"] if is_asked_for or (len(gpus_for(overrides)) or n_cores()) > 1 else []


class RecordJobs(Callback):
    """Adds every job that ends on this machine to a file, also from other processes.

    Args:
        path: the file; jobs on a machine that lacks it go unrecorded.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        from hydra_plugins.contrastive_launcher import failure  # late, as above

        hydra, error = config.hydra, failure(job_return)
        reason = error and (user_message(error, words=list(hydra.overrides.task)) or in_a_line(error))
        job = {
            "number": hydra.job.num,
            # as typed: what follows the seed, as in "data/${seed}", is one setting
            "overrides": OmegaConf.to_container(hydra.overrides.task),
            "path": hydra.runtime.output_dir,
            "failure": reason,
        }
        if self.path.exists():
            with self.path.open("a") as file:
                file.write(json.dumps(job) + "\n")


def record_jobs(path: Path) -> list[str]:
    """The overrides with which the jobs of a sweep are recorded in a file."""
    return [f"{ADDED}._target_={RecordJobs.__module__}.{RecordJobs.__name__}", f"{ADDED}.path='{path}'"]


def read_jobs(path: Path) -> dict[Run, str]:
    """The recorded runs that ended, in the order of the sweep, and why each failed; empty for one that is done.

    A dry run has neither a result nor a failure, and is left out.
    """
    lines = sorted(map(json.loads, path.read_text().splitlines()), key=lambda line: int(line["number"]))
    runs = {Run(overrides=tuple(line["overrides"]), path=Path(line["path"])): line["failure"] or "" for line in lines}
    return {run: failure for run, failure in runs.items() if failure or read_result(run.path) is not None}


def sweep_table(runs: Mapping[Run, str]) -> str:
    """The runs of a sweep as a table for each dataset, and a line for each that failed.

    Args:
        runs: why each failed; empty for one that is done.
    """
    failures = [f"failed: {' '.join(run.overrides)}: {failure}" for run, failure in runs.items() if failure]
    finished = [run.path for run, failure in runs.items() if not failure]
    if not finished:
        return "\n".join(failures)
    try:
        frame = read_frame(finished)
    except ConfigError as error:  # they ran: what their folders hold besides is no failure of the sweep
        return "\n".join([str(error), *failures])
    folder = as_typed(Path(os.path.commonpath(finished)))
    more = f"{command('python')} -m contrastive report {folder} --metric all"
    sections = [section_text(name, part, part.chosen(None), more=more) for name, part in frame.sections.items()]
    return "\n".join([*sections, *failures])
