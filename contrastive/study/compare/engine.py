"""A comparison from its words to runs that are done. A function runs its runs: processes of this machine, or a
launcher."""

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hydra import compose
from omegaconf import DictConfig, OmegaConf

from contrastive.config.compose import composing, importable, search_path
from contrastive.config.identity import config_hash, flatten, key_of
from contrastive.config.reference import option_files
from contrastive.config.settings import SHARED_KEYS, checked_settings
from contrastive.config.words import did_you_mean
from contrastive.distributed.hardware import gpus_for, reproducibly
from contrastive.errors import ConfigError
from contrastive.experiment.summary import watching
from contrastive.listing.places import places
from contrastive.run.figures import KNN
from contrastive.run.files import lock
from contrastive.run.provenance import module_hashes
from contrastive.run.run import Run
from contrastive.study.compare.contest import Contest, Method, due, remove_checkpoints
from contrastive.study.compare.plan import Contestant, Plan, auto_budget, read_plans, typed
from contrastive.study.compare.progress import Lines, announcement, costs
from contrastive.study.compare.seal import check_code, check_machine, check_runs, code_of, seal, seal_data
from contrastive.study.compare.space import knobs_of, point_at
from contrastive.study.compare.trial import Trial, minutes_of_run, try_contestants
from contrastive.study.jobs import TimeLeft, composer, default_jobs, merge_overrides, run_here, this_device
from contrastive.text import counted, show

BASE = Path("outputs") / "compare"
TRIES, PAUSE = 3, 20.0  # of a run that the machine ended, and seconds before one where nothing else is left to do
# Runs what is due; returns why a run was not done.
Launch = Callable[[Lines, Sequence[Run]], dict[Run, str]]


def run_comparison(
    words: Sequence[str], *, folders: Sequence[Path] = (), n_jobs: int = -1, seconds: float = math.inf,
    dry_run: bool = False,
) -> tuple[list[Contest], list[str]]:  # fmt: skip
    """Run a comparison on each data set in processes of this machine.

    Args:
        words: KEY=VALUE, see `read_plans`.
        folders: of options and modules of one's own.
        n_jobs: runs at a time; -1 = one on each GPU or core.
        seconds: from now on, in which a run has to end that is begun.
        dry_run: say what it would take, and stop.

    Returns:
        the contests, and a sentence for each run that was not done for a reason that is not its own.

    Raises:
        ConfigError: the plan, its data or a contestant cannot be used, another process runs this comparison, or runs
            are due that would not end in these seconds.
    """
    plans, all_time = read_plans([*words, *reproducibly(words)]), TimeLeft(seconds=seconds)
    with composing(), importable([Path.cwd(), *folders]):
        contests = [contest_of(plan, folders) for plan in plans]  # mistakes are answered before torch is imported
        on_cpu, device = this_device(list(plans[0].common))
        gpus = gpus_for(list(plans[0].common))
        n_parallel = max(n_jobs, 0) or default_jobs(gpus, on_cpu)
        composed = composer(folders)

        def launch(lines: Lines, runs: Sequence[Run]) -> dict[Run, str]:
            def unchanged(overrides: Sequence[str]) -> DictConfig:
                check_code(lines.contest)
                return composed(overrides)

            def ended(count: int, n: int, run: Run, failure: object) -> None:
                lines.end(count, n, run, failure)
                seal_data(lines.contest, run)

            time_left = replace(all_time, minutes=lambda run: minutes_of_run(run, lines.trials))
            failed = run_here(
                runs, compose=unchanged, folders=folders, n_parallel=n_parallel, gpus=gpus, say=ended,
                time_left=time_left,
            )  # fmt: skip
            time_left.check()
            return failed

        def begun(one: Contest) -> Lines:
            lines = begin(one, n_parallel=n_parallel, device=device, gpus=gpus, is_live=sys.stdout.isatty())
            check_machine(one, {trial.pair for trial in lines.trials.values()})
            return lines

        if dry_run:
            for one in contests:
                begun(one)
            return contests, []
        return contests, run_contests(contests, launch, begun)


def run_contests(contests: Sequence[Contest], launch: Launch, begun: Callable[[Contest], Lines]) -> list[str]:
    """Run comparisons one after the other, in folders that no other process works in.

    Args:
        begun: see `begin`.

    Returns:
        a sentence for each run that was not done.
    """
    with ExitStack() as locks:
        for one in contests:
            locks.enter_context(lock(one.base, instead="then the same command shows what came out"))
        each = [begun(one) for one in contests]
        for lines in each:
            check_code(lines.contest)  # what was tried is what is sealed
            seal(lines.contest, {key: data for trial in lines.trials.values() for key, data in trial.data.items()})
            check_runs(lines.contest)  # also of the last data set before the first run
        return [said for lines in each for said in run_all(lines, launch)]


def begin(contest: Contest, *, n_parallel: int, device: str, gpus: Sequence[str] = (), is_live: bool = False) -> Lines:
    """Say what a comparison takes, and try every contestant where runs are due."""
    show(announcement(contest) + watching(contest.base))
    trials: dict[str, Trial] = {}
    if due(contest):
        trials = try_contestants(contest, compose=composer(contest.folders), n_parallel=n_parallel, gpus=gpus)
        show(costs(contest, trials, n_parallel=n_parallel, device=device))
    return Lines(contest, trials=trials, n_parallel=n_parallel, is_live=is_live)


