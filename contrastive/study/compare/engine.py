"""A comparison from its plan to its page. A function runs its runs: processes of this machine, or a launcher."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from contrastive.config.compose import importable, search_path
from contrastive.config.identity import flatten, identity, key_of
from contrastive.config.paths import CONFIGS
from contrastive.config.settings import SHARED_KEYS, Settings, checked_settings
from contrastive.distributed.cores import gpus_for
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.run.files import read_result
from contrastive.run.provenance import module_hashes
from contrastive.study.compare.judge import power_text
from contrastive.study.compare.outcome import comparison_record
from contrastive.study.compare.plan import METHOD_SEARCHES, Plan, read_plan
from contrastive.study.compare.space import knobs_of
from contrastive.study.compare.stages import FAILED, Contest, Run
from contrastive.study.jobs import composer, default_jobs, minutes_of, run_jobs, short_hours, this_device
from contrastive.study.render.comparison import sentences
from contrastive.study.render.files import write_pages
from contrastive.text import as_typed, clock, counted, marked, show

BASE = Path("outputs") / "compare"
# Runs what is due. Those that the settings or the training make impossible it tells the contest; returns a sentence for
# each that failed otherwise, such as one that was killed.
Launch = Callable[[Sequence[Run]], list[str]]


class Done(NamedTuple):
    """A contest whose runs are over, and a sentence for each that failed for a reason that is not its own."""

    contest: Contest
    crashed: list[str]


def run_comparison(
    words: Sequence[str], *, folders: Sequence[Path] = (), n_jobs: int = -1, dry_run: bool = False
) -> Done:
    """Run a comparison in processes of this machine.

    Args:
        words: KEY=VALUE, see `read_plan`.
        folders: of options and modules of one's own.
        n_jobs: runs at a time; -1 = one on each GPU or core.
        dry_run: say what it would take, and stop.
    """
    plan = read_plan(words)
    with initialize_config_dir(str(CONFIGS), version_base="1.3"), importable([Path.cwd(), *folders]):
        contest = contest_of(plan, folders)
        on_cpu, device = this_device(list(plan.common))
        gpus = gpus_for(list(plan.common))
        n_parallel = max(n_jobs, 0) or default_jobs(gpus, on_cpu)
        show(announcement(contest, folders, n_parallel=n_parallel, device=device))
        if dry_run:
            return Done(contest, [])
        composed = composer(folders)

        def launch(runs: Sequence[Run]) -> list[str]:
            failed = run_jobs(runs, compose=composed, folders=folders, n_parallel=n_parallel, gpus=gpus)
            for one in failed:
                if one.is_refused:
                    contest.fail(one.job, one.reason)
            return [f"failed: {one.job}: {one.reason}" for one in failed if not one.is_refused]

        return Done(contest, run_all(contest, launch, n_parallel=n_parallel))


def contest_of(plan: Plan, folders: Sequence[Path] = (), base: Path | None = None) -> Contest:
    """The contest of a plan, each contestant composed and checked and its knobs read; Hydra must be initialized.

    Args:
        folders: of options of one's own.
        base: of its runs; None = outputs/compare/NAME.

    Raises:
        ConfigError: a contestant cannot be composed, no contestant has what is to be searched, they have several
            datasets, or no evaluator gives the metric.
    """
    knobs, made_of = {}, {}
    on_the_way, datasets, unread = set[str](), set[str](), {*plan.ranges}
    for own in plan.contestants:
        words = [*plan.common, *own.fixed]
        cfg = compose("train", [*words, *search_path(folders)], return_hydra_config=True)
        choices = {group: str(choice) for group, choice in cfg.hydra.runtime.choices.items()}
        OmegaConf.set_struct(cfg, False)
        del cfg["hydra"]
        settings = checked_settings(cfg, words)
        reads = _settings_read(cfg)
        ranges = {key: typed for key, typed in plan.ranges.items() if key in reads} | own.ranges
        unread -= ranges.keys()
        fixed = {key_of(word) for word in words} - ranges.keys()
        known = knobs_of(choices, reads, ranges, folders)
        knobs[own.name] = [knob for knob in known if knob.key not in fixed]
        trial = [f"{knob.key}={knob.at(0.5)}" for knob in knobs[own.name]]
        compose("train", [*words, *trial, *search_path(folders)])  # a range of no setting is said at once
        config = settings.to_dict()
        searched = {knob.key: knob.typed for knob in knobs[own.name]}
        made_of[own.name] = [identity(config), module_hashes(config), searched]
        datasets.add(choices["dataset"])
        if plan.evaluator not in settings.evaluator:
            names = ", ".join(settings.evaluator)
            raise ConfigError(f"the evaluators are {names}, none gives {plan.metric}: try metric=knn_top1")
        if "every" in settings.evaluator[plan.evaluator]:
            on_the_way.add(f"evaluator.{plan.evaluator}.every=0")
    if unread:
        raise ConfigError(f"no contestant has {min(unread)}, so it cannot be searched: try python train.py --help")
    if len(datasets) > 1:
        raise ConfigError(
            f"contestants are compared on one dataset, got {' and '.join(sorted(datasets))}: try one at a time"
        )
    (dataset,) = datasets
    base = base or BASE / plan.folder(dataset, made_of)
    return Contest(plan=plan, knobs=knobs, base=base, dataset=dataset, on_the_way=tuple(sorted(on_the_way)))


def _settings_read(cfg: DictConfig) -> list[str]:
    """The settings that a configuration has; of those that components share only what one of them reads."""
    written: Any = OmegaConf.to_container(cfg, resolve=False)
    text = repr([value for value in written.values() if isinstance(value, dict)])
    return [key for key in flatten(written) if key not in SHARED_KEYS or f"${{{key}}}" in text]


def run_all(contest: Contest, launch: Launch, *, n_parallel: int = 1) -> list[str]:
    """Run stage after stage until nothing is due; returns a sentence for each run that may be tried again.

    Args:
        n_parallel: runs at a time, for the time that is left.
    """
    crashed: list[str] = []
    tried = set[Path]()
    while runs := [run for run in contest.due() if run.path not in tried]:
        stages = [stage for stage in ("search", "finalists", "final") if any(run.stage == stage for run in runs)]
        done = minutes_done(contest)
        left = contest.plan.n_runs - len(done)
        ends = f"; about {clock(60 * mean(done) * left / n_parallel)} to go in all" if done else ""
        print(f"{' and '.join(stages)}: {counted(len(runs), 'run')}{ends}", flush=True)
        crashed += launch(runs)
        tried |= {run.path for run in runs}
    return crashed


def announcement(contest: Contest, folders: Sequence[Path], *, n_parallel: int, device: str) -> str:
    """What a comparison takes and what it can find, before anything runs."""
    plan = contest.plan
    due = contest.due()
    all_runs = plan.n_runs
    searched, again = "nothing is searched, ", ""
    if plan.budget > 1:
        searched = f"{plan.budget} points, {plan.finalists} finalists with two more seeds, "
        again = " and as many of the default settings"
    lines = [
        f"{' against '.join(own.name for own in plan.contestants)}, judged by {plan.metric}",
        *(f"  {name}: {', '.join(f'{knob.key} {knob.typed}' for knob in own) or 'nothing to search'}"
          for name, own in contest.knobs.items()),
        f"  {all_runs} runs: {searched}{plan.seeds} final seeds{again}, {counted(plan.searches, 'search')}",
    ]  # fmt: skip
    done = minutes_done(contest)
    if due:
        first, n_images = _first_run(contest.final(plan.contestants[0], 0, {})[0], folders)
        minutes = mean(done) if done else first
        left = all_runs - len(done)
        place = contest.base.absolute()
        free = shutil.disk_usage(next(folder for folder in (place, *place.parents) if folder.exists())).free
        lines.append(
            f"  {left} to go, {minutes:.1f} minutes each on {device}: {short_hours(left * minutes / 60 / n_parallel)} "
            f"hours, {n_parallel} at a time; {free / 1e9:.0f} GB of disk are free"
        )
        lines.append(f"  {power_text(plan, n_images, accuracy_so_far(contest))}")
    if 1 < plan.searches < METHOD_SEARCHES:
        lines.append(f"warning: {plan.searches} searches give wide intervals that cover 92 %: try searches=5 or 8")
    lines.append(f"  runs in {as_typed(contest.base)}")
    return "\n".join(lines)


def minutes_done(contest: Contest) -> list[float]:
    """How long each finished run of a comparison took."""
    return [minutes_of(result) for result in _results(contest)]


def accuracy_so_far(contest: Contest) -> float | None:
    """The mean of the metric over the finished runs, on test or held-out images; None before the first."""
    figures = [{**result["val"], **result["test"]}.get(contest.plan.metric) for result in _results(contest)]
    known = [figure for figure in figures if figure is not None]
    return mean(known) if known else None


def _results(contest: Contest) -> Iterator[dict[str, Any]]:
    results = (read_result(file.parent) for file in contest.base.rglob("result.json"))
    return (result for result in results if result is not None)


def _first_run(run: Run, folders: Sequence[Path]) -> tuple[float, int]:
    """How many minutes a run takes, from a few of its steps, and the number of test images."""
    from contrastive.experiment.build import build  # late: importing torch takes seconds
    from contrastive.experiment.dry_run import estimate

    experiment = build(Settings.from_config(compose("train", [*run.overrides, *search_path(folders)])))
    return estimate(experiment).seconds / 60, len(experiment.data.test)


def conclude(contest: Contest) -> str:
    """Judge, write the pages, and say what came out."""
    record = comparison_record(contest)
    write_pages(record, contest.base)
    said = zip(sentences(record), record["comparison"]["judged"], strict=True)
    lines = ["", *(verdict_text(text, claim["verdict"]) for text, claim in said), ""]
    if any(claim["verdict"] == "failed" for claim in record["comparison"]["judged"]):
        lines.append(f"runs that failed are not tried again: to try them, rm {as_typed(contest.base / FAILED)}")
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
