"""A trial of every contestant before the first run: a few real steps tell a bug, the memory, the time and the data."""

import contextlib
import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig

from contrastive.config.compose import importable
from contrastive.config.messages import in_a_line, user_message
from contrastive.config.settings import Settings
from contrastive.distributed.hardware import fix_instructions, pair_of
from contrastive.distributed.pool import run_in_processes
from contrastive.errors import ConfigError
from contrastive.run.files import read_result
from contrastive.run.run import Run
from contrastive.study.compare.contest import Contest, n_left
from contrastive.study.compare.seal import data_key
from contrastive.study.jobs import Compose, minutes_of, slow_imports


class Trial(NamedTuple):
    """What a trial of a contestant found.

    Attributes:
        minutes: that a run takes, its start and evaluation included.
        memory: in words, the most that was held.
        is_finite: whether the losses of its steps were.
        data: {settings of the dataset: hash of the data}.
        n_images: that its final runs are tested on.
        pair: what its runs share with those that they are compared with, see `pair_of`.
    """

    minutes: float
    memory: str
    is_finite: bool
    data: dict[str, str]
    n_images: int
    pair: tuple[Any, ...]


def try_contestants(
    contest: Contest, *, compose: Compose, n_parallel: int, gpus: Sequence[str] = ()
) -> dict[str, Trial]:
    """Take a few steps of every contestant in the settings of its final runs, each in a process of its own.

    Raises:
        ConfigError: one cannot be trained; the sentence names it, the error and its line.
    """
    made = {own.name: compose(contest.final(own, 0, {})[0].overrides) for own in contest.methods}
    tasks = (_Try(name, cfg, contest.folders, contest.plan.evaluator) for name, cfg in made.items())
    found: dict[str, Trial] = {}
    imports = slow_imports(next(iter(made.values())))
    for task, result in run_in_processes(tasks, n_parallel=n_parallel, gpus=gpus, imports=imports):
        if not isinstance(result, Trial):
            raise ConfigError(f"{task.name} cannot be trained: {result}")
        found[task.name] = result
    return {name: found[name] for name in made}


def hours(contest: Contest, trials: Mapping[str, Trial]) -> float:
    """Hours of all runs that are left, one after the other."""
    return sum(n_left(contest, own) * trials[own.name].minutes for own in contest.methods) / 60


def minutes_of_run(run: Run, trials: Mapping[str, Trial]) -> float | None:
    """How long a run will take: what the last one of its contestant and stage took, else its trial; None without."""
    is_final, own = run.stage == "final", run.path.parent
    folders = own.glob("seed=*") if is_final else own.parent.glob("point=*/seed=*")
    done = [result for folder in folders if (result := read_result(folder)) is not None]
    if done:
        return minutes_of(max(done, key=lambda result: str(result["time"]["finished"])))
    return trials[run.row].minutes if run.row in trials else None


@dataclass(frozen=True)
class _Try:
    """The trial of one contestant; returns why it failed instead, in a sentence."""

    name: str
    cfg: DictConfig
    folders: tuple[Path, ...]
    evaluator: str  # that gives what is judged

    def __call__(self) -> Trial | str:
        since = time.perf_counter()
        try:
            with importable([Path.cwd(), *self.folders]), contextlib.redirect_stdout(io.StringIO()):
                from contrastive.experiment.build import build  # late: importing torch takes seconds
                from contrastive.experiment.dry_run import estimate
                from contrastive.experiment.run import environment_of

                settings = Settings.from_config(self.cfg)
                if settings.reproducible:
                    fix_instructions()
                experiment = build(settings)
                if self.evaluator in experiment.left_out:
                    unlabeled = "needs labels, and these images have none: try images with classes"
                    raise ConfigError(f"{self.evaluator} {unlabeled}")
                start = time.perf_counter() - since
                timing = estimate(experiment)
        except Exception as error:
            return user_message(error) or in_a_line(error)
        return Trial(
            minutes=(start + timing.seconds) / 60,
            memory=timing.memory,
            is_finite=timing.is_finite,
            data={data_key(settings.to_dict()): experiment.data_hash},
            n_images=len(experiment.data.test),
            pair=pair_of(environment_of(experiment, ())),
        )
