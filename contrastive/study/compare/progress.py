"""What a comparison says on the terminal: before it runs, while it does, and at its end, when it writes its pages."""

import hashlib
import json
import shutil
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from contrastive.config.identity import key_of
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.run.files import read_result
from contrastive.run.run import Run
from contrastive.study.compare.check import faults
from contrastive.study.compare.contest import Contest, n_left
from contrastive.study.compare.judge import planned_difference
from contrastive.study.compare.outcome import comparison_record, number_of_looks, over_datasets
from contrastive.study.compare.plan import Plan, folder_name, typed
from contrastive.study.compare.search import described
from contrastive.study.compare.trial import Trial, hours
from contrastive.study.jobs import print_end
from contrastive.study.render.effects import alone_right, claims_of, forest
from contrastive.study.render.files import write_pages
from contrastive.study.render.page import page, search_page
from contrastive.study.render.sentences import sentences, tuned_text
from contrastive.text import as_typed, clock, counted, marked, printable


def announcement(contest: Contest) -> str:
    """What is compared, and what it can find, before anything runs."""
    plan = contest.plan
    names = " against ".join(own.name for own in plan.contestants)
    lines = [f"{names} on {contest.dataset}, judged by {plan.metric}"]
    for own in contest.methods if plan.budget > 1 else ():
        alone = ", ".join(typed(own.left_alone))
        known = ", ".join(f"{knob.key} {knob.typed}" for knob in own.knobs) or "nothing to search"
        lines.append(f"  {own.name}: {known}{f'; not searched: {alone}' if alone else ''}")
    what = f"nothing is searched, {plan.seeds} final seeds"
    if plan.budget > 1:
        again = f"{plan.seeds} final seeds and as many of the default settings"
        what = f"{described(plan.budget)}, {again}, {counted(plan.searches, 'search')}"
    n_runs = sum(map(contest.n_runs, contest.methods))
    return "\n".join([*lines, f"  {n_runs} runs at most: {what}", f"  runs in {as_typed(contest.base)}"])


def costs(contest: Contest, trials: Mapping[str, Trial], *, n_parallel: int, device: str) -> str:
    """What is left to run, by contestant and in all, from a trial of each."""
    lines, left = [], 0
    for own in contest.methods:
        trial, n = trials[own.name], n_left(contest, own)
        left += n
        memory = " ".join(trial.memory.split())
        lines.append(f"  {own.name}: {counted(n, 'run')} of {clock(60 * trial.minutes)}, memory {memory}")
        if not trial.is_finite:
            lines.append(f"warning: the loss of {own.name} is not finite in its first steps")
    needed = clock(3600 * hours(contest, trials) / n_parallel)
    lines.append(f"  {left} to go at most on {device}: {needed}, {n_parallel} at a time")
    if contest.plan.opponents:
        looks = number_of_looks(contest.base, contest.plan, keep=False)
        n_images = next(iter(trials.values())).n_images
        lines.append(f"  {power_text(replace(contest.plan, looks=looks), n_images, accuracy_so_far(contest))}")
    return "\n".join(lines)


def power_text(plan: Plan, n_images: int, accuracy: float | None) -> str:
    """What a plan can find, and what that rests on.

    Args:
        accuracy: about that of the runs so far; None = none is done.
    """
    about = "these settings" if plan.budget == 1 else "methods"
    at = "50 % accuracy, until a run tells" if accuracy is None else f"{accuracy:.0f} % accuracy"
    points = planned_difference(plan, n_images, 50.0 if accuracy is None else accuracy)
    return (
        f"detects a difference of {points:.1f} points between {about} with 80 % power ({n_images:,} test images, "
        f"{at}, the spread of our records)"
    )


def accuracy_so_far(contest: Contest) -> float | None:
    """The mean of the metric over the finished runs, on test or held-out images; None before the first."""
    results = (read_result(file.parent) for file in contest.base.rglob("result.json"))
    figures = [{**result["val"], **result["test"]}.get(contest.plan.metric) for result in results if result is not None]
    known = [figure for figure in figures if figure is not None]
    return mean(known) if known else None


