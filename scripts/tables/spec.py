"""The tables that `make reproduce-table` runs, read and expanded here: one YAML each. Those of papers lie in
configs/table/NAME.yaml, the plans of our studies in studies/NAME/plan.yaml.

    title: Biased-MNIST                       # the comparison, without settings: the heading takes those from the runs
    note: What a reader must know.            # one paragraph below the heading
    seeds: [0, 1, 2]
    metrics: [knn_top1, linear_top1]          # columns: a name under `test` of result.json, or a dotted path into it
    metrics: {audit.linear.top1: linear probe, audit.reported.accuracy: reported}     # the same with headings
    minutes: 120                              # optional: of one run, until a finished run tells; also in a row
    needs_gpu: true                           # optional: the minutes are those of a GPU; false unless given
    config_dir: ../why                        # optional: components of its rows, as --config-dir; from here
    common: [epochs=80]                       # optional: overrides for every row; a row's own overrides beat them
    grid: {dataset.rho: [0.999, 0.997]}       # optional: every row runs at every point; the first key changes slowest
    rows:
      - name: FairKL                          # the grid's point is appended: "FairKL, rho 0.999"
        overrides: [experiment=eps_supinfonce_fairkl]
        published: {audit.reported.accuracy: [90.51 ± 1.55, 96.19 ± 0.23]}    # a list goes along the points of the grid
        source: Barbano et al. 2023           # optional, one text or a list along the grid
        zip: {regularizer.weight: [1, 5]}     # optional: further settings that go along the grid
        grid: {tau_plus: [0.01, 0.1]}         # optional: instead of the table's grid; {} = none
        presets: {small: [optimizer.lr=0.1]}  # optional: this row's further overrides in a preset; null = not run there
      - {name: ReBias, published: {audit.reported.accuracy: [22.7, 64.2]}}    # without overrides: quoted, never run
    claims:                                   # optional, judged by claims.py
      - {better: FairKL, worse: CE, metric: audit.linear.top1, gap: 1, source: "Barbano et al. 2023, Table 2"}
          # rows as they are named above: the claim holds at every point that both have; or one point, "CE, rho 0.999".
          # source: if it is a paper whose figures deny the claim at a point, "...; contradicted at rho 0.997, 0.99"
          # metric: one of the table's; gap: the least difference, in the unit of the metric, 0 unless given
    presets:                                  # `paper` runs the table as it stands
      small: [epochs=5, encoder.width=16]     # overrides for every row, which beat common and the row's
      smoke: {overrides: [dataset=digits, epochs=1], drop: [dataset.rho], seeds: [0], points: 1}
          # drop: settings left out of every row's overrides; points: how many points of each grid run, from the first;
          # grid: {dataset.rho: [0.997]} names the values of a grid that run

Published curves lie in curves/ beside the YAML, in a file of the same name:

    "FairKL, rho 0.999":                      # a row as it is named after expansion
      audit.linear.top1: {from: 1, values: [11.8, 20.1]}      # consecutive epochs from the first one
"""

import hashlib
import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import yaml

from contrastive.config import CONFIGS
from contrastive.config.identity import is_identity, key_of
from contrastive.errors import ConfigError
from contrastive.files import misfit
from contrastive.report.record import Claim
from contrastive.study.jobs import merge_overrides

PRESETS = ("paper", "small", "smoke")
STUDIES = CONFIGS.parent / "studies"
PLAN = "plan.yaml"


class RowSpec(TypedDict):
    """A row in a table's YAML."""

    name: str
    overrides: NotRequired[list[str]]
    published: NotRequired[dict[str, Any] | list[Any] | None]
    source: NotRequired[Any]
    zip: NotRequired[dict[str, list[Any]]]
    grid: NotRequired[dict[str, list[Any]]]
    presets: NotRequired[dict[str, Any]]
    minutes: NotRequired[float]


class PresetSpec(TypedDict, total=False):
    """A preset in a table's YAML."""

    overrides: list[str]
    drop: list[str]
    seeds: list[int]
    points: int
    grid: dict[str, list[Any]]


