"""A comparison from its plan to its page. A function runs its runs: processes of this machine, or a launcher."""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hydra import compose
from omegaconf import DictConfig, OmegaConf

from contrastive.config.compose import composing, importable, search_path
from contrastive.config.identity import config_hash, flatten, key_of
from contrastive.config.neighbors import did_you_mean
from contrastive.config.reference import option_files
from contrastive.config.settings import SHARED_KEYS, checked_settings
from contrastive.distributed.cores import gpus_for
from contrastive.errors import ConfigError
from contrastive.experiment.summary import watching
from contrastive.listing.places import places
from contrastive.run.figures import KNN
from contrastive.run.files import lock
from contrastive.run.provenance import module_hashes
from contrastive.run.run import Run
from contrastive.study.compare.plan import Contestant, Plan, auto_budget, read_plans
from contrastive.study.compare.progress import Lines, announcement, costs
from contrastive.study.compare.seal import check_code, code_of, read_sealed, seal, unchanged
from contrastive.study.compare.space import Knob, knobs_of, point_at
from contrastive.study.compare.stages import Contest
from contrastive.study.compare.trial import Trial, minutes_of_run, try_contestants
from contrastive.study.jobs import TimeLeft, composer, default_jobs, run_here, this_device
from contrastive.text import counted, show

BASE = Path("outputs") / "compare"
TRIES, PAUSE = 3, 20.0  # of a run that the machine ended, and seconds before one where nothing else is left to do
# Runs what is due; returns why a run was not done.
Launch = Callable[[Sequence[Run]], dict[Run, str]]


class Done(NamedTuple):
    """A contest whose runs are over, and a sentence for each that was not done for a reason that is not its own."""

    contest: Contest
    not_done: list[str]


def run_comparison(
    words: Sequence[str], *, folders: Sequence[Path] = (), n_jobs: int = -1, seconds: float = math.inf,
    dry_run: bool = False,
) -> list[Done]:  # fmt: skip
    """Run a comparison on each data set in processes of this machine.

    Args:
        words: KEY=VALUE, see `read_plans`.
        folders: of options and modules of one's own.
        n_jobs: runs at a time; -1 = one on each GPU or core.
        seconds: from now on, in which a run has to end that is begun.
        dry_run: say what it would take, and stop.

    Raises:
        ConfigError: the plan, its data or a contestant cannot be used, another process runs this comparison, or runs
            are due that would not end in these seconds.
    """
    plans, all_time = read_plans(words), TimeLeft(seconds=seconds)
    with composing(), importable([Path.cwd(), *folders]), ExitStack() as locks:
        contests = [contest_of(plan, folders) for plan in plans]  # mistakes are answered before torch is imported
        common = list(plans[0].common)
        on_cpu, device = this_device(common)
        gpus = gpus_for(common)
        n_parallel = max(n_jobs, 0) or default_jobs(gpus, on_cpu)
        composed = composer(folders)
        for one in () if dry_run else contests:
            locks.enter_context(lock(one.base, instead="then the same command shows what came out"))
        tried = [begin(one, n_parallel=n_parallel, device=device, gpus=gpus, dry_run=dry_run) for one in contests]
        if dry_run:
            return [Done(one, []) for one in contests]

        def launch(lines: Lines, runs: Sequence[Run]) -> dict[Run, str]:
            time_left = replace(all_time, minutes=lambda run: minutes_of_run(run, lines.trials))
            failed = run_here(
                runs, compose=unchanged(lines.contest, composed), folders=folders, n_parallel=n_parallel, gpus=gpus,
                say=lines.end, time_left=time_left,
            )  # fmt: skip
            time_left.check()
            return failed

        each = [
            Lines(one, trials=trials, n_parallel=n_parallel, is_live=sys.stdout.isatty())
            for one, trials in zip(contests, tried, strict=True)
        ]
        return [run_all(lines.contest, partial(launch, lines), lines) for lines in each]


def begin(
    contest: Contest, *, n_parallel: int, device: str, gpus: Sequence[str] = (), dry_run: bool = False
) -> dict[str, Trial]:
    """Say what a comparison takes, try every contestant, and seal what its runs are made of.

    Returns:
        the trials; none where every run is done.
    """
    show(announcement(contest) + ("" if dry_run else watching(contest.base)))
    trials: dict[str, Trial] = {}
    if contest.due():
        trials = try_contestants(contest, compose=composer(contest.folders), n_parallel=n_parallel, gpus=gpus)
        show(costs(contest, trials, n_parallel=n_parallel, device=device))
    if not dry_run:
        check_code(contest)  # what was tried is what is sealed
        seal(contest, {key: data for trial in trials.values() for key, data in trial.data.items()})
    return trials


