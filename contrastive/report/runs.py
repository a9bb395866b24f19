"""Finished runs as rows of a table, with every figure of the runs and of their later evaluations.

Runs that differ in nothing but the seed are one row. A setting that a run does not have is a value like any other.
Settings of evaluators belong to the figures: a figure under other settings is another metric.
"""

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from contrastive.errors import ConfigError
from contrastive.report.names import distinguish, option_name
from contrastive.run.figures import is_detail, test_figures
from contrastive.run.files import RunState, read_evaluations, run_state
from contrastive.run.identity import flatten, identity, is_identity

LOWER_IS_BETTER = ("alignment_uniformity_alignment", "alignment_uniformity_uniformity")
MADE_WITH = ("commit", "code", "torch", "precision", "threads", "processes", "compile")  # in environment.json
DATA_SEED = "dataset.data_seed"
N_NAMED = 8  # unfinished runs in a sentence


class Run(NamedTuple):
    """A finished run as it lies on the disk; `settings` is its identity by dotted keys, seed and evaluators apart."""

    path: Path
    seed: int
    settings: dict[str, Any]
    files: RunState

    @property
    def processor(self) -> str:
        """Its kind: the GPU's name or the CPU's model."""
        return str(self.files.environment.get("processor", self.files.environment.get("device")))

    @property
    def dataset(self) -> str:
        """The dataset's option; an image folder adds its own name."""
        node = self.files.config["dataset"]
        name = node["name"] or Path(str(node.get("root"))).name if "name" in node else ""
        return "-".join([option_name(node["_target_"]), *([name] if name else [])])


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
        figures: {(split, metric): {seed: value}}, in the order of the seeds.
    """

    section: str
    name: str
    settings: dict[str, Any]
    runs: dict[int, list[Run]]
    figures: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)

    @property
    def loss(self) -> str:
        """The loss as an option."""
        return option_name(self.settings["loss._target_"])

    @property
    def paths(self) -> list[Path]:
        """The run directories in the order of the seeds."""
        return [run.path for runs in self.runs.values() for run in runs]

    @property
    def processors(self) -> list[str]:
        """The kinds of processor of its runs."""
        return sorted({run.processor for runs in self.runs.values() for run in runs})


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Rows, and a sentence for each run that is left out."""

    rows: list[Row]
    notes: list[str] = field(default_factory=list)

    @property
    def sections(self) -> dict[str, "Runs"]:
        """The runs of each dataset, without notes."""
        names = dict.fromkeys(row.section for row in self.rows)
        return {name: Runs(rows=[row for row in self.rows if row.section == name]) for name in names}

    @property
    def differing(self) -> list[str]:
        """The settings in which the rows differ, by dotted keys."""
        keys = dict.fromkeys(key for row in self.rows for key in row.settings)
        return [key for key in keys if len({str(row.settings.get(key)) for row in self.rows}) > 1]

    def metrics(self, split: str = "test") -> list[str]:
        """Every metric that some run has on `test` or `val`."""
        return list(dict.fromkeys(metric for row in self.rows for of, metric in row.figures if of == split))

    def values(self, row: Row, metric: str, split: str = "test") -> dict[int, float]:
        """{seed: figure}, in the order of the seeds."""
        return row.figures.get((split, metric), {})

    def columns(self, chosen: list[str] | None = None) -> list[str]:
        """The chosen metrics, or else those on the test split without the details of bias groups.

        Raises:
            ConfigError: no run has a chosen one.
        """
        for metric in chosen or ():
            self.check_metric(metric)
        return chosen or [metric for metric in self.metrics() if not is_detail(metric)]

    def check_metric(self, metric: str, split: str = "test") -> None:
        """Raise ConfigError unless some run has the metric."""
        known = self.metrics(split)
        if metric not in known:
            example = f"try {shlex.quote(known[0])}" if known else "try runs with evaluators"
            named = [name for name in known if "_top1/" not in name]  # of single bias groups there may be hundreds
            more = f" and {len(known) - len(named)} of single bias groups" if len(named) < len(known) else ""
            raise ConfigError(f"no run has {metric}, known are {', '.join(named) or 'none'}{more}: {example}")

    def sorted_by_name(self) -> "Runs":
        """The rows by loss, the one of which nothing else is to be said first."""
        return replace(self, rows=sorted(self.rows, key=lambda row: (row.loss, row.name != row.loss, row.name)))

    def sorted_by(self, metric: str, split: str = "test") -> "Runs":
        """The rows by the mean of a metric, best first; those without it last."""
        sign = 1 if metric.rpartition(":")[2].partition(" ")[0] in LOWER_IS_BETTER else -1

        def place(row: Row) -> float:
            values = self.values(row, metric, split).values()
            return sign * mean(values) if values else math.inf

        return replace(self, rows=sorted(self.rows, key=place))

    def mixed(self) -> list[str]:
        """A sentence for each row whose runs were computed on several kinds of processor."""
        return [
            f"{row.name}: its runs are of several kinds of processor ({', '.join(row.processors)})"
            for row in self.rows
            if len(row.processors) > 1
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
            raise ConfigError(f"{folder} is not a folder: try outputs, or another folder of finished runs")
    found, notes = _find(folders)
    if not found:
        example = "; ".join([*notes, "try python train.py first"])
        raise ConfigError(f"no finished run under {', '.join(map(str, folders))}: {example}")
    datasets: dict[str, list[Group]] = {}
    for settings, members in _groups(found):
        runs, repeated = _by_seed(members)
        notes += repeated
        datasets.setdefault(members[0].dataset, []).append((settings, runs))
    sections = [_rows(dataset, groups) for dataset, groups in datasets.items()]
    if not by_dataset:
        rows = [row for rows in sections for row in rows]
        names = [f"{row.section} {row.name}" if len(sections) > 1 else row.name for row in rows]
        sections = [[replace(row, section="", name=name) for row, name in zip(rows, names, strict=True)]]
    return Runs(rows=[row for rows in sections for row in _with_figures(rows)], notes=notes)


def _find(folders: list[Path]) -> tuple[list[Run], list[str]]:
    """The finished runs in the order of the folders, and sentences about those that are not counted."""
    runs, notes = [], []
    for path in dict.fromkeys(path.parent for folder in folders for path in sorted(folder.rglob("result.json"))):
        files = run_state(path)
        if files.kind != "finished":
            notes.append(f"{files.reason or f'{path} holds a damaged result.json'}; the run is not counted")
            continue
        settings = {key: value for key, value in identity(files.config).items() if not key.startswith("evaluator")}
        runs.append(Run(path, settings.pop("seed"), settings, files))
    _join_sources(runs)
    begun = dict.fromkeys(file.parent for folder in folders for file in sorted(folder.rglob("environment.json")))
    if unfinished := [str(path) for path in begun if not (path / "result.json").exists()]:
        more = f" and {len(unfinished) - N_NAMED} more" if len(unfinished) > N_NAMED else ""
        notes.append(f"not finished and not counted: {', '.join(unfinished[:N_NAMED])}{more}")
    return runs, notes


def _join_sources(runs: list[Run]) -> None:
    """Give one name to the `bias_from` that each seed has of its own, which belong to the spread over seeds."""
    alike: dict[str, set[int]] = {}
    keys = [_key({k: v for k, v in run.settings.items() if k != DATA_SEED}) for run in runs]
    for run, key in zip(runs, keys, strict=True):
        alike.setdefault(key, set()).add(run.seed)
    for run, key in zip(runs, keys, strict=True):
        if (source := run.settings.get("bias_from")) and len(alike[key]) == 1:  # else several seeds share it
            run.settings["bias_from"] = re.sub(rf"seed={run.seed}(?!\d)", "seed=SEED", str(source))


Group = tuple[dict[str, Any], dict[int, list[Run]]]  # settings, and the runs that have exactly these by seed


def _groups(runs: list[Run]) -> Iterator[tuple[dict[str, Any], list[Run]]]:
    """(settings, runs that have exactly these).

    `dataset.data_seed` is left out where it is the seed of every run: their bias maps belong to the spread over seeds.
    Else the data are a setting wherever the others do not tell them, as with a folder whose images changed, and so are
    the files of weights that a run read.
    """
    for own in _grouped(runs, lambda run: _key({k: v for k, v in run.settings.items() if k != DATA_SEED})):
        follows = all(run.settings.get(DATA_SEED) == run.seed for run in own)
        for same in [own] if follows else _grouped(own, lambda run: _key(run.settings)):
            sources = partial(_sources, data_too=not follows)
            by_source = _grouped(same, sources)
            for members in by_source:
                settings = {k: v for k, v in members[0].settings.items() if not (follows and k == DATA_SEED)}
                told = {key: value[:8] for key, value in sources(members[0]).items()}
                yield settings | (told if len(by_source) > 1 else {}), members


def _sources(run: Run, *, data_too: bool) -> dict[str, str]:
    """Hashes of what all seeds share: the data, unless each seed draws its own, and files of weights that they read."""
    per_seed = "seed=SEED" in str(run.settings.get("bias_from"))
    keys = {"data": data_too, "weights": True, "bias_from": not per_seed}
    return {key: run.files.environment[key] for key, asked in keys.items() if asked and key in run.files.environment}


def _grouped(runs: list[Run], key: Callable[[Run], object]) -> list[list[Run]]:
    """The runs of each key, in the order of their first."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(str(key(run)), []).append(run)
    return list(groups.values())


def _key(settings: dict[str, Any]) -> str:
    """Equal for equal settings; 1.0 is 1, as it is to a resume."""
    plain = {key: int(v) if isinstance(v, float) and v.is_integer() else v for key, v in settings.items()}
    return json.dumps(plain, sort_keys=True, default=str)


def _by_seed(runs: list[Run]) -> tuple[dict[int, list[Run]], list[str]]:
    """The runs of one configuration by seed, in its order, and a sentence for each that is there twice.

    Raises:
        ConfigError: two of one seed differ in more than their evaluators.
    """
    by_seed: dict[int, list[Run]] = {}
    repeated = []
    for run in sorted(runs, key=lambda run: run.seed):
        others = by_seed.setdefault(run.seed, [])
        for other in others:
            if difference := _difference(other, run):
                raise ConfigError(
                    f"{other.path} and {run.path} have one configuration and seed {run.seed}, but differ in "
                    f"{difference}: try again without one of them"
                )
        evaluators = run.files.config["evaluator"]
        if twin := next((other for other in others if other.files.config["evaluator"] == evaluators), None):
            repeated.append(f"{run.path} repeats {twin.path} (equal settings, seed and data) and is not counted")
        others.append(run)
    return by_seed, repeated


def _difference(a: Run, b: Run) -> str:
    """What tells two runs of one configuration and seed apart, other than their evaluators; empty if nothing does."""
    ours, theirs = a.files.environment, b.files.environment
    for key in ("data", "weights", "bias_from"):
        if ours.get(key) != theirs.get(key):
            return f"{key}, {str(ours.get(key))[:8]} and {str(theirs.get(key))[:8]}"
    if a.processor != b.processor:
        return f"processor, {a.processor} and {b.processor}"
    figures = {figure[:3]: figure.value for figure in own_figures(b)}
    for figure in own_figures(a):
        if (other := figures.get(figure[:3], figure.value)) != figure.value:
            cause = [
                f"{key}, {ours.get(key)} and {theirs.get(key)}" for key in MADE_WITH if ours.get(key) != theirs.get(key)
            ]
            return ", and so in ".join([*cause[:1], f"{figure.metric}, {figure.value:.4f} and {other:.4f}"])
    return ""


def own_figures(run: Run) -> Iterator[Figure]:
    """What the run itself measured."""
    result = run.files.result
    for split, values in (("test", test_figures(result)), ("val", result["val"])):
        for metric, value in values.items():
            yield Figure(split, metric, _protocol(metric, run.files.config["evaluator"]), value)


def later_figures(run: Run) -> Iterator[Figure]:
    """Those of RUN/evaluation/, newest first; on another dataset a metric is called `dataset:metric`."""
    records = read_evaluations(run.path).values()
    for record in sorted(records, key=lambda record: str(record["time"]["finished"]), reverse=True):
        node, evaluators = record["settings"]["dataset"], record["settings"]["evaluator"]
        dataset = _kept(node, "dataset")
        is_own = not record["is_transfer"] and dataset == _kept(run.files.config["dataset"], "dataset")
        if "name" in dataset:  # an image folder: two may have one name
            dataset["root"] = node["root"]
        dataset.pop("size", None)  # that of the images which the encoder was trained on
        prefix = f"{record['dataset']}:" if record["is_transfer"] else ""
        for split, values in (("test", test_figures(record)), ("val", record["val"])):
            for metric, value in values.items():
                protocol = _protocol(metric, evaluators, {} if is_own else {"dataset": dataset})
                yield Figure(split, f"{prefix}{metric}", protocol, value)


def _protocol(metric: str, evaluators: dict[str, Any], others: dict[str, Any] | None = None) -> str:
    """What a metric was computed with: the settings of the evaluator that it is named after."""
    owners = [name for name in evaluators if f"{metric}_".startswith(f"{name}_")]
    own = {name: _kept(evaluators[name], f"evaluator.{name}") for name in [max(owners, key=len)]} if owners else {}
    return json.dumps({**own, **(others or {})}, sort_keys=True)


def _kept(node: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The settings of a node that can change a figure."""
    return {key: value for key, value in node.items() if is_identity(f"{prefix}.{key}")}


def _rows(section: str, groups: list[Group]) -> list[Row]:
    """The rows of a section with their names."""
    first = [next(iter(by_seed.values()))[0].files for _, by_seed in groups]
    names = distinguish(
        [settings for settings, _ in groups],
        plain=[option_name(files.config["loss"]["_target_"]) for files in first],
        typed=[files.environment.get("overrides") or [] for files in first],
    )
    return [
        Row(section=section, name=name, settings=settings, runs=runs)
        for name, (settings, runs) in zip(names, groups, strict=True)
    ]


def _with_figures(rows: list[Row]) -> list[Row]:
    """The rows of a section with their figures: of each seed the runs' own before those of later evaluations."""
    measured = [
        {
            seed: [figure for read in (own_figures, later_figures) for run in runs for figure in read(run)]
            for seed, runs in row.runs.items()
        }
        for row in rows
    ]
    every = [figure for by_seed in measured for figures in by_seed.values() for figure in figures]
    names = _metric_names(every)
    order = dict.fromkeys((f.split, names[f.metric, f.protocol]) for f in every)
    filled = []
    for row, by_seed in zip(rows, measured, strict=True):
        figures: dict[tuple[str, str], dict[int, float]] = {key: {} for key in order}  # the same order in every row
        for seed, own in by_seed.items():
            for f in own:
                figures[f.split, names[f.metric, f.protocol]].setdefault(seed, f.value)
        filled.append(replace(row, figures=figures))
    return filled


def _metric_names(figures: list[Figure]) -> dict[tuple[str, str], str]:
    """{(metric, protocol): its name}: `knn_top1`, or with several protocols `knn_top1 (k=5)`."""
    protocols: dict[str, dict[str, None]] = {}
    for figure in figures:
        protocols.setdefault(figure.metric, {})[figure.protocol] = None
    names: dict[tuple[str, str], str] = {}
    for metric, own in protocols.items():
        told = distinguish([flatten(json.loads(text)) for text in own], [""] * len(own), [[]] * len(own))
        names |= {
            (metric, text): f"{metric} ({words})" if words else metric for text, words in zip(own, told, strict=True)
        }
    return names
