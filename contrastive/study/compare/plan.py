"""What a comparison is: the contestants, what they share, and how much is run, read from the words of a command."""

import hashlib
import itertools
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Override
from hydra.errors import HydraException

from contrastive.config.identity import key_of
from contrastive.errors import ConfigError
from contrastive.run.figures import KNN

EXAMPLE = "try contrastive compare loss=nt_xent,debiased_pos"
AUTO = 0  # a budget that follows from the knobs
# {number: (its type, the least, what to try)}
NUMBERS: dict[str, tuple[type[int] | type[float], float, str]] = {
    "searches": (int, 1, "1"), "budget": (int, 1, "auto"), "seeds": (int, 3, "8"), "margin": (float, 0.01, "1"),
}  # fmt: skip
OWN = {*NUMBERS, "metric", "rows"}
CHOSEN_HERE = ("seed", "held_out", "dataset.hold_out", "dry_run")  # which the protocol sets
LEVEL = 0.045  # of a judgement; what is left of 5 % is for those of changed plans, an eighth of the level each time
# A seed tells its place: (search + 1) · 1000 + 0, 1, 2 for the search and its finalists, + 100, 101, ...
# for the final runs. So no final run repeats a seed that chose the settings, nor one of another search (up to 900).
SEEDS_OF_A_SEARCH, FIRST_FINAL = 1000, 100


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A method: its name, and the words that make it.

    Attributes:
        words: its settings.
        ranges: {setting: range} of what is searched for this contestant alone.
    """

    name: str
    words: tuple[str, ...]
    ranges: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The protocol of docs/compare.md with its numbers.

    Attributes:
        common: words of every run.
        ranges: {setting: range} that replace those of configs/search.
        budget: runs of a search for each contestant, the default settings among them; 1 = nothing is searched, AUTO =
            not yet known.
        seeds: final runs of each contestant and search.
        searches: how often everything is repeated with other points, held-out images and seeds.
        metric: on which points are chosen and contestants judged.
        margin: points within which two contestants are equal.
        looks: how often plans of these contestants were judged, which share the level.
        level: of the first of them.
    """

    contestants: tuple[Contestant, ...]
    common: tuple[str, ...] = ()
    ranges: Mapping[str, str] = field(default_factory=dict)
    budget: int = AUTO
    seeds: int = 8
    searches: int = 1
    metric: str = KNN
    margin: float = 1.0
    looks: int = 1
    level: float = LEVEL

    def __post_init__(self) -> None:
        if self.budget == 1 and self.searches > 1:
            raise ConfigError("budget=1 searches nothing that could be repeated: try searches=1")
        if not re.fullmatch(r"\w+_top\d", self.metric):
            raise ConfigError(f"metric must be an accuracy of an evaluator, got {self.metric}: try metric=linear_top1")

    @property
    def evaluator(self) -> str:
        """The evaluator that the metric is of."""
        return self.metric.rpartition("_")[0]

    @property
    def opponents(self) -> list[tuple[str, str]]:
        """(contestant, the one that it is judged against)."""
        return [(other.name, self.contestants[0].name) for other in self.contestants[1:]]

    @property
    def as_they_come(self) -> list[str]:
        """The contestants that also run with their default settings: of those that share them the first; none where
        these are all that runs."""
        first: dict[tuple[str, ...], str] = {}
        for own in self.contestants:
            first.setdefault(own.words, own.name)
        return list(first.values()) if self.budget > 1 else []

    def final_seeds(self, search: int) -> range:
        """The seeds of the final runs of a search."""
        first = first_seed(search) + FIRST_FINAL
        return range(first, first + self.seeds)

    def folder(self, dataset: str, digest: str) -> str:
        """A name for the runs: what is compared on what, and the `digest`. More seeds, searches or looks go on in the
        same folder."""
        names = "+".join(contestant.name for contestant in self.contestants)
        return f"{folder_name(f'{dataset}-{names}')[:80]}-{digest}-{self.metric}"

    def digest(self, made_of: Mapping[str, Any]) -> str:
        """A hash of what makes a run what it is.

        Args:
            made_of: of each contestant, all that its runs depend on.
        """
        places = sorted(word for word in self.common if key_of(word) in ("dataset.root", "dataset.test"))
        described = [[own.name for own in self.contestants], self.budget, places, made_of]
        return hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:8]

    def command(self, folders: Sequence[str] = ()) -> str:
        """What to type for this plan.

        Args:
            folders: those of --config-dir.
        """
        listed = [*itertools.takewhile(lambda own: own.words == (f"loss={own.name}",), self.contestants)]
        listed = [own for own in listed if not own.ranges] if len(listed) > 1 or len(self.contestants) == 1 else []
        rows = {own.name: " ".join([*own.words, *typed(own.ranges)]) for own in self.contestants[len(listed) :]}
        words = [f"loss={','.join(own.name for own in listed)}"] if listed else []
        if rows:
            words.append(f"rows={yaml.safe_dump(rows, default_flow_style=True, sort_keys=False, width=10**6).strip()}")
        words += [*self.common, *typed(self.ranges)]
        words += [f"{name}={getattr(self, name):g}" for name in NUMBERS if name != "budget" or self.budget]
        words += [f"metric={self.metric}"]
        own = [word for folder in folders for word in ("--config-dir", folder)]
        return " ".join(["contrastive compare", *map(_quoted, [*words, *own])])


