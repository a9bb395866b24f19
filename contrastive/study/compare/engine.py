"""A comparison from its plan to its page. A function runs its runs: processes of this machine, or a launcher."""

import json
import math
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from contrastive.config.compose import importable, search_path
from contrastive.config.identity import config_hash, flatten, key_of, targets
from contrastive.config.paths import CONFIGS
from contrastive.config.settings import SHARED_KEYS, checked_settings
from contrastive.distributed.cores import gpus_for
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.listing.places import places
from contrastive.run.files import lock, read_result
from contrastive.run.provenance import module_hashes
from contrastive.study.compare.judge import is_decided, power_text
from contrastive.study.compare.outcome import comparison_record
from contrastive.study.compare.plan import Contestant, Plan, auto_budget, read_plan
from contrastive.study.compare.seal import (
    CODE,
    OPTIONS,
    PLAN,
    check_package,
    other_comparisons,
    package_hash,
    read_sealed,
    read_sources,
    seal,
)
from contrastive.study.compare.space import Knob, knobs_of, point_at
from contrastive.study.compare.stages import WORST, Contest
from contrastive.study.compare.trial import Trial, deepest, disk, hours, minutes_of_run, try_contestants
from contrastive.study.jobs import Run, TimeLeft, composer, default_jobs, run_here, short_hours, this_device
from contrastive.study.render.comparison import forest, sentences
from contrastive.study.render.files import write_pages
from contrastive.study.render.sentences import tuned_text
from contrastive.study.statistics import planned_looks
from contrastive.text import as_typed, clock, counted, marked, show

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
) -> Done:  # fmt: skip
    """Run a comparison in processes of this machine.

    Args:
        words: KEY=VALUE, see `read_plan`.
        folders: of options and modules of one's own.
        n_jobs: runs at a time; -1 = one on each GPU or core.
        seconds: from now on, in which a run has to end that is begun.
        dry_run: say what it would take, and stop.

    Raises:
        ConfigError: the plan, its data or a contestant cannot be used, another process runs this comparison, or runs
            are due that would not end in these seconds.
    """
    plan = read_plan(words)
    trials: dict[str, Trial] = {}
    time_left = TimeLeft(seconds=seconds, minutes=lambda run: minutes_of_run(run, trials))
    with initialize_config_dir(str(CONFIGS), version_base="1.3"), importable([Path.cwd(), *folders]):
        contest = contest_of(plan, folders)  # mistakes are answered before torch is imported
        on_cpu, device = this_device(list(plan.common))
        gpus = gpus_for(list(plan.common))
        n_parallel = max(n_jobs, 0) or default_jobs(gpus, on_cpu)
        contest, trials = in_time(contest, n_parallel=n_parallel, gpus=gpus)
        with nullcontext() if dry_run else lock(contest.base, instead="then the same command shows what came out"):
            trials = begin(contest, trials, n_parallel=n_parallel, device=device, gpus=gpus, dry_run=dry_run)
            if dry_run:
                return Done(contest, [])
            composed = composer([contest.base / OPTIONS, *folders])

            def launch(runs: Sequence[Run]) -> dict[Run, str]:
                failed = run_here(
                    runs, compose=composed, folders=folders, n_parallel=n_parallel, gpus=gpus, code=contest.base / CODE,
                    time_left=time_left,
                )  # fmt: skip
                check_package(contest)
                time_left.check()
                return failed

            return run_until_decided(contest, launch, trials=trials, n_parallel=n_parallel)


def in_time(contest: Contest, *, n_parallel: int, gpus: Sequence[str] = ()) -> tuple[Contest, dict[str, Trial]]:
    """The contest with the deepest search that its hours allow, and the trials that told; none where its budget is
    known."""
    if contest.plan.budget:
        return contest, {}
    show(f"trying each contestant, for how many points {contest.plan.hours:g} hours are enough")
    trials = try_contestants(contest, compose=composer(contest.folders), n_parallel=n_parallel, gpus=gpus)
    return contest_of(deepest(contest, trials, n_parallel=n_parallel), contest.folders), trials


