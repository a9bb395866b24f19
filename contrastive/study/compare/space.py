"""What a method is searched over: knobs with their ranges, and points that all methods share as far as they can.

A range is typed as Hydra takes it on the command line: interval(0.1, 1), tag(log, interval(0.1, 1)),
int(interval(1, 100)), choice(a, b). Files may scale one by another setting: tag(log, interval(0.1, 1)) * loss.push.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep
from hydra.errors import HydraException

from contrastive.config import CONFIGS
from contrastive.errors import ConfigError

COMMON = ("temperature", "optimizer.lr")  # the first two coordinates of every point, whether or not a method reads them
GROUPS = ("optimizer", "loss", "teacher", "regularizer")  # whose options have ranges in configs/search/GROUP/


@dataclass(frozen=True, kw_only=True)
class Knob:
    """A setting and its range: numbers between two ends, evenly or in equal ratios, or some values.

    Attributes:
        typed: the range as it was typed.
        times: another setting that is searched, whose value multiplies both ends.
    """

    key: str
    typed: str
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_int: bool = False
    choices: tuple[str, ...] = ()
    times: str = ""

    @property
    def name(self) -> str:
        """What the range is of: the setting, or its ratio to another."""
        return f"{self.key} / {self.times}" if self.times else self.key

    def at(self, u: float, point: Mapping[str, Any] | None = None) -> str:
        """The value at u in [0, 1], as it is typed; numbers to three digits, of ends that are close to more.

        Args:
            point: settings that have the value of `times`.
        """
        if self.choices:
            return self.choices[min(int(u * len(self.choices)), len(self.choices) - 1)]
        value = self.low * (self.high / self.low) ** u if self.is_log else self.low + (self.high - self.low) * u
        if self.is_int:
            return str(round(value))
        digits = 3 + int(math.log10(max(abs(self.low), abs(self.high)) / (self.high - self.low) + 1))
        return f"{value * self._factor(point or {}):.{digits}g}"

    def place(self, point: Mapping[str, Any]) -> float | None:
        """Where the value of a point lies between the ends, 0 to 1; None for a choice, and for what is no number."""
        try:
            x = float(point[self.key]) / self._factor(point)
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            return None
        if self.choices or not math.isfinite(x):
            return None
        if self.is_log:
            return math.log(x / self.low) / math.log(self.high / self.low) if x > 0 else 0.0
        return (x - self.low) / (self.high - self.low)

    def _factor(self, point: Mapping[str, Any]) -> float:
        return float(point[self.times]) if self.times else 1.0


def read_knob(key: str, typed: str) -> Knob:
    """A knob from its range.

    Raises:
        ConfigError: it is no range.
    """
    text, _, times = (part.strip() for part in typed.partition("*"))
    try:
        value = OverridesParser.create().parse_override(f"{key}={text}").value()
    except HydraException:
        value = None
    if isinstance(value, IntervalSweep):
        low, high = float(value.start or 0), float(value.end or 0)
        is_log, is_int = "log" in value.tags, isinstance(value.start, int)
        if low < high and (low > 0 or not is_log) and not (is_int and times):
            return Knob(key=key, typed=typed, low=low, high=high, is_log=is_log, is_int=is_int, times=times)
    if isinstance(value, ChoiceSweep) and len(value.list) > 1 and not times:
        return Knob(key=key, typed=typed, choices=tuple(map(str, value.list)))
    raise ConfigError(f"{key}={typed} is not a range: try '{key}=interval(0.1,1)' or '{key}=tag(log,interval(0.1,1))'")


def knobs_of(
    choices: Mapping[str, str],
    settings: Mapping[str, Any],
    typed: Mapping[str, str],
    folders: Sequence[Path],
    fixed: Collection[str] = (),
) -> list[Knob]:
    """The knobs of a method, the common ones first.

    Args:
        choices: {group: option} that it is made of.
        settings: that its configuration has or that its components read, with their values.
        typed: {setting: range} of the command line, which replace those of files or come besides.
        folders: of options of one's own, with ranges in search/GROUP/OPTION.yaml.
        fixed: settings that are not searched.
    """
    ranges = _read(Path("common.yaml"), folders)
    for group in GROUPS:
        own = _read(file := Path(group, f"{choices.get(group)}.yaml"), folders)
        if odd := [key for key in own if key not in settings]:
            raise ConfigError(
                f"search/{file} has {odd[0]}, which is no setting of it: try {group}.SETTING: interval(LOW, HIGH)"
            )
        ranges |= own
    ranges |= typed
    known = [read_knob(key, str(text)) for key, text in ranges.items()
             if (key in settings or key in typed) and key not in fixed]  # fmt: skip
    searched = {knob.key for knob in known}
    known = [knob if knob.times in searched else _scaled(knob, settings.get(knob.times, 1.0)) for knob in known]
    return sorted(known, key=lambda knob: COMMON.index(knob.key) if knob.key in COMMON else len(COMMON))


def _scaled(knob: Knob, factor: Any) -> Knob:
    """A knob whose ends are multiplied by a setting that is not searched."""
    if not knob.times:
        return knob
    low, high = knob.low * float(factor), knob.high * float(factor)
    typed = f"interval({low:g}, {high:g})"
    return replace(knob, typed=f"tag(log, {typed})" if knob.is_log else typed, low=low, high=high, times="")


def _read(path: Path, folders: Sequence[Path]) -> dict[str, str]:
    """{setting: range} of a file; none if there is no such file. One's own come before those of the package."""
    for folder in (*folders, CONFIGS):
        if (file := folder / "search" / path).is_file():
            found = yaml.safe_load(file.read_text()) or {}
            if not isinstance(found, dict):
                raise ConfigError(f"{file} is no list of settings and ranges: try loss.temperature: interval(0.05, 1)")
            return found
    return {}


def points(knobs: Sequence[Knob], n: int, *, draw: int) -> list[dict[str, str]]:
    """n points of a method: its default settings, then those of a scrambled Sobol sequence that all methods share.

    A common knob has the same values for every method; own knobs have the coordinates after them.

    Args:
        draw: of the sequence, another one for each search.
    """
    own = [knob.key for knob in knobs if knob.key not in COMMON]
    place = {key: i for i, key in enumerate([*COMMON, *own])}
    drawn = sobol(n - 1, draw)
    return [{}, *(point_at(knobs, [row[place[knob.key]] for knob in knobs]) for row in drawn)][:n]


def point_at(knobs: Sequence[Knob], u: Sequence[float]) -> dict[str, str]:
    """The point at a place in the unit box, a coordinate for each knob."""
    plain = {knob.key: knob.at(x) for knob, x in zip(knobs, u, strict=True) if not knob.times}
    return {knob.key: plain.get(knob.key, knob.at(x, plain)) for knob, x in zip(knobs, u, strict=True)}


MAX_KNOBS = 16  # of one sequence, whose first coordinates do not depend on their number


def sobol(n: int, draw: int) -> list[list[float]]:
    """n points of a scrambled Sobol sequence, of 16 coordinates."""
    from scipy.stats import qmc  # late: it takes a second

    sequence = qmc.Sobol(MAX_KNOBS, scramble=True, rng=draw)
    sampled: list[list[float]] = sequence.random_base2(math.ceil(math.log2(max(n, 1)))).tolist()
    return sampled[:n]