def run_all(lines: Lines, launch: Launch) -> list[str]:
    """Run stage after stage until nothing is due. A run that was not done is tried again, three times in all.

    Returns:
        a sentence for each run that was not done for a reason that is not its own.

    Raises:
        ConfigError: a run lacks the figure that is judged, or was made otherwise than the comparison began.
    """
    contest, tried, reasons = lines.contest, Counter[Path](), dict[Run, str]()
    while True:
        check_runs(contest)  # also those of an earlier command
        runs = [run for run in due(contest) if tried[run.path] < TRIES]
        if not runs:
            break
        if all(tried[run.path] for run in runs):
            print(f"{counted(len(runs), 'run')} not done for a reason of the machine: trying again", flush=True)
            time.sleep(PAUSE)
        lines.begin(runs)
        try:
            reasons |= launch(lines, runs)
        finally:  # whatever is said next begins a line
            lines.clear()
        remove_checkpoints(contest)
        tried.update(run.path for run in runs)
    return [f"not done: {run}: {reasons.get(run, 'it ended without a word')}" for run in due(contest)]


def contest_of(plan: Plan, folders: Sequence[Path] = ()) -> Contest:
    """The contest of a plan, each contestant composed and checked and its knobs read; Hydra must be initialized.

    Args:
        folders: of options and modules of one's own.

    Raises:
        ConfigError: a contestant cannot be composed, no contestant has what is to be searched, they have several
            datasets, or no evaluator gives the metric.
    """
    composed = [_composed(plan, own, folders) for own in plan.contestants]
    methods = [one.method for one in composed]
    reads = [key for one in composed for key in one.reads]
    if unread := plan.ranges.keys() - reads:
        near = did_you_mean(min(unread), reads) or "not searched:"
        raise ConfigError(f"no contestant has {min(unread)}: {near} try python train.py --help")
    datasets = sorted({one.dataset for one in composed})
    listed = [places(one.config["dataset"]).values() for one in composed]
    where = sorted({", ".join(place["path"] for place in files) for files in listed})
    if several := next((names for names in (datasets, where) if len(names) > 1), None):
        instead = f"dataset={','.join(datasets)} for all of them" if len(datasets) > 1 else "one at a time"
        raise ConfigError(f"contestants are compared on one dataset, got {' and '.join(several)}: try {instead}")
    made_of = {**code_of(folders), "contestants": {own.name: own.made_of for own in methods}}
    most = auto_budget([own.knobs for own in methods])
    plan = replace(plan, budget=1 if most == 1 else plan.budget or most)
    return Contest(
        plan=plan,
        methods=methods,
        base=BASE / plan.folder(datasets[0], plan.digest(made_of)),
        dataset=datasets[0],
        waits=any("every" in one.config["evaluator"][plan.evaluator] for one in composed),
        folders=tuple(folders),
        made_of=made_of,
    )


class _Composed(NamedTuple):
    """A contestant with the dataset that it trains on, the settings that it reads, and its configuration."""

    method: Method
    dataset: str
    reads: list[str]
    config: dict[str, Any]


def _composed(plan: Plan, own: Contestant, folders: Sequence[Path]) -> _Composed:
    """A contestant, composed and checked."""
    words = merge_overrides(plan.common, own.words)
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
    written: Any = OmegaConf.to_container(cfg, resolve=False)
    reads, values = _settings_read(written), flatten(OmegaConf.to_container(cfg, resolve=True))
    own_keys = {key_of(word) for word in own.words}  # a row that fixes a setting is not searched over it
    ranges = {key: text for key, text in plan.ranges.items() if key in reads and key not in own_keys}
    ranges |= own.ranges
    fixed = {key_of(word) for word in words} - ranges.keys()
    knobs = knobs_of(choices, {key: values.get(key) for key in reads}, ranges, folders, fixed)
    middle = point_at(knobs, [0.5] * len(knobs))
    compose("train", [*words, *typed(middle), *search_path(folders)])  # a range of no setting is said at once
    searched, config = {knob.key: knob.typed for knob in knobs}, settings.to_dict()
    numbers = {key: value for key, value in flatten(written).items() if _is_number_of_loss(key, value)}
    method = Method(
        name=own.name,
        words=own.words,
        knobs=knobs,
        defaults={key: values.get(key) for key in searched},
        left_alone={key: value for key, value in numbers.items() if key in reads and key not in searched},
        made_of={"config": config_hash(config), "modules": module_hashes(config), "searched": searched},
    )
    return _Composed(method, choices["dataset"], [*reads, *own.ranges], config)


def _settings_read(written: Mapping[str, Any]) -> list[str]:
    """The settings that a configuration has; of those that components share only what one of them reads."""
    text = repr([value for value in written.values() if isinstance(value, dict)])
    return [key for key in flatten(written) if key not in SHARED_KEYS or f"${{{key}}}" in text]


def _is_number_of_loss(key: str, value: Any) -> bool:
    """Whether a setting is a number of the loss, or one that it shares with others."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and (key.startswith("loss.") or key in SHARED_KEYS)