def first_seed(search: int) -> int:
    """The seed of the points of a search, counted from 0."""
    return SEEDS_OF_A_SEARCH * (search + 1)


def search_of(seed: int) -> int:
    """The search that a final seed belongs to, counted from 0."""
    return seed // SEEDS_OF_A_SEARCH - 1


def auto_budget(knobs: Sequence[Sequence[Any]]) -> int:
    """Points for each contestant: eight for each knob of the one with most, and eight more; 1 where none has any.

    Args:
        knobs: of each contestant.
    """
    most = max(map(len, knobs), default=0)
    return 8 * (most + 1) if most else 1


def folder_name(name: str) -> str:
    """The name with a dash for every sign that a path should not have."""
    return re.sub(r"[^\w.=+-]+", "-", name)


def read_plans(words: Sequence[str]) -> list[Plan]:
    """A plan for each data set of `dataset=a,b`; one plan where there is no such list.

    Raises:
        ConfigError: as `read_plan`, a data set is there twice, or there is one contestant alone.
    """
    lists = [items for word in words if key_of(word) == "dataset" and (items := _items(_parsed(word)))]
    if not lists:
        return [read_plan(words)]
    names = lists[-1]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"dataset={twice} is there twice: try each data set once")
    common = [word for word in words if key_of(word) != "dataset"]
    plans = [read_plan([*common, f"dataset={name}"]) for name in names]
    if not plans[0].opponents:
        raise ConfigError(f"one contestant alone is tuned on one data set at a time: try dataset={names[0]}")
    return plans