def begin(
    contest: Contest,
    trials: dict[str, Trial],
    *,
    n_parallel: int,
    device: str,
    gpus: Sequence[str] = (),
    dry_run: bool = False,
) -> dict[str, Trial]:
    """Say what a comparison takes, try every contestant, and seal what its runs are made of.

    Args:
        trials: those that were made already.

    Returns:
        the trials; none where every run is done.
    """
    show(announcement(contest))
    sources = read_sources(contest.targets, contest.folders)  # before the trials: what is tried is what is sealed
    if (contest if dry_run else at_look(contest)).due():
        trials = trials or try_contestants(contest, compose=composer(contest.folders), n_parallel=n_parallel, gpus=gpus)
        show(costs(contest, trials, n_parallel=n_parallel, device=device))
    if not dry_run:
        seal(contest, sources, {key: data for trial in trials.values() for key, data in trial.data.items()})
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
        raise ConfigError(f"no contestant has {min(unread)}, so it cannot be searched: try python train.py --help")
    listed = [places(one.config["dataset"]).values() for one in made.values()]
    where = sorted({", ".join(place["path"] for place in files) for files in listed})
    if several := next((names for names in (datasets, where) if len(names) > 1), None):
        raise ConfigError(f"contestants are compared on one dataset, got {' and '.join(several)}: try one at a time")
    sealed = {"package": package_hash(), "contestants": {name: one.hashes for name, one in made.items()}}
    knobs = {name: one.knobs for name, one in made.items()}
    plan = _sized(plan, knobs, datasets[0], sealed)
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
        targets=tuple(sorted({target for one in made.values() for _, target in targets(one.config)})),
    )


def _sized(plan: Plan, knobs: Mapping[str, Sequence[Knob]], dataset: str, sealed: Mapping[str, Any]) -> Plan:
    """The plan with the budget that follows from the knobs, or that its hours became before; AUTO where only trials can
    tell."""
    if plan.budget:
        return plan
    if not any(knobs.values()):
        return replace(plan, budget=1, finalists=0)
    if not plan.hours:
        return replace(plan, budget=auto_budget(knobs))
    for file in sorted(BASE.glob(f"*/{PLAN}")):
        earlier = json.loads(file.read_text())["plan"]
        found = replace(plan, budget=earlier["budget"])
        if earlier.get("hours") == plan.hours and found.folder(dataset, found.digest(sealed)) == file.parent.name:
            return found
    return plan


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
        raise ConfigError(f"the evaluators are {names}, none gives {plan.metric}: try metric=knn_top1")
    reads = _settings_read(cfg)
    ranges = {key: typed for key, typed in plan.ranges.items() if key in reads} | own.ranges
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


def at_look(contest: Contest) -> Contest:
    """The contest as far as it has to go: to the first look whose runs are not done, or which decides every pair."""
    for n in planned_looks(contest.plan.rows):
        now = replace(contest, plan=contest.plan.at(n))
        if now.due() or is_decided(comparison_record(now)["comparison"]["judged"]):
            break
    return now


def run_until_decided(
    contest: Contest, launch: Launch, *, trials: Mapping[str, Trial] | None = None, n_parallel: int = 1
) -> Done:
    """Run look after look, until every pair is decided or nothing is due; see `run_all`."""
    while (now := at_look(contest)).due():
        if not_done := run_all(now, launch, trials=trials, n_parallel=n_parallel):
            return Done(now, not_done)
    return Done(now, [])


def run_all(
    contest: Contest, launch: Launch, *, trials: Mapping[str, Trial] | None = None, n_parallel: int = 1
) -> list[str]:
    """Run stage after stage until nothing is due. A run that was not done is tried again, three times in all.

    Args:
        trials: for the time that is left.
        n_parallel: runs at a time.

    Returns:
        a sentence for each run that is still not done.

    Raises:
        ConfigError: a run lacks the figure that is judged, or was trained on other data.
    """
    tried, reasons = Counter[Path](), dict[Run, str]()
    pace = 1.0  # how long runs take by the clock, in their trials' time
    while runs := [run for run in contest.due() if tried[run.path] < TRIES]:
        if all(tried[run.path] for run in runs):
            print(f"{counted(len(runs), 'run')} not done for a reason of the machine: trying again", flush=True)
            time.sleep(PAUSE)
        left = f"; about {clock(3600 * pace * hours(contest, trials) / n_parallel)} to go in all" if trials else ""
        stages = [stage for stage in ("search", "finalists", "final") if any(run.stage == stage for run in runs)]
        print(f"{' and '.join(stages)}: {counted(len(runs), 'run')}{race(contest)}{left}", flush=True)
        since = time.monotonic()
        reasons |= launch(runs)
        contest.clean()
        if trials:
            expected = 60 * sum(trials[run.row].minutes for run in runs) / n_parallel
            pace = (time.monotonic() - since) / max(expected, 1e-9)
        tried.update(run.path for run in runs)
    contest.check_data(read_sealed(contest.base).get("data", {}))
    return [f"not done: {run}: {reasons.get(run, 'it ended without a word')}" for run in contest.due()]


