"""The rows of a table: every row of the YAML at every point of its grid (format: `contrastive.report.table`)."""

import itertools
import re
from dataclasses import dataclass, field
from typing import Any

from contrastive.errors import ConfigError

ROW_KEYS = {"name", "overrides", "published", "source", "zip", "grid", "presets", "minutes"}
ALONG: tuple[tuple[str, Any], ...] = (
    ("zip", {}),
    ("published", {}),
    ("source", ""),
)  # keys whose lists follow the grid


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table. No words: a quoted figure that is never run."""

    name: str
    words: tuple[str, ...]
    published: dict[str, str]
    source: str
    minutes: float | None
    point: str = ""  # of the grid, as it stands at the end of the name


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What a preset and the command line change in every row; the defaults are those of `paper`."""

    name: str = "paper"
    overrides: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()  # settings left out of every row's words
    points: int | None = None  # of each grid, from the first; None = all
    grid: dict[str, list[Any]] = field(default_factory=dict)  # the values of a grid that run; all of a key left out
    extra: tuple[str, ...] = ()  # words of the command line


def expand_rows(spec: dict[str, Any], preset: Preset) -> list[Row]:
    """Every row at every point of its grid; rows that share the table's grid stand together at each point.

    Raises:
        ConfigError: an unknown key or preset, a list that does not go along the grid, or a preset's value of no grid.
    """
    check_preset_grid(spec, preset)
    for row in spec.get("rows", []):
        check_keys(row, ROW_KEYS, f"row {row.get('name')}")
        check_keys(row.get("presets", {}), {"small", "smoke"}, f"row {row['name']}: presets")
    chosen = [row for row in spec.get("rows", []) if row.get("presets", {}).get(preset.name, []) is not None]
    shared = [row for row in chosen if "grid" not in row]
    rows: list[Row] = []
    for row in chosen:
        if "grid" in row:
            rows += _expand(row, spec, preset)
        elif row is shared[0]:
            at_points = zip(*(_expand(other, spec, preset) for other in shared), strict=True)
            rows += [one for at_point in at_points for one in at_point]
    return rows


def _expand(row: dict[str, Any], spec: dict[str, Any], preset: Preset) -> list[Row]:
    """One row of the YAML at the points of its grid that the preset runs."""
    grid: dict[str, list[Any]] = row.get("grid", spec.get("grid", {}))
    run = set(itertools.product(*(_chosen(key, values, preset) for key, values in grid.items())))
    points = list(itertools.product(*grid.values()))
    rows = []
    for i, point in enumerate(points):
        if point not in run:
            continue
        settings = dict(zip(grid, point, strict=True))
        at_point = {key: _pick(row.get(key, empty), i, len(points), f"{row['name']}: {key}") for key, empty in ALONG}
        words = _words(row, spec, preset, {**settings, **at_point["zip"]}) if "overrides" in row else ()
        place = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in settings.items())
        published = {metric: str(value) for metric, value in at_point["published"].items() if value is not None}
        minutes = row.get("minutes", spec.get("minutes")) if preset.name == "paper" else None
        name, source = f"{row['name']}, {place}" if place else row["name"], str(at_point["source"])
        rows.append(Row(name=name, words=words, published=published, source=source, minutes=minutes, point=place))
    return rows


def check_preset_grid(spec: dict[str, Any], preset: Preset) -> None:
    """Raise ConfigError if a preset asks for a value that no grid has."""
    grids = [spec.get("grid", {}), *(row.get("grid", {}) for row in spec.get("rows", []))]
    for key, chosen in preset.grid.items():
        values = [value for grid in grids for value in grid.get(key, [])]
        if unknown := [value for value in chosen if value not in values]:
            known = values or sorted({name for grid in grids for name in grid})
            raise ConfigError(f"presets.{preset.name}.grid: {key} has no value {unknown[0]}: try one of {known}")


def _chosen(key: str, values: list[Any], preset: Preset) -> list[Any]:
    """The values of a grid that a preset runs."""
    return [value for value in values if value in preset.grid.get(key, values)][: preset.points]


def _words(row: dict[str, Any], spec: dict[str, Any], preset: Preset, settings: dict[str, Any]) -> tuple[str, ...]:
    """What train.py gets for a row at one point: later words beat earlier ones."""
    own = [*spec.get("common", []), *row["overrides"], *(f"{key}={value}" for key, value in settings.items())]
    own = [word for word in own if key_of(word) not in preset.drop]
    return merge_words(own, preset.overrides, row.get("presets", {}).get(preset.name, []), preset.extra)


def _pick(value: Any, i: int, n: int, where: str) -> Any:
    """Entry i of a list that goes along a grid of n points, also inside a dictionary; else the value itself."""
    if isinstance(value, dict):
        return {key: _pick(item, i, n, f"{where}.{key}") for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) != n:
        raise ConfigError(f"{where} has {len(value)} values for {n} points of the grid: try a list of {n}")
    return value[i]


def merge_words(*groups: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The words of all groups in order; of several for one key the last one stays.

    Settings of evaluators that an `evaluator=[...]` among them leaves out go with them.
    """
    words = {key_of(word): word for group in groups for word in group}
    if "evaluator" in words:
        chosen = re.findall(r"\w+", words["evaluator"].partition("=")[2])
        words = {k: word for k, word in words.items() if not k.startswith("evaluator.") or k.split(".")[1] in chosen}
    return tuple(words.values())


def key_of(word: str) -> str:
    """The setting that a word such as `+loss.epsilon=0.1` is about."""
    return word.lstrip("+~").split("=", 1)[0]


def check_keys(node: dict[str, Any], known: set[str], where: str) -> None:
    """Raise ConfigError if a node of a table's YAML has a key that nothing reads."""
    unknown = sorted(node.keys() - known)
    if unknown:
        raise ConfigError(f"{where} has an unknown key {unknown[0]}: try one of {', '.join(sorted(known))}")
