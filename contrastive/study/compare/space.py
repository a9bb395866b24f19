"""What a method is searched over: knobs with their ranges, and points that all methods share as far as they can.

A range is typed as Hydra takes it on the command line: interval(0.1, 1), tag(log, interval(0.1, 1)),
int(interval(1, 100)), choice(a, b).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep
from hydra.errors import HydraException

from contrastive.config.paths import CONFIGS
from contrastive.errors import ConfigError

COMMON = ("temperature", "optimizer.lr")  # the first two coordinates of every point, whether or not a method reads them
GROUPS = ("optimizer", "loss", "teacher", "regularizer")  # whose options have ranges in configs/search/GROUP/


@dataclass(frozen=True, kw_only=True)
class Knob:
    """A setting and its range: numbers between two ends, evenly or in equal ratios, or some values.

    Attributes:
        typed: the range as it was typed.
    """

    key: str
    typed: str
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_int: bool = False
    choices: tuple[str, ...] = ()

    def at(self, u: float) -> str:
        """The value at u in [0, 1), as it is typed; numbers to three digits."""
        if self.choices:
            return self.choices[int(u * len(self.choices))]
        value = self.low * (self.high / self.low) ** u if self.is_log else self.low + (self.high - self.low) * u
        return str(round(value)) if self.is_int else f"{value:.3g}"

    def place(self, value: Any) -> float | None:
        """Where a number lies between the ends, 0 to 1; None for a choice."""
        if self.choices:
            return None
        x = float(value)
        if self.is_log:
            return math.log(x / self.low) / math.log(self.high / self.low) if x > 0 else 0.0
        return (x - self.low) / (self.high - self.low)


def read_knob(key: str, typed: str) -> Knob:
    """A knob from its range.

    Raises:
        ConfigError: it is no range.
    """
    try:
        value = OverridesParser.create().parse_override(f"{key}={typed}").value()
    except HydraException:
        value = None
    if isinstance(value, IntervalSweep):
        low, high = float(value.start or 0), float(value.end or 0)
        is_log, is_int = "log" in value.tags, isinstance(value.start, int)
        if low < high and (low > 0 or not is_log):
            return Knob(key=key, typed=typed, low=low, high=high, is_log=is_log, is_int=is_int)
    if isinstance(value, ChoiceSweep) and len(value.list) > 1:
        return Knob(key=key, typed=typed, choices=tuple(map(str, value.list)))
    raise ConfigError(f"{key}={typed} is not a range: try '{key}=interval(0.1,1)' or '{key}=tag(log,interval(0.1,1))'")


def knobs_of(
    choices: Mapping[str, str], reads: Sequence[str], typed: Mapping[str, str], folders: Sequence[Path]
) -> list[Knob]:
    """The knobs of a method, the common ones first.

    Args:
        choices: {group: option} that it is made of.
        reads: settings that its configuration has or that its components read.
        typed: {setting: range} of the command line, which replace those of files or come besides.
        folders: of options of one's own, with ranges in search/GROUP/OPTION.yaml.
    """
    ranges = _read(Path("common.yaml"), folders)
    for group in GROUPS:
        ranges |= _read(Path(group, f"{choices.get(group)}.yaml"), folders)
    ranges |= typed
    known = [read_knob(key, str(text)) for key, text in ranges.items() if key in reads or key in typed]
    return sorted(known, key=lambda knob: COMMON.index(knob.key) if knob.key in COMMON else len(COMMON))


def _read(path: Path, folders: Sequence[Path]) -> dict[str, str]:
    """{setting: range} of a file; none if there is no such file. One's own come before those of the package."""
    for folder in (*folders, CONFIGS):
        if (file := folder / "search" / path).is_file():
            return dict(yaml.safe_load(file.read_text()) or {})
    return {}


def points(knobs: Sequence[Knob], n: int, *, draw: int) -> list[dict[str, str]]:
    """n points of a method: its default settings, then those of a scrambled Sobol sequence that all methods share.

    A common knob has the same values for every method; own knobs have the coordinates after them.

    Args:
        draw: of the sequence, another one for each search.
    """
    own = [knob for knob in knobs if knob.key not in COMMON]
    place = {key: i for i, key in enumerate(COMMON)} | {knob.key: len(COMMON) + i for i, knob in enumerate(own)}
    drawn = _sobol(n - 1, draw)
    return [{}, *({knob.key: knob.at(row[place[knob.key]]) for knob in knobs} for row in drawn)][:n]


MAX_KNOBS = 16  # of one sequence, whose first coordinates do not depend on their number


def _sobol(n: int, draw: int) -> list[list[float]]:
    """n points of a scrambled Sobol sequence."""
    try:
        from scipy.stats import qmc  # late: it takes a second
    except ImportError:
        raise ConfigError("a search needs scipy, which is missing: try pip install -e '.[report]'") from None
    sequence = qmc.Sobol(MAX_KNOBS, scramble=True, rng=draw)
    sampled: list[list[float]] = sequence.random_base2(math.ceil(math.log2(max(n, 1)))).tolist()
    return sampled[:n]
