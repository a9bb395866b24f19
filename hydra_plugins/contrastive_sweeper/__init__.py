"""The Hydra sweeper of comparisons, with any launcher: train.py -m hydra/sweeper=compare loss=nt_xent,debiased_pos."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from contrastive.distributed.hardware import reproducibly
from contrastive.errors import ConfigError
from contrastive.run.run import Run
from contrastive.study.compare.engine import begin, contest_of, run_contests
from contrastive.study.compare.plan import read_plans
from contrastive.study.compare.progress import Lines, answer
from contrastive.study.compare.seal import check_code
from contrastive.text import show
from hydra_plugins.contrastive_launcher import failure


class CompareSweeper(Sweeper):
    """Runs what `contrastive compare` runs, stage by stage through the launcher that was chosen; see docs/compare.md.

    Args:
        numbers: budget, seeds, searches, metric, margin and rows; null = the default.
    """

    def __init__(self, **numbers: Any) -> None:
        self.numbers = {key: value for key, value in numbers.items() if value is not None}

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.composed = config
        self.launching = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[str]:
        own = [word for word in arguments if not word.startswith("+hydra.")]
        own += [f"{key}={value}" for key, value in self.numbers.items()]
        launcher = self.composed.hydra.launcher._target_  # another one may start the runs on machines with GPUs
        is_here = launcher.endswith(("BasicLauncher", "CoresLauncher"))
        plans = read_plans([*own, *(reproducibly(own) if is_here else ())])
        sources = self.composed.hydra.runtime.config_sources
        folders = [Path(source.path) for source in sources if source.provider == "command-line"]  # --config-dir
        self.kept = [word for word in arguments if word.startswith("+hydra.")]  # callbacks that record every job
        self.n_jobs = 0
        contests = [contest_of(plan, folders) for plan in plans]
        begun = partial(begin, n_parallel=1, device="the launcher's device")
        if not_done := run_contests(contests, self.launch, begun):
            raise ConfigError(f"{not_done[0]}: try the same command again, which goes on")
        show(answer(contests))
        return []

    def launch(self, lines: Lines, runs: Sequence[Run]) -> dict[Run, str]:
        """Run all of a stage; returns why a run was not done. The jobs of a launcher read code and options where they
        lie."""
        check_code(lines.contest)
        returns = self.launching.launch([self.words(run) for run in runs], initial_job_idx=self.n_jobs)
        self.n_jobs += len(runs)
        check_code(lines.contest)
        failures = [failure(done) for done in returns]
        return {run: str(error) for run, error in zip(runs, failures, strict=True) if error is not None}

    def words(self, run: Run) -> list[str]:
        """The overrides of a run, its directory among them."""
        place = run.path.absolute()
        folder, name = (QuotedString(text, Quote.single).with_quotes() for text in (str(place.parent), place.name))
        return [*run.overrides, f"hydra.sweep.dir={folder}", f"hydra.sweep.subdir={name}", *self.kept]
