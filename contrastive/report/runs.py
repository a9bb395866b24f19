"""Finished runs as one table: a line for each figure of each run and of its later evaluations.

Runs that differ in nothing but the seed are one row of what is printed. A setting that a run does not have is a value
like any other. Settings of evaluators belong to the figures: a figure under other settings is another metric.
"""

import json
import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from contrastive.errors import ConfigError
from contrastive.report.names import distinguish, option_name
from contrastive.run.files import read_config, read_environment, read_evaluations, read_result
from contrastive.run.identity import identity, is_identity

LOWER_IS_BETTER = ("alignment_uniformity_alignment", "alignment_uniformity_uniformity")
COLUMNS = ["section", "row", "seed", "path", "processor", "split", "metric", "protocol", "value"]
MADE_WITH = ("commit", "code", "torch", "precision", "threads", "processes", "compile")  # in environment.json


class Run(NamedTuple):
    """A finished run as it lies on the disk; `settings` is its identity by dotted keys, seed and evaluators apart."""

    path: Path
    seed: int
    settings: dict[str, Any]
    config: dict[str, Any]
    result: dict[str, Any]
    environment: dict[str, Any]

    @property
    def processor(self) -> str:
        """Its kind: the GPU's name or the CPU's model."""
        return str(self.environment.get("processor", self.environment.get("device")))


class Figure(NamedTuple):
    """One number: the settings of its evaluator, and of the dataset if it is not that of the training, are in JSON."""

    split: str  # test | val
    metric: str
    protocol: str
    value: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """Runs of one configuration.

    Attributes:
        section: the dataset. name: what tells the row from the others of its section.
        settings: by dotted keys. runs: by seed; several of one seed differ in their evaluators alone.
    """

    section: str
    name: str
    settings: dict[str, Any]
    runs: dict[int, list[Run]]

    @property
    def loss(self) -> str:
        """The loss as an option."""
        return option_name(self.settings["loss._target_"])

    @property
    def paths(self) -> list[Path]:
        """The run directories in the order of the seeds."""
        return [run.path for seed in sorted(self.runs) for run in self.runs[seed]]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Rows, their figures as a table with COLUMNS, and a sentence for each run that is left out."""

    rows: list[Row]
    figures: pd.DataFrame
    notes: list[str]

    @property
    def sections(self) -> dict[str, "Runs"]:
        """The runs of each dataset, without notes."""
        return {
            name: Runs(
                rows=[row for row in self.rows if row.section == name],
                figures=self.figures[self.figures.section == name],
                notes=[],
            )
            for name in dict.fromkeys(row.section for row in self.rows)
        }

    def metrics(self, split: str = "test") -> list[str]:
        """Every metric that some run has on `test` or `val`."""
        return list(self.figures.metric[self.figures.split == split].unique())

    def values(self, row: Row, metric: str, split: str = "test") -> dict[int, float]:
        """{seed: figure}, in the order of the seeds."""
        figures = self.figures
        own = figures[(figures.row == row.name) & (figures.metric == metric) & (figures.split == split)]
        return dict(sorted(zip(own.seed, own.value, strict=True)))

    def check_metric(self, metric: str, split: str = "test") -> None:
        """Raise ConfigError unless some run has the metric."""
        known = self.metrics(split)
        if metric not in known:
            example = f"try {shlex.quote(known[0])}" if known else "try runs with evaluators"
            raise ConfigError(f"no run has {metric}, known are {', '.join(known) or 'none'}: {example}")

    def sorted_by_name(self) -> "Runs":
        """The rows by loss, the one of which nothing else is to be said first."""
        return replace(self, rows=sorted(self.rows, key=lambda row: (row.loss, row.name != row.loss, row.name)))

    def sorted_by(self, metric: str, split: str = "test") -> "Runs":
        """The rows by the mean of a metric, best first; those without it last."""
        own = self.figures[(self.figures.split == split) & (self.figures.metric == metric)]
        sign = 1 if metric.rpartition(":")[2].partition(" ")[0] in LOWER_IS_BETTER else -1
        means = sign * own.groupby("row").value.mean()
        return replace(self, rows=sorted(self.rows, key=lambda row: means.get(row.name, math.inf)))

    def mixed(self) -> list[str]:
        """A sentence for each row whose runs were computed on several kinds of processor."""
        kinds = {row.name: sorted({run.processor for runs in row.runs.values() for run in runs}) for row in self.rows}
        return [
            f"{name}: its runs are of several kinds of processor ({', '.join(own)})"
            for name, own in kinds.items()
            if len(own) > 1
        ]


def read_runs(folders: list[Path], *, by_dataset: bool = True) -> Runs:
    """Every finished run below the folders.

    Args:
        by_dataset: False = all runs are one section, in the order of the folders.

    Raises:
        ConfigError: a folder is missing, no run is finished, or two runs of equal settings and seed are not equal.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder: try python -m contrastive.report table outputs")
    found, notes = _find(folders)
    if not found:
        example = "; ".join([*notes, "try python train.py first"])
        raise ConfigError(f"no finished run under {', '.join(map(str, folders))}: {example}")
    datasets: dict[str, list[tuple[dict[str, Any], dict[int, list[Run]]]]] = {}
    for settings, members in _groups(found):
        runs, repeated = _by_seed(members)
        notes += repeated
        datasets.setdefault(dataset_name(members[0]), []).append((settings, runs))
    sections = [_rows(dataset, groups) for dataset, groups in datasets.items()]
    if not by_dataset:
        sections = [[_in_one_section(row, len(sections)) for rows in sections for row in rows]]
    return Runs(
        rows=[row for rows in sections for row in rows],
        figures=pd.concat([_table(rows) for rows in sections], ignore_index=True),
        notes=notes,
    )


