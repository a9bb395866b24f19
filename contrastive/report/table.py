"""The tables that `make reproduce-table` runs: one YAML each in configs/table/, read and expanded here.

    title: Biased-MNIST                       # the comparison, without settings: the heading takes those from the runs
    note: What a reader must know.            # one paragraph below the heading
    seeds: [0, 1, 2]
    metrics: [knn_top1, linear_top1]          # columns: a name under `test` of result.json, or a dotted path into it
    metrics: {audit.linear.top1: linear probe, audit.reported.accuracy: reported}     # the same with headings
    minutes: 120                              # optional: of one run, until a finished run tells; also in a row
    common: [epochs=80]                       # optional: words for every row; a row's own words beat them
    grid: {dataset.rho: [0.999, 0.997]}       # optional: every row runs at every point; the first key changes slowest
    rows:
      - name: FairKL                          # the grid's point is appended: "FairKL, rho 0.999"
        overrides: [experiment=eps_supinfonce_fairkl]
        published: {audit.reported.accuracy: [90.51 ± 1.55, 96.19 ± 0.23]}    # a list goes along the points of the grid
        source: Barbano et al. 2023           # optional, one text or a list along the grid
        zip: {regularizer.weight: [1, 5]}     # optional: further settings that go along the grid
        grid: {tau_plus: [0.01, 0.1]}         # optional: in place of the table's grid; {} = none
        presets: {small: [optimizer.lr=0.1]}  # optional: this row's further words in a preset
      - {name: ReBias, published: {audit.reported.accuracy: [22.7, 64.2]}}    # without overrides: quoted, never run
    presets:                                  # `paper` runs the table as it stands
      small: [epochs=5, encoder.width=16]     # words for every row, which beat common and the row's
      smoke: {overrides: [dataset=digits, epochs=1], drop: [dataset.rho], seeds: [0], points: 1}
          # drop: settings left out of every row's words; points: how many points of each grid run, from the first

`script: scripts/bounds.py` in place of seeds, metrics and rows names a program that needs no runs: it is called as
`python SCRIPT DIRECTORY PRESET` and writes NAME.md, NAME.json and its figures into DIRECTORY.
"""

import hashlib
import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from contrastive.errors import ConfigError
from contrastive.run.identity import is_identity

