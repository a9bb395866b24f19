"""The Hydra launcher of sweeps on a Slurm cluster: hydra/launcher=slurm, which says what it waits for."""

import dataclasses
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, filter_overrides

from contrastive.text import as_typed, show

if find_spec("hydra_plugins.hydra_submitit_launcher") is not None:  # Hydra imports this file wherever it is installed
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
    from hydra_plugins.hydra_submitit_launcher.submitit_launcher import SlurmLauncher

    class SaidSlurmLauncher(SlurmLauncher):  # type: ignore[misc]
        """submitit's, which tells of no job before all have ended: this one prints number and log of each."""

        def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
            import submitit  # late, as the launcher of submitit has it: every command of Hydra finds this file

            general, params = {field.name for field in dataclasses.fields(BaseQueueConf)}, dict(self.params)
            folder, again = params.pop("submitit_folder"), params.pop("max_num_timeout")
            executor = submitit.AutoExecutor(folder=folder, cluster="slurm", slurm_max_num_timeout=again)
            executor.update_parameters(**{key if key in general else f"slurm_{key}": x for key, x in params.items()})
            Path(self.config.hydra.sweep.dir).mkdir(parents=True, exist_ok=True)
            numbers = range(initial_job_idx, initial_job_idx + len(job_overrides))
            n, state = len(numbers), Singleton.get_state()
            jobs = executor.map_array(
                self, map(list, job_overrides), n * ["hydra.sweep.dir"], numbers, map("job_id_for_{}".format, numbers),
                n * [state],
            )  # fmt: skip
            for job, words in zip(jobs, job_overrides, strict=True):
                show(f"job {job.job_id}: {' '.join(filter_overrides(words))}, log {as_typed(job.paths.stdout)}")
            show("waiting for them; Ctrl-C ends the waiting alone, and contrastive runs lists what is done")
            return [job.results()[0] for job in jobs]