def read_plan(words: Sequence[str]) -> Plan:
    """The plan that words describe: comma lists make the contestants, ranges replace knobs, the rest is common.

    Without a list, the loss or the recipe that is named is the only contestant.

    Raises:
        ConfigError: a word that cannot be read or that the protocol sets itself, or no contestant.
    """
    own: dict[str, Any] = {}
    lists: list[list[str]] = []
    common, ranges = [], {}
    for word in words:
        key, _, value = word.partition("=")
        if key in CHOSEN_HERE or key.startswith("hydra"):
            instead = "seeds=8" if key == "seed" else "it without this word"
            raise ConfigError(f"{key} is set by the comparison: try {instead}")
        if key in OWN:
            own[key] = _number(key, value) if key in NUMBERS else _rows(value) if key == "rows" else value
        elif near := get_close_matches(key, OWN, n=1, cutoff=0.8):
            raise ConfigError(f"there is no setting {key}: did you mean {near[0]}? try {near[0]}={value}")
        elif items := _items(override := _parsed(word)):
            lists.append([f"{key}={item}" for item in items])
        elif override.is_sweep_override():
            ranges[key] = value
        else:
            common.append(word)
    rows = own.pop("rows", [])
    listed = [_named(chosen, lists) for chosen in itertools.product(*lists)] if lists else _beside(rows, common)
    contestants = (*listed, *rows)
    if not contestants:
        raise ConfigError(f"nothing is compared: {EXAMPLE}")
    folders = [folder_name(contestant.name).lower() for contestant in contestants]  # some disks do not tell A from a
    if twice := [one.name for one, folder in zip(contestants, folders, strict=True) if folders.count(folder) > 1]:
        raise ConfigError(f"{twice[0]} and {twice[1]} would have one folder: try other names in rows")
    return Plan(contestants=contestants, common=tuple(common), ranges=ranges, **own)


def _beside(rows: Sequence[Contestant], common: list[str]) -> list[Contestant]:
    """The contestant of a loss or experiment that was typed alone, where each row has its own: it is taken out of what
    is common."""
    alone = next((word for key in ("loss", "experiment") for word in common if key_of(word) == key), None)
    if alone is None:
        return []
    key, _, name = alone.partition("=")
    if not all(any(key_of(word) == key for word in row.words) for row in rows):
        return []
    common.remove(alone)
    return [Contestant(name=name, words=(alone,))]


def _number(key: str, value: str) -> float:
    """A number of the protocol."""
    kind, least, instead = NUMBERS[key]
    if (key, value) == ("budget", "auto"):
        return AUTO
    try:
        number = float(kind(value))
    except ValueError:
        number = math.nan
    if not number >= least:
        raise ConfigError(f"{key} must be a number of at least {least}, got {value}: try {key}={instead}")
    return kind(number)


def _rows(value: str) -> list[Contestant]:
    """The contestants of `rows`; the words of one are apart by spaces."""
    try:
        rows = yaml.safe_load(value)
    except yaml.YAMLError:
        rows = None
    if not isinstance(rows, dict):
        raise ConfigError(f"rows names contestants, got {value}: try rows=\"{{pushed: 'loss=nt_xent loss.push=2'}}\"")
    found = []
    for name, text in rows.items():
        words = {word: _parsed(word) for word in re.split(r"\s+(?=[^\s=,()]+=)", str(text).strip()) if word}
        ranges = {key_of(word): word.partition("=")[2] for word, own in words.items() if own.is_sweep_override()}
        settings = tuple(word for word in words if key_of(word) not in ranges)
        found.append(Contestant(name=str(name), words=settings, ranges=ranges))
    return found


def _parsed(word: str) -> Override:
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise ConfigError(f"{word} is not KEY=VALUE, or its value has signs that want quotes: {EXAMPLE}") from error


def _items(override: Override) -> list[str]:
    """The items of a comma list; none of another value."""
    value = override.value()
    return list(override.sweep_string_iterator()) if isinstance(value, ChoiceSweep) and value.simple_form else []


def _named(chosen: Sequence[str], lists: Sequence[Sequence[str]]) -> Contestant:
    """A contestant by the words in which it differs; of a component the option alone."""
    alone, bare = len(lists) == 1, ("loss", "regularizer")
    short = [
        word.partition("=")[2] if key_of(word) in bare or (alone and "." not in key_of(word)) else word
        for word in chosen
    ]
    return Contestant(name=" ".join(short), words=tuple(chosen))


def typed(settings: Mapping[str, Any]) -> list[str]:
    """KEY=VALUE of each."""
    return [f"{key}={value}" for key, value in settings.items()]


def _quoted(word: str) -> str:
    """The word as a shell takes it: in double quotes if it has single ones inside."""
    return f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else shlex.quote(word)