def _in_one_section(row: Row, n_datasets: int) -> Row:
    """The row named by its dataset, too, where there are several."""
    return replace(row, section="", name=f"{row.section} {row.name}" if n_datasets > 1 else row.name)


def dataset_name(run: Run) -> str:
    """The dataset's option; an image folder adds its own name."""
    node = run.config["dataset"]
    name = node["name"] or Path(str(node.get("root"))).name if "name" in node else ""
    return "-".join([option_name(node["_target_"]), *([name] if name else [])])


def _find(folders: list[Path]) -> tuple[list[Run], list[str]]:
    """The finished runs in the order of the folders, and a sentence for each that cannot be read."""
    runs, notes = [], []
    for path in dict.fromkeys(path.parent for folder in folders for path in sorted(folder.rglob("result.json"))):
        if (result := read_result(path)) is None:
            notes.append(f"{path} holds a damaged result.json and is not counted")
            continue
        try:
            config, environment = read_config(path), read_environment(path)
        except ConfigError as error:
            notes.append(f"{error}; the run is not counted")
            continue
        settings = {key: value for key, value in identity(config).items() if key.partition(".")[0] != "evaluator"}
        del settings["seed"]
        runs.append(Run(path, config["seed"], settings, config, result, environment))
    return runs, notes


def _groups(runs: list[Run]) -> list[tuple[dict[str, Any], list[Run]]]:
    """(settings, runs that have exactly these).

    `dataset.data_seed` is left out where it is the seed of every run: their bias maps belong to the spread over seeds.
    Else the data are a setting wherever the others do not tell them, as with a folder whose images changed.
    """
    same_but_map: dict[str, list[Run]] = {}
    for run in runs:
        rest = {key: value for key, value in run.settings.items() if key != "dataset.data_seed"}
        same_but_map.setdefault(_key(rest), []).append(run)
    groups: dict[str, tuple[dict[str, Any], list[Run]]] = {}
    for own in same_but_map.values():
        draws_maps = all(run.settings.get("dataset.data_seed") == run.seed for run in own)
        data = {(_key(run.settings), run.environment["data"]) for run in own}
        for run in own:
            settings = dict(run.settings)
            if draws_maps:
                del settings["dataset.data_seed"]
            elif sum(key == _key(run.settings) for key, _ in data) > 1:
                settings["data"] = run.environment["data"][:8]
            groups.setdefault(_key(settings), (settings, []))[1].append(run)
    return list(groups.values())


def _key(settings: dict[str, Any]) -> str:
    """Equal for equal settings; 1.0 is 1, as it is to a resume."""
    plain = {key: int(v) if isinstance(v, float) and v.is_integer() else v for key, v in settings.items()}
    return json.dumps(plain, sort_keys=True, default=str)


def _by_seed(runs: list[Run]) -> tuple[dict[int, list[Run]], list[str]]:
    """The runs of one configuration by seed, and a sentence for each that is there twice.

    Raises:
        ConfigError: two of one seed differ in more than their evaluators.
    """
    by_seed: dict[int, list[Run]] = {}
    repeated = []
    for run in runs:
        others = by_seed.setdefault(run.seed, [])
        for other in others:
            if difference := _difference(other, run):
                raise ConfigError(
                    f"{other.path} and {run.path} have one configuration and seed {run.seed}, but differ in "
                    f"{difference}: try again without one of them"
                )
        if twin := next((other for other in others if other.config["evaluator"] == run.config["evaluator"]), None):
            repeated.append(f"{run.path} repeats {twin.path} (equal settings, seed and data) and is not counted")
        others.append(run)
    return by_seed, repeated


