"""The runs of a comparison: search, finalists, final. Which are due follows from what lies on the disk."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean

from contrastive.config.identity import key_of
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.run.files import read_result
from contrastive.study.compare.plan import Contestant, Plan, folder_name
from contrastive.study.compare.space import Knob, points
from contrastive.study.spec import merge_overrides

FAILED = "failed.json"  # {run: why}, of runs whose settings or training are why
SEEDS_OF_A_SEARCH, SEEDS_OF_A_SALT, FIRST_FINAL = 1000, 1_000_000, 100
WORST = float("-inf")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of a comparison."""

    overrides: tuple[str, ...]
    path: Path
    stage: str
    name: str

    @property
    def log(self) -> Path:
        return self.path.with_name(f"{self.path.name}.log")

    def __str__(self) -> str:
        return f"{self.stage}, {self.name}"


@dataclass(frozen=True, kw_only=True)
class Tried:
    """A point of a search: its settings, and what its runs were worth on the held-out images, the first seed first."""

    point: dict[str, str]
    values: list[float]

    @property
    def value(self) -> float:
        """The mean; a run that failed makes it the worst."""
        return mean(self.values) if WORST not in self.values else WORST


@dataclass(frozen=True, kw_only=True)
class Contest:
    """A plan with the knobs of its contestants, and the folder of its runs.

    Attributes:
        knobs: of each contestant, by name.
        dataset: that all contestants train on, its option.
        on_the_way: words that search runs get besides, such as evaluators that wait for the end.
    """

    plan: Plan
    knobs: Mapping[str, Sequence[Knob]]
    base: Path
    dataset: str = "digits"
    on_the_way: tuple[str, ...] = ()

    @cached_property
    def failures(self) -> dict[str, str]:
        """{run: why} of runs that are not tried again."""
        file = self.base / FAILED
        content: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
        return content

    def fail(self, run: Run, reason: str) -> None:
        """Remember that the settings of a run, or its training, do not work: it is not tried again."""
        self.failures[str(run.path.relative_to(self.base))] = reason
        write_text(self.base / FAILED, json.dumps(self.failures, indent=1))

    def has_failed(self, run: Run) -> bool:
        return str(run.path.relative_to(self.base)) in self.failures and read_result(run.path) is None

    def due(self) -> list[Run]:
        """The runs that can begin now; none when the plan is done."""
        waiting = (run for search in range(self.plan.searches) for own in self.plan.contestants
                   for run in self._runs(own, search))  # fmt: skip
        # once: where the default settings were chosen, they are final runs and those of the default
        return [run for run in dict.fromkeys(waiting) if not self.has_failed(run) and read_result(run.path) is None]

    def _runs(self, own: Contestant, search: int) -> Iterator[Run]:
        """The runs of a contestant in one search, as far as they are known."""
        yield from self.first_stage(own, search)
        tried = self.tried(own, search)
        if tried is None:
            return
        for finalist in self.finalists(tried):
            yield from self.second_stage(own, search, tried, finalist)
        if (chosen := self.chosen(own, search)) is not None:
            yield from self.final(own, search, chosen)
        if search == 0:
            yield from self.final(own, search, {})

    def points(self, own: Contestant, search: int) -> list[dict[str, str]]:
        """The points of a search, the default settings first; none where they are the only one. Methods of one salt
        share them."""
        if self.plan.budget == 1:
            return []
        drawn = points(self.knobs[own.name], self.plan.budget, draw=search + SEEDS_OF_A_SEARCH * own.salt)
        return [point for i, point in enumerate(drawn) if i == 0 or point]  # nothing to search: the default alone

    def first_stage(self, own: Contestant, search: int) -> list[Run]:
        """A run for each point."""
        return [self._searched(own, search, i, point, 0) for i, point in enumerate(self.points(own, search))]

    def second_stage(self, own: Contestant, search: int, tried: Sequence[Tried], finalist: int) -> list[Run]:
        """Two more seeds of a finalist."""
        return [self._searched(own, search, finalist, tried[finalist].point, extra) for extra in (1, 2)]

    def tried(self, own: Contestant, search: int) -> list[Tried] | None:
        """Every point with its first run, and further runs where they are done; None while one is missing."""
        found = []
        for i, point in enumerate(self.points(own, search)):
            values = [self._value(self._searched(own, search, i, point, extra)) for extra in (0, 1, 2)]
            if values[0] is None:
                return None
            found.append(Tried(point=point, values=[value for value in values if value is not None]))
        return found

    def finalists(self, tried: Sequence[Tried]) -> list[int]:
        """The best points by their first run; none that failed."""
        order = sorted(range(len(tried)), key=lambda i: -tried[i].values[0])
        return [i for i in order if tried[i].values[0] > WORST][: self.plan.finalists]

    def chosen(self, own: Contestant, search: int) -> dict[str, str] | None:
        """The point that goes into the final; None while the search runs, or where every point failed."""
        if self.plan.budget == 1:
            return {}
        tried = self.tried(own, search)
        if tried is None:
            return None
        if self.plan.finalists:
            last = [tried[i] for i in self.finalists(tried)]
            if any(len(finalist.values) < 3 for finalist in last):
                return None
            return max(last, key=lambda finalist: finalist.value).point if last else None
        best = max(tried, key=lambda point: point.values[0])
        return best.point if best.values[0] > WORST else None

    def final(self, own: Contestant, search: int, point: Mapping[str, str]) -> list[Run]:
        """The runs that are judged, with fresh seeds on all training images."""
        folder = self._folder(own, search) / ("final" if point else "default")
        words = self._words(own, point)
        first = _first_seed(own, search) + FIRST_FINAL
        as_it_comes = "" if point or self.plan.budget == 1 else " as it comes"
        return [
            Run(overrides=(*words, f"seed={seed}"), path=folder / f"seed={seed}", stage="final",
                name=f"{own.name}{_search_text(self.plan, search)}{as_it_comes}, seed {seed}")
            for seed in range(first, first + self.plan.seeds)
        ]  # fmt: skip

    def _searched(self, own: Contestant, search: int, i: int, point: Mapping[str, str], extra: int) -> Run:
        seed = _first_seed(own, search) + extra
        evaluator = self.plan.evaluator
        words = merge_overrides(
            [word for word in self._words(own, point) if not _is_other_evaluator(key_of(word), evaluator)],
            [f"evaluator=[{evaluator}]", *self.on_the_way, "tracker=[]", f"held_out={search}", f"seed={seed}"],
        )
        stage = "finalists" if extra else "search"
        name = f"{own.name}{_search_text(self.plan, search)}, point {i + 1}{f', seed {seed}' if extra else ''}"
        path = self._folder(own, search) / f"point={i + 1:02}" / f"seed={seed}"
        return Run(overrides=words, path=path, stage=stage, name=name)

    def _words(self, own: Contestant, point: Mapping[str, str]) -> tuple[str, ...]:
        return merge_overrides(self.plan.common, own.fixed, [f"{key}={value}" for key, value in point.items()])

    def _folder(self, own: Contestant, search: int) -> Path:
        return self.base / f"search={search + 1}" / folder_name(own.name)

    def _value(self, run: Run) -> float | None:
        """What a run is worth on its held-out images; None where it is not done."""
        if self.has_failed(run):
            return WORST
        result = read_result(run.path)
        if result is None:
            return None
        return figure(result["val"], self.plan.metric)


def figure(figures: Mapping[str, float], metric: str) -> float:
    """One of the figures of a run.

    Raises:
        ConfigError: the run has no such figure.
    """
    if metric not in figures:
        raise ConfigError(f"runs have no {metric}, they have {', '.join(figures) or 'none'}: try another metric")
    return float(figures[metric])


def search_of(seed: int) -> int:
    """The search that a final seed belongs to, counted from 0."""
    return seed % SEEDS_OF_A_SALT // SEEDS_OF_A_SEARCH - 1


def _first_seed(own: Contestant, search: int) -> int:
    return SEEDS_OF_A_SALT * own.salt + SEEDS_OF_A_SEARCH * (search + 1)


def _is_other_evaluator(key: str, evaluator: str) -> bool:
    """Whether a setting is the list of evaluators, or belongs to another one than this."""
    return key.partition(".")[0] == "evaluator" and not key.startswith(f"evaluator.{evaluator}.")


def _search_text(plan: Plan, search: int) -> str:
    return f", search {search + 1}" if plan.searches > 1 else ""
