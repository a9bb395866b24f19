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
SMALL = 8  # points, from which on a model proposes some
NUMBERS = {"searches": int, "budget": int, "finalists": int, "seeds": int, "margin": float}
OWN = {*NUMBERS, "metric", "rows"}
CHOSEN_HERE = ("seed", "held_out", "dataset.hold_out", "dry_run")  # which the protocol sets
MAX_SEEDS = 500
BATCH = 4  # points that a model proposes at a time
LEVEL = 0.045  # of a judgement; what is left of 5 % is for those of changed plans, an eighth of the level each time
LEVEL_ON_THE_WAY = math.erfc(2.1 / math.sqrt(2))  # of the last one, where six rows and more were judged on the way


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A method: its name, and the words that make it.

    Attributes:
        words: settings, and ranges of what is searched for this contestant alone.
    """

    name: str
    words: tuple[str, ...]

    @property
    def fixed(self) -> tuple[str, ...]:
        """The words that are no ranges."""
        return tuple(word for word in self.words if not _parsed(word).is_sweep_override())

    @property
    def ranges(self) -> dict[str, str]:
        """{setting: range}"""
        searched = (word for word in self.words if word not in self.fixed)
        return {key_of(word): word.partition("=")[2] for word in searched}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The protocol of docs/compare.md with its numbers.

    Attributes:
        common: words of every run.
        ranges: {setting: range} that replace those of configs/search.
        budget: runs of a search for each contestant, the default settings among them; 1 = nothing is searched, AUTO =
            not yet known.
        finalists: 2 points get two more seeds, or none and the best single run is chosen.
        seeds: final runs of each contestant and search.
        searches: how often everything is repeated with other points, held-out images and seeds.
        metric: on which points are chosen and contestants judged.
        margin: points within which two contestants are equal.
        looks: how often plans of these contestants were judged, which share the level.
        level: of the first of them.
        proposes: whether a model proposes points; searches of earlier versions have a Sobol sequence alone.
    """

    contestants: tuple[Contestant, ...]
    common: tuple[str, ...] = ()
    ranges: dict[str, str] = field(default_factory=dict)
    budget: int = AUTO
    finalists: int = 2
    seeds: int = 8
    searches: int = 1
    metric: str = KNN
    margin: float = 1.0
    looks: int = 1
    level: float = LEVEL
    proposes: bool = True

    def __post_init__(self) -> None:
        least = {"budget": AUTO, "seeds": 3, "searches": 1, "looks": 1}
        for key, smallest in least.items():
            if (value := getattr(self, key)) < smallest:
                raise ConfigError(f"{key} must be at least {smallest}, got {value}: try {key}={smallest}")
        if self.budget == 1 and self.searches > 1:
            raise ConfigError("budget=1 searches nothing that could be repeated: try searches=1")
        if self.finalists not in (0, 2):
            raise ConfigError(f"finalists must be 2 or 0, got {self.finalists}: try finalists=2")
        if self.seeds > MAX_SEEDS:
            raise ConfigError(f"seeds must be at most {MAX_SEEDS}, got {self.seeds}: try seeds=8")
        if self.margin <= 0:
            raise ConfigError(f"margin must be above 0, got {self.margin}: try margin=1")
        if not re.fullmatch(r"\w+_top\d", self.metric):
            raise ConfigError(f"metric must be an accuracy of an evaluator, got {self.metric}: try metric=linear_top1")

    @property
    def evaluator(self) -> str:
        """The evaluator that the metric is of."""
        return self.metric.rpartition("_")[0]

    @property
    def n_first(self) -> int:
        """Points of a search that follow from no value: a quarter of them, and five at the least."""
        return max(5, math.ceil(self.budget / 4)) if self.proposes and self.budget >= SMALL else self.budget

    @property
    def opponents(self) -> list[tuple[str, str]]:
        """(contestant, the one that it is judged against)."""
        return [(other.name, self.contestants[0].name) for other in self.contestants[1:]]

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
        names = [(contestant.name, 0) for contestant in self.contestants]  # 0: one draw of points and seeds for all
        described = [names, self.budget, self.finalists, places, made_of, *([BATCH] if self.proposes else [])]
        return hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:8]

    def command(self, folders: Sequence[str] = ()) -> str:
        """What to type for this plan.

        Args:
            folders: those of --config-dir.
        """
        listed = [*itertools.takewhile(lambda own: own.words == (f"loss={own.name}",), self.contestants)]
        listed = listed if len(listed) > 1 or len(self.contestants) == 1 else []
        others = self.contestants[len(listed) :]
        rows = {own.name: " ".join(own.words) for own in others}
        words = [f"loss={','.join(own.name for own in listed)}"] if listed else []
        if rows:
            words.append(f"rows={yaml.safe_dump(rows, default_flow_style=True, sort_keys=False, width=10**6).strip()}")
        words += [*self.common, *(f"{key}={value}" for key, value in self.ranges.items())]
        words += [f"{name}={getattr(self, name):g}" for name in NUMBERS if name != "budget" or self.budget]
        words += [f"metric={self.metric}"]
        own = [word for folder in folders for word in ("--config-dir", folder)]
        return " ".join(["contrastive compare", *map(_quoted, [*words, *own])])


def auto_budget(knobs: Mapping[str, Sequence[Any]]) -> int:
    """Points for each contestant: eight for each knob of the one with most, and eight more; 1 where none has any.

    Args:
        knobs: of each contestant.
    """
    most = max(map(len, knobs.values()), default=0)
    return 8 * (most + 1) if most else 1


def folder_name(name: str) -> str:
    """The name with a dash for every sign that a path should not have."""
    return re.sub(r"[^\w.=+-]+", "-", name)