def _difference(a: Run, b: Run) -> str:
    """What tells two runs of one configuration and seed apart, other than their evaluators; empty if nothing does."""
    for word, x, y in (
        ("data", a.environment["data"][:8], b.environment["data"][:8]),
        ("processor", a.processor, b.processor),
    ):
        if x != y:
            return f"{word}, {x} and {y}"
    ours, theirs = ({figure[:3]: figure.value for figure in own_figures(run)} for run in (a, b))
    for name in ours:
        if name in theirs and ours[name] != theirs[name]:
            figure = f"{name[1]}, {ours[name]:.4f} and {theirs[name]:.4f}"
            key = next((key for key in MADE_WITH if a.environment.get(key) != b.environment.get(key)), None)
            return (
                f"{key}, {a.environment.get(key)} and {b.environment.get(key)}, and so in {figure}" if key else figure
            )
    return ""


def own_figures(run: Run) -> Iterator[Figure]:
    """What the run itself measured."""
    for split in ("test", "val"):
        for metric, value in run.result[split].items():
            yield Figure(split, metric, _protocol(metric, run.config["evaluator"]), value)


def later_figures(run: Run) -> Iterator[tuple[str, Figure]]:
    """(time, figure) of each evaluation in RUN/evaluation/; on another dataset a metric is called `dataset:metric`."""
    for record in read_evaluations(run.path).values():
        dataset = _kept(record["settings"]["dataset"], "dataset")
        if "name" in dataset:  # an image folder: two may have one name
            dataset["root"] = record["settings"]["dataset"]["root"]
        dataset.pop("size", None)  # that of the images which the encoder was trained on
        is_own = not record["is_transfer"] and _kept(record["settings"]["dataset"], "dataset") == _kept(
            run.config["dataset"], "dataset"
        )
        prefix = f"{record['dataset']}:" if record["is_transfer"] else ""
        for split in ("test", "val"):
            for metric, value in record[split].items():
                protocol = _protocol(metric, record["settings"]["evaluator"], {} if is_own else {"dataset": dataset})
                yield str(record["time"]["finished"]), Figure(split, f"{prefix}{metric}", protocol, value)


def _protocol(metric: str, evaluators: dict[str, Any], others: dict[str, Any] | None = None) -> str:
    """What a metric was computed with: the settings of the evaluator that it is named after."""
    owners = [name for name in evaluators if f"{metric}_".startswith(f"{name}_")]
    own = {name: _kept(evaluators[name], f"evaluator.{name}") for name in [max(owners, key=len)]} if owners else {}
    return json.dumps({**own, **(others or {})}, sort_keys=True)


def _kept(node: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The settings of a node that can change a figure."""
    return {key: value for key, value in node.items() if is_identity(f"{prefix}.{key}")}


def _rows(section: str, groups: list[tuple[dict[str, Any], dict[int, list[Run]]]]) -> list[Row]:
    """The rows of a section with their names."""
    first = [next(iter(runs.values()))[0] for _, runs in groups]
    names = distinguish(
        [nested(settings) for settings, _ in groups],
        plain=[option_name(run.config["loss"]["_target_"]) for run in first],
        typed=[run.environment.get("overrides") or [] for run in first],
    )
    return [
        Row(section=section, name=name, settings=settings, runs=runs)
        for name, (settings, runs) in zip(names, groups, strict=True)
    ]


def _table(rows: list[Row]) -> pd.DataFrame:
    """The figures of a section's rows: of each seed the runs' own before those of later evaluations, newest first."""
    lines = []
    for row in rows:
        for seed, runs in row.runs.items():
            own = [("", run, figure) for run in runs for figure in own_figures(run)]
            later = [(time, run, figure) for run in runs for time, figure in later_figures(run)]
            for _, run, figure in [*own, *sorted(later, key=lambda item: item[0], reverse=True)]:
                lines.append([row.section, row.name, seed, run.path, run.processor, *figure])
    table = pd.DataFrame(lines, columns=COLUMNS).drop_duplicates(["row", "seed", "split", "metric", "protocol"])
    names: dict[tuple[str, str], str] = {}
    for metric, protocols in table.groupby("metric", sort=False).protocol.unique().items():
        told = distinguish([json.loads(text) for text in protocols], [""] * len(protocols), [[]] * len(protocols))
        names |= {
            (str(metric), p): f"{metric} ({w})" if w else str(metric) for p, w in zip(protocols, told, strict=True)
        }
    return table.assign(metric=[names[key] for key in zip(table.metric, table.protocol, strict=True)])


def nested(settings: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys as nested dictionaries: the opposite of `flatten`."""
    tree: dict[str, Any] = {}
    for key, value in settings.items():
        *path, last = key.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return tree
