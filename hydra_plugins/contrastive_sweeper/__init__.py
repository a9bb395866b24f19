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

from contrastive.errors import ConfigError
from contrastive.run.files import lock
from contrastive.study.compare.engine import begin, contest_of, in_one_folder, in_time, run_each
from contrastive.study.compare.plan import read_plans
from contrastive.study.compare.progress import answer, base_of, lines_of
from contrastive.study.compare.stages import Contest
from contrastive.study.jobs import Run
from contrastive.text import show
from hydra_plugins.contrastive_launcher import failure


class CompareSweeper(Sweeper):
    """Runs what `contrastive compare` runs, stage by stage through the launcher that was chosen; see docs/compare.md.

    Args:
        numbers: budget, hours, batch, finalists, seeds, searches, metric, margin, pairs and rows; null = the default.
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
        plans = read_plans([*own, *(f"{key}={value}" for key, value in self.numbers.items())])
        sources = self.composed.hydra.runtime.config_sources
        folders = [Path(source.path) for source in sources if source.provider == "command-line"]  # --config-dir
        timed = [in_time(contest_of(plan, folders), n_parallel=1) for plan in plans]
        contests = in_one_folder([contest for contest, _ in timed])
        self.kept = [word for word in arguments if word not in own]  # callbacks that record every job
        self.n_jobs = 0
        with lock(base_of(contests), instead="then the same command shows what came out"):
            for contest, (_, trials) in zip(contests, timed, strict=True):
                begin(contest, trials, n_parallel=1, device="the launcher's device")
            lines = lines_of(contests, [{}] * len(contests), n_parallel=1, is_live=False)
            done = run_each(contests, lambda own: partial(self.launch, own.contest), lines)
            if not_done := [text for one in done for text in one.not_done]:
                raise ConfigError(f"{not_done[0]}: try the same command again, which goes on")
            show(answer([one.contest for one in done]))
        return []

    def launch(self, contest: Contest, runs: Sequence[Run]) -> dict[Run, str]:
        """Run all of a stage; returns why a run was not done.

        Raises:
            ConfigError: code or options were edited: the jobs of a launcher read them where they lie.
        """
        returns = self.launching.launch([self.words(run) for run in runs], initial_job_idx=self.n_jobs)
        self.n_jobs += len(runs)
        if contest_of(contest.plan, contest.folders).base.name != contest.base.name:
            raise ConfigError("code or settings changed while this comparison ran: undo that and run the same command")
        failures = [failure(done) for done in returns]
        return {run: str(error) for run, error in zip(runs, failures, strict=True) if error is not None}

    def words(self, run: Run) -> list[str]:
        """The overrides of a run, its directory among them."""
        place = run.path.absolute()
        folder, name = (QuotedString(text, Quote.single).with_quotes() for text in (str(place.parent), place.name))
        return [*run.overrides, f"hydra.sweep.dir={folder}", f"hydra.sweep.subdir={name}", *self.kept]