class TableSpec(TypedDict):
    """A table's YAML."""

    title: str
    note: NotRequired[str]
    seeds: NotRequired[list[int]]
    metrics: NotRequired[dict[str, str] | list[str]]
    minutes: NotRequired[float]
    common: NotRequired[list[str]]
    grid: NotRequired[dict[str, list[Any]]]
    rows: NotRequired[list[RowSpec]]
    presets: NotRequired[dict[str, PresetSpec | list[str]]]
    claims: NotRequired[list[dict[str, Any]]]
    needs_gpu: NotRequired[bool]
    config_dir: NotRequired[str]


Curves = dict[str, dict[str, Any]]  # published, of a row: {metric: {from: epoch, values: [...]}}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of a table. No overrides: a quoted figure that is never run."""

    name: str
    overrides: tuple[str, ...] = ()  # what train.py gets
    published: dict[str, str] = field(default_factory=dict)
    source: str = ""
    minutes: float | None = None
    point: str = ""  # of the grid, as it stands at the end of the name
    curves: Curves = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What a preset and the command line change in every row; the defaults are those of `paper`."""

    name: str = "paper"
    overrides: Sequence[str] = ()
    drop: Sequence[str] = ()  # settings left out of every row's overrides
    seeds: Sequence[int] | None = None  # None = the table's
    points: int | None = None  # of each grid, from the first; None = all
    grid: dict[str, list[Any]] = field(default_factory=dict)  # the values of a grid that run; all of a key left out
    extra: Sequence[str] = ()  # overrides of the command line


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with its grid expanded and a preset applied; `metrics` is {path into the result: heading}."""

    name: str
    title: str
    note: str
    preset: str
    extra: tuple[str, ...]  # overrides given on the command line for every row
    seeds: tuple[int, ...]
    metrics: dict[str, str]
    rows: tuple[Row, ...]
    config_dir: Path | None = None  # of components that its rows name
    needs_gpu: bool = False
    claims: tuple[Claim, ...] = ()

    @property
    def changes(self) -> list[str]:
        """Words of `extra` that change results, beyond their last bits."""
        return [word for word in self.extra if is_identity(key_of(word)) and key_of(word) != "reproducible"]

    @property
    def folder(self) -> str:
        """The name of the folder of the table's runs; settings that change no result have no part in it."""
        kept = repr(sorted(self.changes))
        digest = hashlib.sha256(kept.encode()).hexdigest()[:8] if self.changes else ""
        return "-".join(word for word in (self.name, "" if self.preset == "paper" else self.preset, digest) if word)


def table_paths(folders: Sequence[Path] = ()) -> dict[str, Path]:
    """{name: YAML} of papers' tables, of our studies, and of `table/` in one's own folders, which may replace them."""
    places = [CONFIGS.glob("table/*.yaml"), STUDIES.glob(f"*/{PLAN}"), *(own.glob("table/*.yaml") for own in folders)]
    return {table_name(path): path for place in places for path in sorted(place)}


def table_name(path: Path) -> str:
    """A table is called as its YAML, or as the folder that holds its plan.yaml."""
    return path.parent.name if path.name == PLAN else path.stem


def config_dirs(*tables: Table) -> list[Path]:
    """The folders of components that tables name, each once."""
    return list(dict.fromkeys(table.config_dir for table in tables if table.config_dir is not None))