def plan_from_dict(content: dict[str, Any]) -> Plan:
    """The plan that a record has, also one of an earlier version: with the points that were proposed at a time, 0 or
    none of a search without a model, and the rows after which it was judged for the last time."""
    known = {key: value for key, value in content.items() if key in Plan.__dataclass_fields__}
    if "proposes" not in content:
        known["proposes"] = bool(content.get("batch"))
        known["level"] = LEVEL_ON_THE_WAY if content.get("planned", 0) >= 6 else LEVEL
    contestants = tuple(Contestant(name=own["name"], words=tuple(own["words"])) for own in content["contestants"])
    return Plan(**{**known, "contestants": contestants, "common": tuple(content["common"])})


def read_plans(words: Sequence[str]) -> list[Plan]:
    """A plan for each data set of `dataset=a,b`; one plan where there is no such list.

    Raises:
        ConfigError: as `read_plan`, a data set is there twice, or there is one contestant alone.
    """
    lists = [word for word in words if key_of(word) == "dataset" and _is_list(_parsed(word))]
    if not lists:
        return [read_plan(words)]
    names = _split(lists[-1].partition("=")[2])
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
        if key in OWN:
            own[key] = _own(key, value)
            continue
        if key in CHOSEN_HERE or key.startswith("hydra"):
            instead = "seeds=8" if key == "seed" else "it without this word"
            raise ConfigError(f"{key} is set by the comparison: try {instead}")
        if near := get_close_matches(key, OWN, n=1, cutoff=0.8):
            raise ConfigError(f"there is no setting {key}: did you mean {near[0]}? try {near[0]}={value}")
        override = _parsed(word)
        if _is_list(override):
            lists.append([f"{key}={item}" for item in _split(value)])
        elif override.is_sweep_override():
            ranges[key] = value
        else:
            common.append(word)
    contestants = [_named(chosen, lists) for chosen in itertools.product(*lists)] if lists else []
    rows = [_row(name, str(text)) for name, text in (own.pop("rows", None) or {}).items()]
    contestants = [*(contestants or _beside(rows, common)), *rows]
    if not contestants:
        raise ConfigError(f"nothing is compared: {EXAMPLE}")
    names = [contestant.name for contestant in contestants]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"two contestants are called {twice}: try other names in rows")
    if len({folder_name(name).lower() for name in names}) < len(names):  # some disks do not tell A from a
        raise ConfigError(f"{' and '.join(names)} differ in signs or case alone, and name folders: try other names")
    if own.get("budget") == 1:
        own["finalists"] = 0
    return Plan(contestants=tuple(contestants), common=tuple(common), ranges=ranges, **own)


def _beside(rows: Sequence[Contestant], common: list[str]) -> list[Contestant]:
    """The contestant of a loss or experiment that was typed alone, where each row has its own: it is taken out of what
    is common."""
    alone = next((word for key in ("loss", "experiment") for word in common if key_of(word) == key), None)
    if alone is None:
        return []
    key, _, name = alone.partition("=")
    lacking = [row.name for row in rows if not _sets(row, key)]
    if 0 < len(lacking) < len(rows):
        raise ConfigError(f"some rows name a {key} and {lacking[0]} names none: try {alone} in {lacking[0]}, too")
    if lacking:
        return []
    common.remove(alone)
    return [Contestant(name=name, words=(alone,))]


def _own(key: str, value: str) -> Any:
    if (key, value) == ("budget", "auto"):
        return AUTO
    if key in NUMBERS:
        try:
            number = NUMBERS[key](value)
        except ValueError:
            raise ConfigError(f"{key} must be a number, got {value}: try {key}={3 if key != 'margin' else 1}") from None
        if key == "budget" and number <= 0:
            raise ConfigError(f"budget must be above 0, got {value}: try budget=auto")
        return number
    if key == "rows":
        try:
            rows = yaml.safe_load(value)
        except yaml.YAMLError:
            rows = None
        if not isinstance(rows, dict):
            raise ConfigError(
                f"rows names contestants, got {value}: try rows=\"{{pushed: 'loss=nt_xent loss.push=2'}}\""
            )
        return rows
    return value


def _parsed(word: str) -> Override:
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException as error:
        raise ConfigError(f"{word} is not KEY=VALUE, or its value has signs that want quotes: {EXAMPLE}") from error


def _is_list(override: Override) -> bool:
    """Whether its value is a comma list."""
    value = override.value()
    return isinstance(value, ChoiceSweep) and bool(value.simple_form)


def _quoted(word: str) -> str:
    """The word as a shell takes it: in double quotes if it has single ones inside."""
    return f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else shlex.quote(word)


def _split(value: str, at: str = ",") -> list[str]:
    """The items of a list; commas, or what it is split at, inside of brackets and quotes do not count."""
    items, depth, quote, start = [], 0, "", 0
    for i, letter in enumerate(value):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter == at and depth == 0:
            items.append(value[start:i].strip())
            start = i + 1
    return [*items, value[start:].strip()]


def _named(chosen: Sequence[str], lists: Sequence[Sequence[str]]) -> Contestant:
    """A contestant by the words in which it differs; of a component the option alone."""
    alone, bare = len(lists) == 1, ("loss", "regularizer")
    short = [
        word.partition("=")[2] if key_of(word) in bare or (alone and "." not in key_of(word)) else word
        for word in chosen
    ]
    return Contestant(name=" ".join(short), words=tuple(chosen))


def _sets(row: Contestant, key: str) -> bool:
    return any(key_of(word) == key for word in row.words)


def _row(name: str, text: str) -> Contestant:
    """A contestant of `rows`."""
    return Contestant(name=str(name), words=tuple(word for word in _split(text, " ") if word))
