"""The runs of a comparison: their words, seeds and folders. Which are due follows from what lies on the disk."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.config.identity import key_of
from contrastive.errors import ConfigError
from contrastive.files import read_json, write_text
from contrastive.run.files import LAST, read_failure, read_result
from contrastive.run.run import Run
from contrastive.study.compare.plan import Plan, first_seed, folder_name, typed
from contrastive.study.compare.search import FINALISTS, Tried, best, finalists, first_points, n_points, next_points
from contrastive.study.compare.space import Knob
from contrastive.study.jobs import merge_overrides

CHECKPOINTS = Path(LAST).parent  # of a run
FAILED = float("-inf")  # what a run is worth whose training broke down
POINTS = "points.json"  # of a search of a contestant that went on: all its points so far
Point = dict[str, str]  # {setting: what is typed}; none = the default settings


@dataclass(frozen=True, kw_only=True)
class Method:
    """A contestant as it is composed.

    Attributes:
        words: its own, beside those of the plan that all share.
        knobs: that it is searched over.
        defaults: what these are as it comes.
        left_alone: numbers of its loss that are not searched, {setting: value}.
        made_of: hashes of all that its runs depend on: configuration, modules and ranges.
    """

    name: str
    words: tuple[str, ...]
    knobs: Sequence[Knob] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    left_alone: Mapping[str, Any] = field(default_factory=dict)
    made_of: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Contest:
    """A plan with its contestants composed, and the folder of its runs.

    Attributes:
        dataset: that all contestants train on, its option.
        waits: whether search runs are told to evaluate at their end alone.
        folders: of options and modules of one's own.
        made_of: hashes of all that its runs depend on: of the package, of `folders` and of each contestant.
    """

    plan: Plan
    methods: Sequence[Method]
    base: Path
    dataset: str = "digits"
    waits: bool = False
    folders: tuple[Path, ...] = ()
    made_of: Mapping[str, Any] = field(default_factory=dict)

    def searched(self, own: Method, search: int, i: int, point: Point) -> list[Run]:
        """The run of point i of a search on the images that are held out, and the two more that it has as a
        finalist."""
        evaluator, place = self.plan.evaluator, self.folder(own, search) / f"point={i + 1:02}"
        kept = [word for word in self.words(own, point) if not _is_left_out(key_of(word), evaluator)]
        at_the_end = [f"evaluator.{evaluator}.every=0"] if self.waits else []
        chosen = [f"evaluator=[{evaluator}]", *at_the_end, "tracker=[]", f"held_out={search}"]
        name = f"{own.name}{self._of(search)}, point {i + 1}"
        first = first_seed(search)
        return [
            Run(overrides=merge_overrides(kept, [*chosen, f"seed={seed}"]), path=place / f"seed={seed}",
                stage="search" if seed == first else "finalists", row=own.name,
                name=name if seed == first else f"{name}, seed {seed}")
            for seed in (first, first + 1, first + 2)
        ]  # fmt: skip

    def final(self, own: Method, search: int, point: Point) -> list[Run]:
        """The runs that are judged, with fresh seeds on all training images."""
        place, words = self.folder(own, search) / ("final" if point else "default"), self.words(own, point)
        as_it_comes = "" if point or self.plan.budget == 1 else " as it comes"
        return [
            Run(overrides=(*words, f"seed={seed}"), path=place / f"seed={seed}", stage="final", row=own.name,
                name=f"{own.name}{self._of(search)}{as_it_comes}, seed {seed}")
            for seed in self.plan.final_seeds(search)
        ]  # fmt: skip

    def n_runs(self, own: Method) -> int:
        """Runs of a contestant in the whole plan; a few less where a search chooses the default settings."""
        n = n_points(own.knobs, self.plan.budget)
        of_a_search = n + 2 * min(FINALISTS, n) if self.plan.budget > 1 else 0
        defaults = own.name in self.plan.as_they_come
        return self.plan.searches * (of_a_search + self.plan.seeds) + self.plan.seeds * defaults

    def words(self, own: Method, point: Point) -> tuple[str, ...]:
        """The words of a contestant at a point."""
        return merge_overrides(self.plan.common, own.words, typed(point))

    def folder(self, own: Method, search: int) -> Path:
        """That of a contestant's runs in one search."""
        return self.base / f"search={search + 1}" / folder_name(own.name)

    def _of(self, search: int) -> str:
        return f", search {search + 1}" if self.plan.searches > 1 else ""