def read_table(path: Path, *, preset: str = "paper", n_seeds: int | None = None, extra: tuple[str, ...] = ()) -> Table:
    """Read a table's YAML.

    Args:
        preset: one of PRESETS; any but `paper` must stand in the YAML.
        n_seeds: seeds 0 ... n - 1 instead of the table's.
        extra: overrides for every row, which beat all others.

    Raises:
        ConfigError: no seed, an unknown key or preset, a list whose length is not that of its grid, or a claim about a
            row or metric that the table does not have.
    """
    if n_seeds is not None and n_seeds < 1:
        raise ConfigError(f"--seeds must be at least 1, got {n_seeds}: try --seeds 3")
    spec: dict[str, Any] = yaml.safe_load(path.read_text())
    name, where = table_name(path), f"{path.parent.name}/{path.name}"
    if isinstance(spec, dict):
        check_keys(spec, TableSpec.__annotations__, where)
    if (place := misfit(spec, TableSpec)) is not None:
        raise ConfigError(f"{where}: {place or 'the whole'} is missing or of another kind: try as in docs/tables.md")
    known = ["paper", *spec.get("presets", {})]
    if preset not in known:
        raise ConfigError(f"{name} has no preset {preset}: try one of {', '.join(known)}")
    changes = spec.get("presets", {}).get(preset, {})
    changes = {"overrides": changes} if isinstance(changes, list) else changes
    check_keys(changes, PresetSpec.__annotations__, f"{where}: presets.{preset}")
    chosen = Preset(name=preset, extra=extra, **changes)
    curves = read_curves(path.parent / "curves" / path.name)
    rows = [replace(row, curves=curves.get(row.name, {})) for row in expand_rows(spec, chosen)]
    places = [folder_name(row.name) for row in rows if row.overrides]
    if twice := next((place for place in places if places.count(place) > 1), None):
        raise ConfigError(f"two rows of {name} have the folder {twice}: try names that differ in letters or numbers")
    metrics = spec.get("metrics", {})
    return Table(
        name=name,
        title=spec["title"],
        note=spec.get("note", ""),
        preset=preset,
        extra=extra,
        seeds=tuple(range(n_seeds) if n_seeds is not None else chosen.seeds or spec.get("seeds", [])),
        metrics=metrics if isinstance(metrics, dict) else {name: name for name in metrics},
        rows=tuple(rows),
        config_dir=(path.parent / spec["config_dir"]).resolve() if "config_dir" in spec else None,
        needs_gpu=spec.get("needs_gpu", False),
        claims=tuple(read_claims(spec, {row.name for row in rows})),
    )


def check_keys(node: dict[str, Any], known: Collection[str], where: str) -> None:
    """Raise ConfigError if a node of a table's YAML has a key that nothing reads."""
    unknown = sorted(node.keys() - set(known))
    if unknown:
        raise ConfigError(f"{where} has an unknown key {unknown[0]}: try one of {', '.join(sorted(known))}")


def read_curves(path: Path) -> dict[str, Curves]:
    """{row: published curves} of a table; none without the file."""
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def expand_rows(spec: dict[str, Any], preset: Preset) -> list[Row]:
    """Every row at every point of its grid; rows that share the table's grid stand together at each point.

    Raises:
        ConfigError: an unknown key or preset, a list that does not go along the grid, or a preset's value of no grid.
    """
    grids = [spec.get("grid", {}), *(row.get("grid", {}) for row in spec.get("rows", []))]
    check_keys(preset.grid, {key for grid in grids for key in grid}, f"presets.{preset.name}.grid")
    for key, chosen in preset.grid.items():
        values = [value for grid in grids for value in grid.get(key, [])]
        if unknown := [value for value in chosen if value not in values]:
            raise ConfigError(f"presets.{preset.name}.grid: {key} has no value {unknown[0]}: try one of {values}")
    for row in spec.get("rows", []):
        check_keys(row, RowSpec.__annotations__, f"row {row['name']}")
        check_keys(row.get("presets", {}), {"small", "smoke"}, f"row {row['name']}: presets")
    chosen = [row for row in spec.get("rows", []) if row.get("presets", {}).get(preset.name, []) is not None]
    shared = [row for row in chosen if "grid" not in row]
    rows: list[Row] = []
    for row in chosen:
        if "grid" in row:
            rows += _expand(row, spec, preset)
        elif row is shared[0]:
            at_points = zip(*(_expand(other, spec, preset) for other in shared), strict=True)
            rows += itertools.chain.from_iterable(at_points)
    return rows


def _expand(row: dict[str, Any], spec: dict[str, Any], preset: Preset) -> list[Row]:
    """One row of the YAML at the points of its grid that the preset runs."""
    grid: dict[str, list[Any]] = row.get("grid", spec.get("grid", {}))
    run = list(itertools.product(*(_chosen(key, values, preset) for key, values in grid.items())))
    points = list(itertools.product(*grid.values()))
    own_minutes = row.get("minutes", spec.get("minutes"))
    rows = []
    for i, point in enumerate(points):
        if point not in run:
            continue
        settings = dict(zip(grid, point, strict=True))
        place = ", ".join(f"{key.rpartition('.')[2]} {value}" for key, value in settings.items())
        zipped, published, source = (
            _pick(row.get(key), i, len(points), f"{row['name']}: {key}") for key in ("zip", "published", "source")
        )
        rows.append(Row(
            name=f"{row['name']}, {place}" if place else row["name"],
            overrides=_overrides(row, spec, preset, settings | (zipped or {})) if "overrides" in row else (),
            published={metric: str(value) for metric, value in (published or {}).items() if value is not None},
            source=str(source or ""),
            minutes=own_minutes if preset.name == "paper" else None,
            point=place,
        ))  # fmt: skip
    return rows