def race(contest: Contest) -> str:
    """The best search run of each contestant so far; empty before all have one."""
    best = {own.name: contest.best_so_far(own) for own in contest.plan.contestants}
    if WORST in best.values():
        return ""
    said = ", ".join(f"{name} {value:.1f}" for name, value in sorted(best.items(), key=lambda item: -item[1]))
    return f"; best on held-out images so far: {said}"


def announcement(contest: Contest) -> str:
    """What is compared, and what it can find, before anything runs."""
    plan = contest.plan
    searched, again = "nothing is searched, ", ""
    if plan.budget > 1:
        first = (
            f" ({plan.n_first} of them spread evenly, then {plan.batch} at a time)"
            if plan.n_first < plan.budget
            else ""
        )
        searched = f"{plan.budget} points{first}, {plan.finalists} finalists with two more seeds, "
        again = " and as many of the default settings"
    lines = [f"{' against '.join(own.name for own in plan.contestants)}, judged by {plan.metric}"]
    for name, own in contest.knobs.items():
        alone = ", ".join(f"{key}={value}" for key, value in contest.left_alone.get(name, {}).items())
        known = ", ".join(f"{knob.key} {knob.typed}" for knob in own) or "nothing to search"
        lines.append(f"  {name}: {known}{f'; not searched: {alone}' if alone else ''}")
    n_runs = sum(map(contest.n_runs, plan.contestants))
    lines.append(f"  {n_runs} runs: {searched}{plan.seeds} final seeds{again}, {counted(plan.searches, 'search')}")
    lines += [f"  runs in {as_typed(contest.base)}", *(f"  {text}" for text in other_comparisons(contest.base))]
    return "\n".join(lines)


def costs(contest: Contest, trials: Mapping[str, Trial], *, n_parallel: int, device: str) -> str:
    """What is left to run, by contestant and in all, from a trial of each."""
    lines = []
    for own in contest.plan.contestants:
        trial = trials[own.name]
        n_left = counted(contest.n_left(own), "run")
        lines.append(f"  {own.name}: {n_left} of {clock(60 * trial.minutes)}, memory {' '.join(trial.memory.split())}")
        if not trial.is_finite:
            lines.append(f"warning: the loss of {own.name} is not finite in its first steps")
    place = contest.base.absolute()
    free = shutil.disk_usage(next(folder for folder in (place, *place.parents) if folder.exists())).free
    left = sum(map(contest.n_left, contest.plan.contestants))
    needed = short_hours(hours(contest, trials) / n_parallel)
    written = disk(contest, trials, n_parallel=n_parallel) / 1e9
    lines.append(
        f"  {left} to go on {device}: {needed} hours, {n_parallel} at a time; {written:.2g} of "
        f"{free / 1e9:.0f} GB that are free on the disk"
    )
    n_images = next(iter(trials.values())).n_images
    if contest.plan.opponents:
        lines.append(f"  {power_text(contest.plan, n_images, accuracy_so_far(contest))}")
    return "\n".join(lines)


def accuracy_so_far(contest: Contest) -> float | None:
    """The mean of the metric over the finished runs, on test or held-out images; None before the first."""
    results = (read_result(file.parent) for file in contest.base.rglob("result.json"))
    figures = [{**result["val"], **result["test"]}.get(contest.plan.metric) for result in results if result is not None]
    known = [figure for figure in figures if figure is not None]
    return mean(known) if known else None


def conclude(contest: Contest) -> str:
    """Judge, write the pages, and say what came out."""
    record = comparison_record(contest)
    write_pages(record, contest.base)
    said = zip(sentences(record), record["comparison"]["judged"], strict=True)
    alone = [tuned_text(record)] if len(contest.plan.contestants) == 1 else []
    lines = ["", *(verdict_text(text, claim["verdict"]) for text, claim in said), *alone, "", *forest(record), ""]
    if any(claim["verdict"] == "failed" for claim in record["comparison"]["judged"]):
        lines.append("runs whose training broke down are not tried again: to try them, remove their failure.json")
    path = contest.base.with_name(f"{contest.base.name}.html")
    try:
        from contrastive.study.render.page import page  # late: only the page needs its packages

        write_text(path, page([record]))
        lines.append(f"page        {as_typed(path)}")
    except ConfigError as error:
        lines.append(f"no page was written: {error}")
    lines.append(f"table       {as_typed(contest.base)}.md, .csv, .tex and .json")
    return "\n".join(lines)


def verdict_text(sentence: str, verdict: str) -> str:
    """A sentence in the color of its verdict, on a terminal in lines that fit."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(sentence) + 1
    lines = textwrap.wrap(sentence, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return marked("\n".join(lines), {"better": "green", "worse": "red"}.get(verdict, "yellow"))
