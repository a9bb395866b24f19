"""The runs of a comparison: search, finalists, final. Which are due follows from what lies on the disk."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from contrastive.config.identity import flatten, is_identity, key_of
from contrastive.distributed.processor import pair_of
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.run.files import LAST, read_failure, read_result
from contrastive.run.run import Run, read_run, replaced_sources
from contrastive.schema import read_json
from contrastive.study.compare.plan import BATCH, Contestant, Plan, folder_name
from contrastive.study.compare.propose import proposals, smoothed
from contrastive.study.compare.space import Knob, points
from contrastive.study.spec import merge_overrides
from contrastive.text import as_typed

# A seed tells its place: (search + 1) · 1000 + 0, 1, 2 for the search and its finalists, + 100, 101, ...
# for the final runs. So no final run repeats a seed that chose the settings, nor one of another search (up to 900).
SEEDS_OF_A_SEARCH, FIRST_FINAL = 1000, 100
CHECKPOINTS = Path(LAST).parent  # of a run
WORST = float("-inf")
PROPOSED = "proposed.json"  # of a search of a contestant: the points that its model proposed so far


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
        defaults: what their settings are as they come.
        dataset: that all contestants train on, its option.
        on_the_way: words that search runs get besides, such as evaluators that wait for the end.
        left_alone: numbers of each contestant's loss that are not searched, {contestant: {setting: value}}.
        folders: of options and modules of one's own.
        made_of: all that its runs depend on, hashed: the package, of each contestant its configuration, modules and
            ranges.
    """

    plan: Plan
    knobs: Mapping[str, Sequence[Knob]]
    base: Path
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dataset: str = "digits"
    on_the_way: tuple[str, ...] = ()
    left_alone: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()
    made_of: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failures(self) -> dict[str, str]:
        """{run: why} of runs whose training broke down by itself, which are not tried again."""
        return {
            str(run.path.relative_to(self.base)): reason
            for own in self.plan.contestants for run in self.known(own)
            if (reason := self.failure(run)) is not None
        }  # fmt: skip

    def failure(self, run: Run) -> str | None:
        """Why the loss of a run, or its training, does not work; None where it does, or where it has not been tried."""
        reason = read_failure(run.path)
        return reason if reason is not None and read_result(run.path) is None else None

    def due(self) -> list[Run]:
        """The runs that can begin now; none when the plan is done. Points that are proposed are written down first.

        Raises:
            ConfigError: a finished run lacks the figure that is judged.
        """
        for search in range(self.plan.searches):
            for own in self.plan.contestants:
                self._propose(own, search)
        waiting = (run for search in range(self.plan.searches) for own in self.plan.contestants
                   for run in self._runs(own, search))  # fmt: skip
        # once: where the default settings were chosen, they are final runs and those of the default
        return [run for run in dict.fromkeys(waiting) if self._value(run) is None]

    def known(self, own: Contestant) -> Iterator[Run]:
        """The runs of a contestant, as far as the searches have come."""
        for search in range(self.plan.searches):
            yield from self._runs(own, search)

    def n_runs(self, own: Contestant) -> int:
        """Runs of a contestant in the whole plan; a few less where a search chooses the default settings."""
        n_points = self._n_points(own)
        final = self.plan.seeds * (self.plan.searches + self.has_defaults(own))
        return self.plan.searches * (n_points + 2 * min(self.plan.finalists, n_points)) + final

    def n_left(self, own: Contestant) -> int:
        """Those that are neither done nor broken."""
        return max(0, self.n_runs(own) - sum(self._value(run) is not None for run in dict.fromkeys(self.known(own))))

    def best_so_far(self, own: Contestant) -> float:
        """The best figure of a contestant's search runs on held-out images; -inf before the first."""
        searched = (run for run in self.known(own) if run.stage != "final")
        return max((value for run in searched if (value := self._value(run)) is not None), default=WORST)

    def clean(self) -> None:
        """Remove the checkpoints of search runs that are done: nothing goes on from them, and their weights stay."""
        for run in (run for own in self.plan.contestants for run in self.known(own)):
            if run.stage != "final" and self._value(run) is not None and (folder := run.path / CHECKPOINTS).exists():
                shutil.rmtree(folder)

    def check_runs(self, known: Mapping[str, str]) -> None:
        """Check that every finished run was trained by the code of this comparison, on the same data as the others
        with its settings of the dataset, from the sources that there are now, and final runs of one seed on one kind of
        machine: they are a pair.

        Args:
            known: {settings of a dataset: hash of the data} that the comparison began with.

        Raises:
            ConfigError: one was not.
        """
        seen, package = dict(known), self.made_of.get("package")
        edited, moved, other, replaced = list[Run](), list[Run](), list[Run](), list[Run]()
        finals = dict[Run, Run]()
        for run in dict.fromkeys(run for own in self.plan.contestants for run in self.known(own)):
            state = read_run(run.path)
            if state.kind != "finished":
                continue
            sessions = [state.environment, *state.environment.get("resumed_with", [])]
            own_modules = self.made_of.get("contestants", {}).get(run.row, {}).get("modules", {})
            made_by = [pair for session in sessions for pair in (session.get("modules") or {}).items()]
            is_other = any(session.get("package", package) != package for session in sessions)
            if is_other or any(own_modules.get(name, hash) != hash for name, hash in made_by):
                edited.append(run)
            typed = [
                word for word in state.environment.get("overrides", []) if not word.startswith(("hydra", "+hydra"))
            ]
            if sorted(typed) != sorted(run.overrides):
                moved.append(run)
            data = state.environment["data"]
            if seen.setdefault(data_key(state.config), data) != data:
                other.append(run)
            if replaced_sources(state):
                replaced.append(run)
            if run.stage == "final":
                finals[run] = state
        unlike = _unlike_their_pair(finals)
        for made, runs in {
            "by other code than this comparison began with": edited,
            "with other settings than belong there now": moved,  # as after a failure was removed, or a folder copied
            "on other data than this comparison began with": other,
            "from other weights or images of transfer than there are now": replaced,
            "on another kind of machine, precision or version of torch than the newest run of their seed": unlike,
        }.items():
            if runs:
                raise ConfigError(_of_others(runs, made))

    def _runs(self, own: Contestant, search: int) -> Iterator[Run]:
        """The runs of a contestant in one search, as far as they are known."""
        for i, point in enumerate(self.points(own, search)):
            yield self._searched(own, search, i, point, 0)
        tried = self.tried(own, search)
        if tried is None:
            return
        for finalist in self.finalists(own, tried):
            yield from self.runs_of_point(own, search, finalist, tried[finalist].point)[1:]
        if (chosen := self.chosen(own, search)) is not None:
            yield from self.final(own, search, chosen)
        if search == 0 and self.has_defaults(own):
            yield from self.final(own, search, {})

    def has_defaults(self, own: Contestant) -> bool:
        """Whether a contestant also runs as it comes: beside a search, the first of those with the same settings."""
        same = next(other for other in self.plan.contestants if other.fixed == own.fixed)
        return self.plan.budget > 1 and same is own

    def points(self, own: Contestant, search: int) -> list[dict[str, str]]:
        """The points of a search as far as they are known, the default settings first; none where these are the only
        one."""
        if self.plan.budget == 1:
            return []
        file = self._folder(own, search) / PROPOSED
        return [*self.first_points(own, search), *(read_json(file, list[dict[str, str]]) if file.exists() else [])]

    def first_points(self, own: Contestant, search: int) -> list[dict[str, str]]:
        """The points that follow from no value, which all methods share."""
        if not self.knobs[own.name]:
            return [{}]
        return points(self.knobs[own.name], self.plan.n_first, draw=search)

    def _n_points(self, own: Contestant) -> int:
        """Points of a whole search."""
        if self.plan.budget == 1:
            return 0
        return self.plan.budget if self.knobs[own.name] else 1

    def _propose(self, own: Contestant, search: int) -> None:
        """Write down the next points of a search where all that are known have been tried.

        A run is of the point that is written, whatever another version of a library would propose.
        """
        known = self.points(own, search)
        if (n := min(BATCH, self._n_points(own) - len(known))) <= 0:
            return
        tried = [(self.settings(own, point), [value]) for i, point in enumerate(known)
                 if (value := self._value(self._searched(own, search, i, point, 0))) is not None]  # fmt: skip
        if len(tried) < len(known):
            return
        new = proposals(self.knobs[own.name], tried, n, draw=search + len(known))
        more = [*known[self.plan.n_first :], *new]
        write_text(self._folder(own, search) / PROPOSED, json.dumps(more, indent=1))

    def settings(self, own: Contestant, point: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of what is searched at a point; those of the default settings have no words."""
        return point or self.defaults.get(own.name, {})

    def tried(self, own: Contestant, search: int) -> list[Tried] | None:
        """Every point with its first run, and further runs where they are done; None while one is missing."""
        if len(self.points(own, search)) < self._n_points(own):
            return None
        found = []
        for i, point in enumerate(self.points(own, search)):
            values = [self._value(run) for run in self.runs_of_point(own, search, i, point)]
            if values[0] is None:
                return None
            found.append(Tried(point=point, values=[value for value in values if value is not None]))
        if sum(len(one.values) > 1 for one in found) > self.plan.finalists:  # some were, until a failure was removed
            last = self.finalists(own, found)
            return [one if i in last else Tried(point=one.point, values=one.values[:1]) for i, one in enumerate(found)]
        return found

    def worth(self, own: Contestant, tried: Sequence[Tried]) -> list[float]:
        """What each point is worth by its first run: the model's mean there, which tells luck from settings."""
        if self.plan.n_first == self.plan.budget or not self.knobs[own.name]:
            return [point.values[0] for point in tried]
        return smoothed(self.knobs[own.name], [(self.settings(own, one.point), one.values[:1]) for one in tried])

    def finalists(self, own: Contestant, tried: Sequence[Tried]) -> list[int]:
        """The best points by their first run; none that failed."""
        worth = self.worth(own, tried)
        order = sorted(range(len(tried)), key=lambda i: -worth[i])
        return [i for i in order if worth[i] > WORST][: self.plan.finalists]

    def chosen(self, own: Contestant, search: int) -> dict[str, str] | None:
        """The point that goes into the final; None while the search runs, or where every point failed."""
        if self.plan.budget == 1:
            return {}
        tried = self.tried(own, search)
        if tried is None:
            return None
        last = [tried[i] for i in self.finalists(own, tried)]
        if any(len(finalist.values) < 3 for finalist in last):
            return None
        if last:
            return max(last, key=lambda finalist: finalist.value).point
        worth = self.worth(own, tried)
        return tried[worth.index(max(worth))].point if max(worth) > WORST else None

    def final(self, own: Contestant, search: int, point: Mapping[str, str]) -> list[Run]:
        """The runs that are judged, with fresh seeds on all training images."""
        folder = self._folder(own, search) / ("final" if point else "default")
        words = self._words(own, point)
        first = _first_seed(search) + FIRST_FINAL
        as_it_comes = "" if point or self.plan.budget == 1 else " as it comes"
        return [
            Run(overrides=(*words, f"seed={seed}"), path=folder / f"seed={seed}", stage="final", row=own.name,
                name=f"{own.name}{_search_text(self.plan, search)}{as_it_comes}, seed {seed}")
            for seed in range(first, first + self.plan.seeds)
        ]  # fmt: skip

    def runs_of_point(self, own: Contestant, search: int, i: int, point: Mapping[str, str]) -> list[Run]:
        """The run of point i of a search, and the two further seeds that it has as a finalist."""
        return [self._searched(own, search, i, point, extra) for extra in (0, 1, 2)]

    def _searched(self, own: Contestant, search: int, i: int, point: Mapping[str, str], extra: int) -> Run:
        seed = _first_seed(search) + extra
        evaluator = self.plan.evaluator
        words = merge_overrides(
            [word for word in self._words(own, point) if not _is_left_out(key_of(word), evaluator)],
            [f"evaluator=[{evaluator}]", *self.on_the_way, "tracker=[]", f"held_out={search}", f"seed={seed}"],
        )
        stage = "finalists" if extra else "search"
        name = f"{own.name}{_search_text(self.plan, search)}, point {i + 1}{f', seed {seed}' if extra else ''}"
        path = self._folder(own, search) / f"point={i + 1:02}" / f"seed={seed}"
        return Run(overrides=words, path=path, stage=stage, row=own.name, name=name)

    def _words(self, own: Contestant, point: Mapping[str, str]) -> tuple[str, ...]:
        return merge_overrides(self.plan.common, own.fixed, [f"{key}={value}" for key, value in point.items()])

    def _folder(self, own: Contestant, search: int) -> Path:
        return self.base / f"search={search + 1}" / folder_name(own.name)

    def _value(self, run: Run) -> float | None:
        """What a run is worth on its held-out images, a final run on the test split; None where it is not done."""
        result = read_result(run.path)
        if result is None:
            return None if read_failure(run.path) is None else WORST
        return figure(result["test" if run.stage == "final" else "val"], self.plan.metric, of=str(run))


def figure(figures: Mapping[str, float], metric: str, *, of: str) -> float:
    """One of the figures of a run.

    Raises:
        ConfigError: the run has no such figure.
    """
    if metric not in figures:
        raise ConfigError(f"{of} has no {metric}, it has {', '.join(figures) or 'none'}: try another metric")
    return float(figures[metric])


def data_key(config: Mapping[str, Any]) -> str:
    """What the data of a run follow from: the settings of its dataset, and the draw of its held-out images."""
    node = {key: value for key, value in flatten(config["dataset"], "dataset.").items() if is_identity(key)}
    return json.dumps([node, config.get("held_out")], sort_keys=True, default=str)


def search_of(seed: int) -> int:
    """The search that a final seed belongs to, counted from 0."""
    return seed // SEEDS_OF_A_SEARCH - 1


def _unlike_their_pair(finals: Mapping[Run, Run]) -> list[Run]:
    """Final runs of another kind of machine than the newest run of their seed, which the present machine made."""
    seeds: dict[int, list[tuple[str, tuple[Any, ...], Run]]] = {}
    for run, state in finals.items():
        finished = str(state.result["time"].get("finished", ""))
        seeds.setdefault(state.config["seed"], []).append((finished, pair_of(state.environment), run))
    newest = {seed: max(own, key=lambda made: made[0])[1] for seed, own in seeds.items()}
    return [run for seed, own in seeds.items() for _, kind, run in own if kind != newest[seed]]


def _of_others(runs: Sequence[Run], made: str) -> str:
    """What to type where runs were made otherwise than the comparison began with."""
    who = f"{runs[0]} was" if len(runs) == 1 else f"{runs[0]} and {len(runs) - 1} more were"
    folders = " ".join(as_typed(run.path) for run in runs)
    return f"{who} trained {made}: try rm -r {folders} and the same command again"


def _first_seed(search: int) -> int:
    return SEEDS_OF_A_SEARCH * (search + 1)


def _is_left_out(key: str, evaluator: str) -> bool:
    """Whether a search run has no use for a setting: of a tracker, the list of evaluators, or of another one."""
    group = key.partition(".")[0]
    return group == "tracker" or (group == "evaluator" and not key.startswith(f"evaluator.{evaluator}."))


def _search_text(plan: Plan, search: int) -> str:
    return f", search {search + 1}" if plan.searches > 1 else ""