class Searched(NamedTuple):
    """How far a search of a contestant has come: its points, what those that were tried are worth, the places of the
    finalists as soon as all were, and the point that goes into the final; None before, and where every point failed."""

    points: list[Point]
    tried: list[Tried]
    last: list[int]
    chosen: Point | None
    is_over: bool


def searched(contest: Contest, own: Method, search: int) -> Searched:
    """A search as it lies on the disk."""
    budget = contest.plan.budget
    if budget == 1:
        return Searched([], [], [], {}, True)
    file = contest.folder(own, search) / POINTS
    points = read_json(file, list[Point]) if file.exists() else first_points(own.knobs, budget, draw=search)
    runs = [contest.searched(own, search, i, point) for i, point in enumerate(points)]
    firsts = [value_of(of_point[0], contest.plan.metric) for of_point in runs]
    tried = [Tried(point or own.defaults, [value]) for point, value in zip(points, firsts, strict=True)
             if value is not None]  # fmt: skip
    if len(tried) < n_points(own.knobs, budget):
        return Searched(points, tried, [], None, False)
    last = finalists(own.knobs, budget, tried)
    for i in last:
        more = [value_of(run, contest.plan.metric) for run in runs[i][1:]]
        tried[i] = Tried(tried[i].settings, [*tried[i].values, *(value for value in more if value is not None)])
    is_over = all(len(tried[i].values) == len(runs[i]) for i in last)
    chosen = points[last[best([tried[i] for i in last])]] if is_over and last else None
    return Searched(points, tried, last, chosen, is_over)


def runs_of_search(contest: Contest, own: Method, search: int) -> list[Run]:
    """The runs of a contestant in one search, as far as they are known."""
    state = searched(contest, own, search)
    runs = [contest.searched(own, search, i, point) for i, point in enumerate(state.points)]
    found = [of_point[0] for of_point in runs] + [run for i in state.last for run in runs[i][1:]]
    if state.chosen is not None:
        found += contest.final(own, search, state.chosen)
    if search == 0 and own.name in contest.plan.as_they_come and (state.last or state.is_over):
        found += contest.final(own, 0, {})
    # once: where the default settings were chosen, they are also those of the default
    return list(dict.fromkeys(found))


def known_runs(contest: Contest, own: Method) -> list[Run]:
    """The runs of a contestant, as far as its searches have come."""
    return [run for search in range(contest.plan.searches) for run in runs_of_search(contest, own, search)]


def due(contest: Contest) -> list[Run]:
    """The runs that can begin now; none when the plan is done. Points that are proposed are written down first: a run
    is of the point that is written, whatever another version of a library would propose.

    Raises:
        ConfigError: a finished run lacks the figure that is judged.
    """
    plan, found = contest.plan, list[Run]()
    for search in range(plan.searches):
        for own in contest.methods:
            state = searched(contest, own, search)
            all_tried = len(state.tried) == len(state.points) > 0
            if all_tried and (new := next_points(own.knobs, plan.budget, state.tried, draw=search)):
                write_text(contest.folder(own, search) / POINTS, json.dumps([*state.points, *new], indent=1))
            found += [run for run in runs_of_search(contest, own, search) if value_of(run, plan.metric) is None]
    return found


def n_left(contest: Contest, own: Method) -> int:
    """Runs of a contestant that are neither done nor broken."""
    done = sum(value_of(run, contest.plan.metric) is not None for run in known_runs(contest, own))
    return max(0, contest.n_runs(own) - done)


def remove_checkpoints(contest: Contest) -> None:
    """Those of search runs that are done: nothing goes on from them, and their weights stay."""
    for run in (run for own in contest.methods for run in known_runs(contest, own)):
        folder = run.path / CHECKPOINTS
        if run.stage != "final" and folder.exists() and value_of(run, contest.plan.metric) is not None:
            shutil.rmtree(folder)


def value_of(run: Run, metric: str) -> float | None:
    """What a run is worth on its held-out images, a final run on the test split; None where it is not done.

    Raises:
        ConfigError: it has no such figure.
    """
    result = read_result(run.path)
    if result is None:
        return None if read_failure(run.path) is None else FAILED
    figures = result["test" if run.stage == "final" else "val"]
    if metric not in figures:
        raise ConfigError(f"{run} has no {metric}, it has {', '.join(figures) or 'none'}: try another metric")
    return float(figures[metric])


def _is_left_out(key: str, evaluator: str) -> bool:
    """Whether a search run has no use for a setting: of a tracker, the list of evaluators, or of another one."""
    group = key.partition(".")[0]
    return group == "tracker" or (group == "evaluator" and not key.startswith(f"evaluator.{evaluator}."))