PRESETS = ("paper", "small", "smoke")
TABLE_KEYS = {"title", "note", "seeds", "metrics", "minutes", "common", "grid", "rows", "presets", "script"}
ROW_KEYS = {"name", "overrides", "published", "source", "zip", "grid", "presets", "minutes"}
PRESET_KEYS = {"overrides", "drop", "seeds", "points"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table. No words: a quoted figure that is never run."""

    name: str
    words: tuple[str, ...]
    published: dict[str, str]
    source: str
    minutes: float | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with its grid expanded and a preset applied; `metrics` is {path into the result: heading}."""

    name: str
    title: str
    note: str
    preset: str
    extra: tuple[str, ...]  # words given on the command line for every row
    seeds: tuple[int, ...]
    metrics: dict[str, str]
    rows: tuple[Row, ...]
    script: str | None = None

    @property
    def changes(self) -> list[str]:
        """Words of `extra` that change results."""
        return [word for word in self.extra if is_identity(_key(word))]

    @property
    def home(self) -> str:
        """The name of the folder of the table's runs; settings that change no result have no part in it."""
        kept = repr(sorted(self.changes))
        digest = hashlib.sha256(kept.encode()).hexdigest()[:8] if self.changes else ""
        return "-".join(word for word in (self.name, "" if self.preset == "paper" else self.preset, digest) if word)

    @property
    def jobs(self) -> list[tuple[Row, int]]:
        """Every (row, seed) that is run."""
        return [(row, seed) for row in self.rows if row.words for seed in self.seeds]


def read_table(path: Path, *, preset: str = "paper", n_seeds: int | None = None, extra: tuple[str, ...] = ()) -> Table:
    """Read a table's YAML.

    Args:
        preset: one of PRESETS; any but `paper` must stand in the YAML. n_seeds: seeds 0 ... n - 1 in place of the
            table's. extra: words for every row, which beat all others.

    Raises:
        ConfigError: an unknown key or preset, or a list whose length is not that of its grid.
    """
    spec: dict[str, Any] = yaml.safe_load(path.read_text())
    _check_keys(spec, TABLE_KEYS, path.name)
    if preset not in PRESETS or (preset != "paper" and preset not in spec.get("presets", {})):
        known = [name for name in PRESETS if name == "paper" or name in spec.get("presets", {})]
        raise ConfigError(f"{path.stem} has no preset {preset}, known are {', '.join(known)}: try PRESET={known[-1]}")
    chosen = spec.get("presets", {}).get(preset, {})
    chosen = {"overrides": chosen} if isinstance(chosen, list) else chosen
    _check_keys(chosen, PRESET_KEYS, f"{path.name}: presets.{preset}")
    seeds = range(n_seeds) if n_seeds else chosen.get("seeds", spec.get("seeds", []))
    metrics = spec.get("metrics", {})
    return Table(
        name=path.stem,
        title=spec["title"],
        note=spec.get("note", ""),
        preset=preset,
        extra=extra,
        seeds=tuple(seeds),
        metrics=metrics if isinstance(metrics, dict) else {name: name for name in metrics},
        rows=tuple(_rows(spec, preset, chosen, extra)),
        script=spec.get("script"),
    )


def _rows(spec: dict[str, Any], preset: str, chosen: dict[str, Any], extra: tuple[str, ...]) -> list[Row]:
    """Every row at every point of its grid; rows that share the table's grid stand together at each point."""
    shared = [row for row in spec.get("rows", []) if "grid" not in row]
    expanded = {id(row): _expand(row, spec, preset, chosen, extra) for row in spec.get("rows", [])}
    rows: list[Row] = []
    for row in spec.get("rows", []):
        if "grid" in row:
            rows += expanded[id(row)]
        elif row is shared[0]:
            rows += [
                point for at_point in zip(*(expanded[id(other)] for other in shared), strict=True) for point in at_point
            ]
    return rows


def _expand(
    row: dict[str, Any], spec: dict[str, Any], preset: str, chosen: dict[str, Any], extra: tuple[str, ...]
) -> list[Row]:
    """One row of the YAML at the points of its grid."""
    _check_keys(row, ROW_KEYS, f"row {row.get('name')}")
    grid: dict[str, list[Any]] = row.get("grid", spec.get("grid", {}))
    limit = chosen.get("points")
    rows = []
    points = list(itertools.product(*(list(enumerate(values)) for values in grid.values())))
    for i, point in enumerate(points):
        if limit is not None and any(index >= limit for index, _ in point):
            continue
        settings = {key: value for key, (_, value) in zip(grid, point, strict=True)}
        along = {
            key: _at(values, i, len(points), f"{row['name']}: zip.{key}") for key, values in row.get("zip", {}).items()
        }
        words: tuple[str, ...] = ()
        if "overrides" in row:
            own = [*row["overrides"], *(f"{key}={value}" for key, value in {**settings, **along}.items())]
            own = [word for word in [*spec.get("common", []), *own] if _key(word) not in chosen.get("drop", [])]
            words = merge_words(own, chosen.get("overrides", []), row.get("presets", {}).get(preset, []), extra)
        rows.append(
            Row(
                name=", ".join(
                    [row["name"], *(f"{key.rpartition('.')[2]} {value}" for key, value in settings.items())]
                ),
                words=words,
                published=_published(row, i, len(points)),
                source=str(_at(row.get("source", ""), i, len(points), f"{row['name']}: source")),
                minutes=row.get("minutes", spec.get("minutes")) if preset == "paper" else None,
            )
        )
    return rows


def _published(row: dict[str, Any], i: int, n: int) -> dict[str, str]:
    figures = {
        metric: _at(value, i, n, f"{row['name']}: published.{metric}")
        for metric, value in row.get("published", {}).items()
    }
    return {metric: str(value) for metric, value in figures.items() if value is not None}


def _at(value: Any, i: int, n: int, where: str) -> Any:
    """Entry i of a list that goes along a grid of n points; a single value stands for every point."""
    if not isinstance(value, list):
        return value
    if len(value) != n:
        raise ConfigError(f"{where} has {len(value)} values for {n} points of the grid: try a list of {n}")
    return value[i]


def merge_words(*groups: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The words of all groups in order; of several for one key the last one stays.

    Settings of evaluators that an `evaluator=[...]` among them leaves out go with them.
    """
    words = {_key(word): word for group in groups for word in group}
    if "evaluator" in words:
        chosen = re.findall(r"\w+", words["evaluator"].partition("=")[2])
        words = {k: word for k, word in words.items() if not k.startswith("evaluator.") or k.split(".")[1] in chosen}
    return tuple(words.values())


def _key(word: str) -> str:
    return word.lstrip("+~").split("=", 1)[0]


def _check_keys(node: dict[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(node.keys() - known)
    if unknown:
        raise ConfigError(f"{where} has an unknown key {unknown[0]}: try one of {', '.join(sorted(known))}")


def row_folder(row: Row, base: Path) -> Path:
    """Where a row's runs are: base/<its name>/seed=N."""
    return base / re.sub(r"[^\w.=-]+", "-", row.name).strip("-").lower()


def look_up(result: dict[str, Any], metric: str) -> float | None:
    """A dotted path into a result, or a name under its `test`; None when the run has no such figure."""
    node: Any = result
    for key in (metric if "." in metric else f"test.{metric}").split("."):
        node = node.get(key) if isinstance(node, dict) else None
    return None if node is None else float(node)
