"""The tables that `make reproduce-table` runs: one YAML each in configs/table/, read and expanded here.

    title: Biased-MNIST                       # the comparison, without settings: the heading takes those from the runs
    note: What a reader must know.            # one paragraph below the heading
    seeds: [0, 1, 2]
    metrics: [knn_top1, linear_top1]          # columns: a name under `test` of result.json, or a dotted path into it
    metrics: {audit.linear.top1: linear probe, audit.reported.accuracy: reported}     # the same with headings
    minutes: 120                              # optional: of one run, until a finished run tells; also in a row
    needs_gpu: true                           # optional: the minutes are those of a GPU; false unless given
    common: [epochs=80]                       # optional: words for every row; a row's own words beat them
    grid: {dataset.rho: [0.999, 0.997]}       # optional: every row runs at every point; the first key changes slowest
    rows:
      - name: FairKL                          # the grid's point is appended: "FairKL, rho 0.999"
        overrides: [experiment=eps_supinfonce_fairkl]
        published: {audit.reported.accuracy: [90.51 ± 1.55, 96.19 ± 0.23]}    # a list goes along the points of the grid
        source: Barbano et al. 2023           # optional, one text or a list along the grid
        zip: {regularizer.weight: [1, 5]}     # optional: further settings that go along the grid
        grid: {tau_plus: [0.01, 0.1]}         # optional: in place of the table's grid; {} = none
        presets: {small: [optimizer.lr=0.1]}  # optional: this row's further words in a preset; null = not run there
      - {name: ReBias, published: {audit.reported.accuracy: [22.7, 64.2]}}    # without overrides: quoted, never run
    claims:                                   # optional, judged by `contrastive.report.verdicts`
      - {better: FairKL, worse: CE, metric: audit.linear.top1, gap: 1, source: "Barbano et al. 2023, Table 2"}
          # rows as they are named above: the claim holds at every point that both have; or one point, "CE, rho 0.999".
          # metric: one of the table's; gap: the least difference, in the unit of the metric, 0 unless given
    presets:                                  # `paper` runs the table as it stands
      small: [epochs=5, encoder.width=16]     # words for every row, which beat common and the row's
      smoke: {overrides: [dataset=digits, epochs=1], drop: [dataset.rho], seeds: [0], points: 1}
          # drop: settings left out of every row's words; points: how many points of each grid run, from the first;
          # grid: {dataset.rho: [0.997]} names the values of a grid that run

Published curves lie in curves/ beside the YAML, in a file of the same name:

    "FairKL, rho 0.999":                      # a row as it is named after expansion
      audit.linear.top1: {from: 1, values: [11.8, 20.1]}      # consecutive epochs from the first one

`script: scripts/bounds.py` in place of seeds, metrics and rows names a program that needs no runs: it is called as
`python SCRIPT DIRECTORY PRESET` and writes NAME.md, NAME.json and its figures into DIRECTORY.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from contrastive.errors import ConfigError
from contrastive.report.claims import Claim, read_claims
from contrastive.report.rows import Preset, Row, check_keys, expand_rows, key_of
from contrastive.run.identity import is_identity

Curves = dict[str, dict[str, Any]]  # published, of a row: {metric: {from: epoch, values: [...]}}
PRESETS = ("paper", "small", "smoke")
TABLE_KEYS = {
    "title",
    "note",
    "seeds",
    "metrics",
    "minutes",
    "common",
    "grid",
    "rows",
    "presets",
    "script",
    "claims",
    "needs_gpu",
}
PRESET_KEYS = {"overrides", "drop", "seeds", "points", "grid"}


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
    needs_gpu: bool = False
    claims: tuple[Claim, ...] = ()
    curves: dict[str, Curves] = field(default_factory=dict)

    @property
    def changes(self) -> list[str]:
        """Words of `extra` that change results."""
        return [word for word in self.extra if is_identity(key_of(word))]

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
        ConfigError: an unknown key or preset, a list whose length is not that of its grid, or a claim about a row or
            metric that the table does not have.
    """
    spec: dict[str, Any] = yaml.safe_load(path.read_text())
    check_keys(spec, TABLE_KEYS, path.name)
    if preset not in PRESETS or (preset != "paper" and preset not in spec.get("presets", {})):
        known = [name for name in PRESETS if name == "paper" or name in spec.get("presets", {})]
        raise ConfigError(f"{path.stem} has no preset {preset}, known are {', '.join(known)}: try PRESET={known[-1]}")
    chosen = spec.get("presets", {}).get(preset, {})
    chosen = {"overrides": chosen} if isinstance(chosen, list) else chosen
    check_keys(chosen, PRESET_KEYS, f"{path.name}: presets.{preset}")
    seeds = range(n_seeds) if n_seeds else chosen.get("seeds", spec.get("seeds", []))
    metrics = spec.get("metrics", {})
    changes = Preset(
        name=preset,
        overrides=tuple(chosen.get("overrides", [])),
        drop=tuple(chosen.get("drop", [])),
        points=chosen.get("points"),
        grid=chosen.get("grid", {}),
        extra=extra,
    )
    rows = tuple(expand_rows(spec, changes))
    if any(word.lstrip("+").startswith("trust=") for row in rows for word in set(row.words) - set(extra)):
        raise ConfigError(f"{path} cannot vouch for modules: try ARGS='trust=[...]' on the command line")
    return Table(
        name=path.stem,
        title=spec["title"],
        note=spec.get("note", ""),
        preset=preset,
        extra=extra,
        seeds=tuple(seeds),
        metrics=metrics if isinstance(metrics, dict) else {name: name for name in metrics},
        rows=rows,
        script=spec.get("script"),
        needs_gpu=spec.get("needs_gpu", False),
        claims=tuple(read_claims(spec, {row.name for row in rows})),
        curves=read_curves(path.parent / "curves" / path.name),
    )


def read_curves(path: Path) -> dict[str, Curves]:
    """{row: published curves} of a table; none without the file."""
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def row_folder(row: Row, base: Path) -> Path:
    """Where a row's runs are: base/<its name>/seed=N."""
    return base / folder_name(row.name)


def folder_name(row: str) -> str:
    """A row's name as the name of a folder."""
    return re.sub(r"[^\w.=-]+", "-", row).strip("-").lower()


def look_up(result: dict[str, Any], metric: str) -> float | None:
    """A dotted path into a result, or a name under its `test`; None when the run has no such figure."""
    node: Any = result
    for key in (metric if "." in metric else f"test.{metric}").split("."):
        node = node.get(key) if isinstance(node, dict) else None
    return None if node is None else float(node)


def is_published_setting(record: dict[str, Any]) -> bool:
    """Whether a table's runs had the settings of its rows: no preset, no further words."""
    return record["preset"] == "paper" and not record["extra"]


def published_heading(record: dict[str, Any]) -> str:
    """The heading of published figures beside ours."""
    return "published" if is_published_setting(record) else "published (other setting)"


def published_number(text: str) -> float | None:
    """The number at the start of a published figure such as `74.3 ± 0.2`; None when there is none."""
    number = re.match(r"-?\d+(\.\d+)?", text)
    return float(number[0]) if number else None