def _chosen(key: str, values: list[Any], preset: Preset) -> list[Any]:
    """The values of a grid that a preset runs."""
    return [value for value in values if value in preset.grid.get(key, values)][: preset.points]


def _pick(value: Any, i: int, n: int, where: str) -> Any:
    """Entry i of a list that goes along a grid of n points, also inside a dictionary; else the value itself."""
    if isinstance(value, dict):
        return {key: _pick(item, i, n, f"{where}.{key}") for key, item in value.items()}
    if not isinstance(value, list):
        return value
    if len(value) != n:
        raise ConfigError(f"{where} has {len(value)} values for {n} points of the grid: try a list of {n}")
    return value[i]


def _overrides(row: dict[str, Any], spec: dict[str, Any], preset: Preset, settings: dict[str, Any]) -> tuple[str, ...]:
    """What train.py gets for a row at one point: later overrides beat earlier ones."""
    own = [*spec.get("common", []), *row["overrides"], *(f"{key}={value}" for key, value in settings.items())]
    own = [word for word in own if key_of(word) not in preset.drop]
    return merge_overrides(own, preset.overrides, row.get("presets", {}).get(preset.name, []), preset.extra)


def read_claims(spec: dict[str, Any], names: set[str]) -> list[Claim]:
    """The claims between rows whose names, after expansion, are among `names`: a preset may run fewer points.

    Raises:
        ConfigError: an unknown key, a row or metric that the table does not have, or rows that share no point.
    """
    rows = [row for row in expand_rows(spec, Preset()) if row.overrides]
    metrics = list(spec.get("metrics", []))
    claims = [claim for node in spec.get("claims", []) for claim in _expand_claim(node, rows, metrics)]
    return [claim for claim in claims if {claim["better"], claim["worse"]} <= names]


def _expand_claim(node: dict[str, Any], rows: list[Row], metrics: list[str]) -> list[Claim]:
    """One claim of the YAML at every point of the grid that both of its rows have."""
    check_keys(node, set(Claim.__required_keys__), f"claim {node.get('better')} > {node.get('worse')}")
    if missing := sorted(Claim.__required_keys__ - {"gap"} - node.keys()):
        raise ConfigError(f"a claim of {node} lacks {missing[0]}: try {missing[0]}: ... in the table's YAML")
    if node["metric"] not in metrics:
        raise ConfigError(f"a claim names the metric {node['metric']}: try one of {', '.join(metrics)}")
    better, worse = (_rows_at_points(node[key], rows) for key in ("better", "worse"))
    pairs = [(b, w) for at, b in better.items() for other, w in worse.items() if at == other or None in (at, other)]
    if not pairs:
        raise ConfigError(
            f"the rows {node['better']} and {node['worse']} share no point: try their names with the point"
        )
    gap = float(node.get("gap", 0))
    return [Claim(better=b, worse=w, metric=node["metric"], gap=gap, source=node["source"]) for b, w in pairs]


def _rows_at_points(name: str, rows: list[Row]) -> dict[str | None, str]:
    """{point: full name} of a row named without its point; {None: name} of one named with it, which suits any point."""
    if any(row.name == name for row in rows):
        return {None: name}
    at_points: dict[str | None, str] = {row.point: row.name for row in rows if row.name == f"{name}, {row.point}"}
    if not at_points:
        raise ConfigError(f"a claim names the row {name}: try one of {'; '.join(row.name for row in rows)}")
    return at_points


def folder_name(row: str) -> str:
    """A row's name as the name of a folder."""
    return re.sub(r"[^\w.=-]+", "-", row).strip("-").lower()