def contest_of(plan: Plan, folders: Sequence[Path] = ()) -> Contest:
    """The contest of a plan, each contestant composed and checked and its knobs read; Hydra must be initialized.

    Args:
        folders: of options and modules of one's own.

    Raises:
        ConfigError: a contestant cannot be composed, no contestant has what is to be searched, they have several
            datasets, or no evaluator gives the metric.
    """
    made = {own.name: _made(plan, own, folders) for own in plan.contestants}
    datasets = sorted({one.dataset for one in made.values()})
    if unread := plan.ranges.keys() - {key for one in made.values() for key in one.reads}:
        near = did_you_mean(min(unread), [key for one in made.values() for key in one.reads]) or "not searched:"
        raise ConfigError(f"no contestant has {min(unread)}: {near} try python train.py --help")
    listed = [places(one.config["dataset"]).values() for one in made.values()]
    where = sorted({", ".join(place["path"] for place in files) for files in listed})
    if several := next((names for names in (datasets, where) if len(names) > 1), None):
        instead = f"dataset={','.join(datasets)} for all of them" if len(datasets) > 1 else "one at a time"
        raise ConfigError(f"contestants are compared on one dataset, got {' and '.join(several)}: try {instead}")
    sealed = {**code_of(folders), "contestants": {name: one.hashes for name, one in made.items()}}
    knobs = {name: one.knobs for name, one in made.items()}
    if not any(knobs.values()):
        plan = replace(plan, budget=1, finalists=0)
    plan = replace(plan, budget=plan.budget or auto_budget(knobs))
    has_points = any("every" in one.config["evaluator"][plan.evaluator] for one in made.values())
    return Contest(
        plan=plan,
        knobs=knobs,
        defaults={name: one.defaults for name, one in made.items()},
        base=BASE / plan.folder(datasets[0], plan.digest(sealed)),
        dataset=datasets[0],
        on_the_way=(f"evaluator.{plan.evaluator}.every=0",) if has_points else (),
        left_alone={name: one.left_alone for name, one in made.items()},
        folders=tuple(folders),
        made_of=sealed,
    )


class _Made(NamedTuple):
    """A contestant as it is composed: its dataset, the settings that it reads, its knobs, their defaults, and its
    configuration."""

    dataset: str
    reads: list[str]
    knobs: list[Knob]
    defaults: dict[str, Any]
    config: dict[str, Any]
    left_alone: dict[str, Any]

    @property
    def hashes(self) -> dict[str, Any]:
        """All that its runs depend on."""
        searched = {knob.key: knob.typed for knob in self.knobs}
        return {"config": config_hash(self.config), "modules": module_hashes(self.config), "searched": searched}


def _made(plan: Plan, own: Contestant, folders: Sequence[Path]) -> _Made:
    """A contestant, composed and checked."""
    words = [*plan.common, *own.fixed]
    cfg = compose("train", [*words, *search_path(folders)], return_hydra_config=True)
    choices = {group: str(choice) for group, choice in cfg.hydra.runtime.choices.items()}
    OmegaConf.set_struct(cfg, False)
    del cfg["hydra"]
    settings = checked_settings(cfg, words)
    if plan.evaluator not in settings.evaluator:
        names = ", ".join(settings.evaluator)
        more = f"'evaluator=[{','.join([plan.evaluator, *settings.evaluator])}]'"
        is_one = plan.evaluator in option_files("evaluator", folders)
        raise ConfigError(
            f"the evaluators are {names}, none gives {plan.metric}: "
            f"try {f'{more}, or another metric' if is_one else f'metric={KNN}'}"
        )
    reads = _settings_read(cfg)
    own_keys = {key_of(word) for word in own.fixed}  # a row that fixes a setting is not searched over it
    ranges = {key: typed for key, typed in plan.ranges.items() if key in reads and key not in own_keys} | own.ranges
    fixed = {key_of(word) for word in words} - ranges.keys()
    values = flatten(OmegaConf.to_container(cfg, resolve=True))
    knobs = knobs_of(choices, {key: values.get(key) for key in reads}, ranges, folders, fixed)
    trial = [f"{key}={value}" for key, value in point_at(knobs, [0.5] * len(knobs)).items()]
    compose("train", [*words, *trial, *search_path(folders)])  # a range of no setting is said at once
    searched = {knob.key for knob in knobs}
    left_alone = {key: value for key, value in _numbers_of_loss(cfg, reads) if key not in searched}
    defaults = {knob.key: values.get(knob.key) for knob in knobs}
    return _Made(choices["dataset"], [*reads, *own.ranges], knobs, defaults, settings.to_dict(), left_alone)


def _settings_read(cfg: DictConfig) -> list[str]:
    """The settings that a configuration has; of those that components share only what one of them reads."""
    written: Any = OmegaConf.to_container(cfg, resolve=False)
    text = repr([value for value in written.values() if isinstance(value, dict)])
    return [key for key in flatten(written) if key not in SHARED_KEYS or f"${{{key}}}" in text]


def _numbers_of_loss(cfg: DictConfig, reads: Sequence[str]) -> list[tuple[str, Any]]:
    """(setting, value) of the numbers that the loss of a configuration has or reads."""
    written: Any = OmegaConf.to_container(cfg, resolve=False)
    loss = [*flatten({"loss": written["loss"]}).items(), *((key, written[key]) for key in SHARED_KEYS if key in reads)]
    return [(key, value) for key, value in loss if isinstance(value, int | float) and not isinstance(value, bool)]


def run_all(contest: Contest, launch: Launch, lines: Lines | None = None) -> Done:
    """Run stage after stage until nothing is due. A run that was not done is tried again, three times in all.

    Args:
        lines: that tell how it stands.

    Raises:
        ConfigError: a run lacks the figure that is judged, or was trained on other data or by other code.
    """
    lines = lines or Lines(contest)
    tried, reasons = Counter[Path](), dict[Run, str]()
    while True:
        contest.check_runs(read_sealed(contest.base)["data"])  # also those of an earlier command
        runs = [run for run in contest.due() if tried[run.path] < TRIES]
        if not runs:
            break
        if all(tried[run.path] for run in runs):
            print(f"{counted(len(runs), 'run')} not done for a reason of the machine: trying again", flush=True)
            time.sleep(PAUSE)
        lines.begin(runs)
        try:
            reasons |= launch(runs)
        finally:  # whatever is said next begins a line
            lines.clear()
        contest.clean()
        tried.update(run.path for run in runs)
    return Done(contest, [f"not done: {run}: {reasons.get(run, 'it ended without a word')}" for run in contest.due()])
