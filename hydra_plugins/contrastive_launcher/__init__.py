"""The Hydra launcher of sweeps on one machine: hydra/launcher=cores."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobStatus, run_job, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, flag_override

from contrastive.distributed.hardware import gpus_for, n_cores
from contrastive.distributed.pool import Died, run_in_processes
from contrastive.errors import ConfigError


class CoresLauncher(Launcher):
    """Runs the jobs in processes of this machine, each on one of its GPUs if it has any.

    Args:
        n_jobs: runs at a time, more than there are GPUs share them; -1 is one for each GPU, or without any for each
            core.
    """

    def __init__(self, n_jobs: int = -1) -> None:
        self.n_jobs = n_jobs

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.task, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        setup_globals()
        jobs = (self._compose(list(job), number) for number, job in enumerate(job_overrides, start=initial_job_idx))
        returns: dict[int, JobReturn] = {}
        gpus = gpus_for(word for job in job_overrides for word in job)
        n_parallel = max(1, self.n_jobs) if self.n_jobs >= 0 else len(gpus) or n_cores()
        for job, result in run_in_processes(jobs, n_parallel=n_parallel, gpus=gpus):
            if isinstance(result, Died):  # before Hydra could tell anybody
                died, result = result, JobReturn(overrides=job.config.hydra.overrides.task, status=JobStatus.FAILED)
                result.return_value = died
                self.context.callbacks.on_job_end(config=job.config, job_return=result)
            returns[job.config.hydra.job.num] = result
        return [returns[number] for number in sorted(returns)]

    def _compose(self, overrides: list[str], number: int) -> "Job":
        config = self.context.config_loader.load_sweep_config(self.config, overrides)
        hydra = config.hydra
        with flag_override(hydra, ["readonly", "struct"], False):
            hydra.job.id, hydra.job.num = f"{hydra.job.name}_{number}", number
        HydraConfig.instance().set_config(config)
        subdir = str(hydra.sweep.subdir)  # the run's name: found here, where Hydra can compose others
        with flag_override(hydra, ["readonly", "struct"], False):
            hydra.sweep.subdir, hydra.runtime.output_dir = subdir, str(Path(hydra.sweep.dir, subdir).resolve())
        return Job(config, f"{self.task.__module__}:{self.task.__name__}", self.context)


def failure(done: JobReturn) -> Exception | None:
    """What a job raised; None if it did not fail."""
    try:
        _ = done.return_value
    except Exception as error:
        return error
    return None


@dataclass(frozen=True)
class Job:
    """What Hydra's own launcher does for one job, as something to be sent to another process."""

    config: DictConfig
    task: str  # module:name of the program, decorated by hydra.main
    context: HydraContext

    def __call__(self) -> JobReturn:
        setup_globals()
        done = run_job(
            task_function=resolve_name(self.task).__wrapped__,  # beneath hydra.main
            config=self.config,
            job_dir_key="hydra.sweep.dir",
            job_subdir_key="hydra.sweep.subdir",
            hydra_context=self.context,
        )
        if done.status == JobStatus.FAILED:  # what was raised need not survive the way
            error = failure(done)
            text = f"job {self.config.hydra.job.num} failed"
            done.return_value = ConfigError(str(error)) if isinstance(error, ConfigError) else RuntimeError(text)
        return done