class Lines:
    """A line for each stage and each run that ends; on a terminal one that is rewritten, and one for each failure.

    Args:
        trials: for the time that is left; {} = it is not told, and no page is written.
        n_parallel: runs at a time.
        is_live: whether standard output is a terminal that nothing else writes to.
    """

    def __init__(
        self, contest: Contest, *, trials: Mapping[str, Trial] | None = None, n_parallel: int = 1, is_live: bool = False
    ) -> None:
        self.contest, self.is_live = contest, is_live
        self.trials, self.n_parallel = trials or {}, n_parallel
        self.stage, self.until, self.has_page = "", 0.0, False
        self.since, self.expected = time.monotonic(), 0.0  # of the runs that began last, in seconds

    def begin(self, runs: Sequence[Run]) -> None:
        """Say what is run next, and how long all takes at the pace of the runs before."""
        now = time.monotonic()
        stages = [stage for stage in ("search", "finalists", "final") if any(run.stage == stage for run in runs)]
        self.stage = f"{' and '.join(stages)}: {counted(len(runs), 'run')}"
        if self.trials:
            pace = (now - self.since) / self.expected if self.expected else 1.0
            self.until = now + 3600 * pace * hours(self.contest, self.trials) / self.n_parallel
            self.expected = 60 * sum(self.trials[run.row].minutes for run in runs) / self.n_parallel
        self.since = now
        self._write("")
        self._say("")

    def end(self, count: int, n: int, run: Run, failure: object) -> None:
        """Say that a run ended, as `print_end` does."""
        if failure is not None or not self.is_live:
            self.clear()
            print_end(count, n, run, failure)
        if self.is_live:
            self._say(f", {count} done")
        if count == n:
            self._write(f", {count} done")

    def clear(self) -> None:
        """Take the line away."""
        if self.is_live:
            print("\r\x1b[2K", end="", flush=True)

    def _said(self, done: str) -> str:
        left = max(0.0, self.until - time.monotonic()) if self.until else None
        return f"{self.stage}{done}" + ("" if left is None else f"; about {clock(left)} to go in all")

    def _write(self, done: str) -> None:
        """Write the page of the search where that of the verdict will be, and say once where; none without what draws
        it."""
        if self.contest.plan.budget == 1 or not self.trials:
            return
        path = page_of(self.contest.base)
        try:
            write_text(path, search_page(self.contest, self._said(done)))
        except ConfigError:
            return
        if not self.has_page:
            print(f"  best so far in {as_typed(path)}", flush=True)
        self.has_page = True

    def _say(self, done: str) -> None:
        text = printable(self._said(done))
        self.clear()
        if self.is_live:
            print(text[: shutil.get_terminal_size().columns - 1], end="", flush=True)
        else:
            print(text, flush=True)


def base_of(contests: Sequence[Contest]) -> Path:
    """The folder of a comparison on one data set; of one over several there are only pages beside it."""
    first = contests[0]
    if len(contests) == 1:
        return first.base
    common = [word for word in first.plan.common if key_of(word) != "dataset"]
    code = {key: value for key, value in first.made_of.items() if key != "contestants"}
    made_of = [first.plan.contestants, common, first.plan.ranges, first.plan.budget, code]
    digest = hashlib.sha256(repr(made_of).encode()).hexdigest()[:8]
    names = "+".join(own.name for own in first.plan.contestants)
    return first.base.with_name(f"{folder_name(f'datasets-{names}')[:80]}-{digest}-{first.plan.metric}")


def answer(contests: Sequence[Contest]) -> str:
    """What came out: on one data set, or on each of several and over all."""
    said = [conclude(contest) for contest in contests]
    if len(contests) == 1:
        return said[0]
    each = [f"\n{contest.dataset}:{text}" for contest, text in zip(contests, said, strict=True)]
    parts = {one.dataset: json.loads(one.base.with_name(f"{one.base.name}.json").read_text()) for one in contests}
    record = over_datasets(parts, base_of(contests))
    return "\n".join([*each, "", *_verdicts(record), "", *_pages(record, base_of(contests))])


def conclude(contest: Contest) -> str:
    """Judge a comparison on one data set, write its pages, and say what came out."""
    record = comparison_record(contest)
    if said := faults(record):
        instead = f"try the same command without these runs in {as_typed(contest.base)}"
        raise ConfigError(f"there is no verdict, {'; '.join(said)}: {instead}")
    alone = [tuned_text(record)] if len(contest.methods) == 1 else []
    images = map(_wrapped, alone_right(record))
    picture = ["", *drawn] if (drawn := forest(record)) else []
    lines = ["", *_verdicts(record), *alone, *images, *picture, ""]
    if any(claim["verdict"] == "failed" for claim in claims_of(record)):
        lines.append("runs whose training broke down are not tried again: to try them, remove their failure.json")
    return "\n".join([*lines, *_pages(record, contest.base)])


def page_of(base: Path) -> Path:
    """Where the page of a comparison is: while it runs that of its search, at the end that of its verdict."""
    return base.with_name(f"{base.name}.html")


def _verdicts(record: Mapping[str, Any]) -> list[str]:
    """Each sentence in the color of its verdict."""
    colors = {"better": "green", "worse": "red"}
    said = zip(sentences(record), claims_of(record), strict=True)
    return [marked(_wrapped(text), colors.get(claim["verdict"], "yellow")) for text, claim in said]


def _pages(record: dict[str, Any], base: Path) -> list[str]:
    """Write the pages, and say where they are."""
    write_pages(record, base)
    path = page_of(base)
    sheet = "-effects.csv" if claims_of(record) else ".csv"
    table = f"table       {as_typed(base)}.md{'' if 'datasets' in record else f', {sheet}, .tex'} and .json"
    try:
        write_text(path, page(record))
    except ConfigError as error:
        return [f"no page was written: {error}", table]
    return [f"page        {as_typed(path)}", table]


def _wrapped(sentence: str) -> str:
    """On a terminal in lines that fit."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else len(sentence) + 1
    lines = textwrap.wrap(sentence, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)
