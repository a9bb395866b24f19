"""Finished runs, on the disk or in the record of a table, as one pandas frame, from which all else is made."""

import argparse
import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from contrastive.config.identity import key_of, option_name
from contrastive.config.words import neighbors
from contrastive.distributed.hardware import of_sessions, pair_of
from contrastive.errors import ConfigError
from contrastive.report.record import look_up, read_record, shown_metrics
from contrastive.report.runs import (
    N_NAMED,
    Figure,
    by_seed,
    configurations,
    data_apart,
    find_runs,
    later_figures,
    own_figures,
    protocols_apart,
    told_apart,
    typed_words,
    without_shared,
)
from contrastive.run.figures import KNN, LINEAR, WORST, is_detail, lower_is_better
from contrastive.run.run import Run
from contrastive.text import listed

if TYPE_CHECKING:
    import pandas as pd

Configuration = tuple[dict[str, Any], dict[int, list[Run]]]  # settings, and its runs by seed
# columns of a table unless others are chosen, where a run has them
USUAL = (KNN, f"knn_{WORST}", LINEAR, f"linear_{WORST}")


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Finished runs, and notes on those that are left out.

    Attributes:
        table: a line for each configuration and seed. Columns: `dataset`, `name`, `loss`, `seed`, `machine` (see
            `pair_of`), `package` (a hash of the code), `path`, a column for each metric (those on validation images as
            `val/knn_top1`, those before training as `untrained/knn_top1`), and, as objects, `words` (of the name),
            `settings` (by dotted keys), `paths` (of all its runs), `correct` ({metric: which test images were right}).
        metrics: the columns that are metrics.
        notes: sentences.
    """

    table: "pd.DataFrame"
    metrics: list[str]
    notes: list[str] = field(default_factory=list)

    @cached_property
    def sections(self) -> dict[str, "Frame"]:
        """The runs of each dataset with the metrics that they have, without notes."""
        parts = dict(list(self.table.groupby("dataset", sort=False)))
        return {
            str(name): Frame(table=part, metrics=[m for m in self.metrics if part[m].notna().any()])
            for name, part in parts.items()
        }

    @cached_property
    def rows(self) -> dict[str, "pd.DataFrame"]:
        """{name: the lines of its seeds}, of one section."""
        return {str(name): part for name, part in self.table.groupby("name", sort=False)}

    @property
    def differing(self) -> list[str]:
        """The settings in which lines differ, by dotted keys."""
        keys = dict.fromkeys(key for settings in self.table["settings"] for key in settings)
        return [key for key in keys if len({str(settings.get(key)) for settings in self.table["settings"]}) > 1]

    def values(self, name: str, metric: str) -> list[float]:
        """A metric of a row, in the order of the seeds."""
        own = self.rows.get(name)
        return own[metric].dropna().tolist() if own is not None and metric in own else []

    def test_metrics(self) -> list[str]:
        """The metrics on the test split after training; those on validation images where no run was tested, as with
        `held_out`."""
        tested = [metric for metric in self.metrics if not metric.startswith(("val/", "untrained/"))]
        return tested or [metric for metric in self.metrics if metric.startswith("val/")]

    def chosen(self, metrics: Sequence[str] | None) -> list[str]:
        """The columns to show: those asked for, else the usual ones, else all but the details of bias groups.

        Args:
            metrics: names, or `all`.

        Raises:
            ConfigError: no run has a metric that was asked for.
        """
        known = [metric for metric in self.test_metrics() if not is_detail(metric)]
        if metrics:
            return known if list(metrics) == ["all"] else [self.metric(name) for name in metrics]
        return [metric for metric in known if metric.partition(" ")[0].removeprefix("val/") in USUAL] or known

    def metric(self, name: str) -> str:
        """The name, if some run has such a metric.

        Raises:
            ConfigError: none has.
        """
        if name not in self.metrics:
            known = [metric for metric in self.test_metrics() if not is_detail(metric)]
            near = [*neighbors(name, self.test_metrics()), *known, "all"][0]
            raise ConfigError(f"no run has {name}, known are {', '.join(known) or 'none'}: try {shlex.quote(near)}")
        return name

    def by_name(self) -> "Frame":
        """The rows by loss, the one of which nothing else is to be said first."""
        order = sorted(self.rows, key=lambda name: (name.split()[0], len(name.split()) > 1, name))
        return self._in_order(order)

    def by_metric(self, metric: str) -> "Frame":
        """The rows by the mean of a metric, best first; those without it last."""
        sign = 1 if lower_is_better(metric) else -1
        means = {name: mean(values) for name in self.rows if (values := self.values(name, metric))}
        return self._in_order(sorted(self.rows, key=lambda name: (name not in means, sign * means.get(name, 0.0))))

    def _in_order(self, names: list[str]) -> "Frame":
        import pandas as pd

        return replace(self, table=pd.concat([self.rows[name] for name in names])) if names else self

    def shown(self) -> dict[str, str]:
        """{name: how a table shows it}: without the overrides that all rows share."""
        words = {name: own["words"].iloc[0] for name, own in self.rows.items()}
        return dict(zip(words, without_shared(list(words.values()))[0], strict=True))

    def shared(self) -> list[str]:
        """The overrides that all rows share, to be printed once."""
        return without_shared([own["words"].iloc[0] for own in self.rows.values()])[1]

    @property
    def mixed(self) -> dict[str, list[str]]:
        """{name: kinds of machine} of the rows whose runs were computed on several."""
        kinds = {name: sorted(set(own["machine"])) for name, own in self.rows.items()}
        return {name: own for name, own in kinds.items() if len(own) > 1}

    def remarks(self) -> list[str]:
        """A sentence for each mixed row, and one where several states of the code trained the rows."""
        shown, by_code = self.shown(), self.table.groupby("package", sort=False)["name"].unique()
        codes = [f"{code} ({listed([shown[name] for name in names], N_NAMED)})" for code, names in by_code.items()]
        return [
            f"{shown[name]}: its runs are of several kinds of processor, precision or torch ({'; '.join(own)})"
            for name, own in self.mixed.items()
        ] + [f"trained by several states of contrastive's code: {'; '.join(codes)}"] * (len(codes) > 1)


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """The choice of columns on a command line."""
    parser.add_argument(
        "--metric", nargs="+", metavar="METRIC",
        help="show these, such as knn_top1 linear_conflicting_top1, or all; default: kNN, linear probe, worst groups",
    )  # fmt: skip


def runs(*folders: str | Path) -> "pd.DataFrame":
    """The finished runs below the folders, a line each: runs("outputs").groupby("name")["knn_top1"].mean().

    The record of a table (JSON) in place of a folder gives the table's runs, with its title as their dataset.

    The columns are `dataset`, `name` (the overrides, method first), `loss`, `seed`, every setting in which the runs
    differ, every metric on the test split, those on validation images as `val/knn_top1`, those before training as
    `untrained/knn_top1`, and `path`. A value that a run does not have is missing (NaN). Runs that differ only in their
    evaluators are one line if their weights are the same. A run that is not finished, cannot be read, or has a newer
    one of its settings and seed is named in a warning. Those over bias groups are called `knn_worst_group_top1`,
    `knn_conflicting_top1`, `knn_top1/CLASS/BIAS` and so on.

    Args:
        folders: none = outputs.

    Raises:
        ConfigError: a folder is missing, a file is no table, or no run is finished.
    """
    import pandas as pd  # late: it takes half a second

    found = read_frame([Path(folder) for folder in folders or ("outputs",)])
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    differing = [key for key in found.differing if key not in ("dataset", "dataset._target_", "loss._target_")]
    settings = pd.DataFrame(
        [{_column(key): _cell(key, own[key]) for key in differing if key in own} for own in found.table["settings"]],
        columns=[_column(key) for key in differing],
    )
    table = found.table.reset_index(drop=True)
    return pd.concat([table[["dataset", "name", "loss", "seed"]], settings, table[[*found.metrics, "path"]]], axis=1)


def _column(key: str) -> str:
    return key.removesuffix("._target_")


def _cell(key: str, value: Any) -> Any:
    """A component as its option; lists and dicts, by which pandas cannot group, as text."""
    if key.endswith("._target_"):
        return option_name(value)
    return str(value) if isinstance(value, list | dict) else value


def read_frame(paths: Sequence[Path]) -> Frame:
    """Every finished run below the folders, and those of the tables among the paths.

    Args:
        paths: folders, and records of tables (JSON), whose rows are a section of their own each.

    Raises:
        ConfigError: a folder is missing, a file is no table, or no run is finished.
    """
    import pandas as pd  # late: it takes half a second

    frames = [_table_frame(path) for path in dict.fromkeys(paths) if path.is_file()]
    titles = [title for frame in frames for title in frame.table["dataset"].unique()]
    frames = [
        replace(frame, table=frame.table.assign(dataset=[
            f"{title} ({path})" if titles.count(title) > 1 else title
            for title, path in zip(frame.table["dataset"], frame.table["path"], strict=True)
        ]))
        for frame in frames
    ]  # fmt: skip
    found, notes = find_runs([path for path in paths if not path.is_file()])
    if found:
        frames.append(frame_of(found, notes))
        notes = frames[-1].notes
    if not frames:
        example = "; ".join([*notes, "try python train.py first"])
        raise ConfigError(f"no finished run under {', '.join(map(str, paths))}: {example}")
    metrics = dict.fromkeys(metric for frame in frames for metric in frame.metrics)
    return Frame(table=pd.concat([frame.table for frame in frames]), metrics=list(metrics), notes=notes)


def _table_frame(path: Path) -> Frame:
    """The runs of a committed table, under its title."""
    if (record := read_record(path)) is None:
        raise ConfigError(f"{path} holds no table: try the JSON that make reproduce-table writes")
    frame = record_frame(record)
    typed = {row["name"]: {key_of(word): word for word in row["overrides"]} for row in record["rows"]}
    losses = {name: words.get("loss", "").partition("=")[2] or None for name, words in typed.items()}
    typed_loss, paths = frame.table["name"].map(losses), [[path]] * len(frame.table)
    table = frame.table.assign(dataset=record["title"], loss=typed_loss, path=str(path), paths=paths)
    return replace(frame, table=table)


def record_frame(record: dict[str, Any]) -> Frame:
    """The runs of a record as a frame: a line for each row and seed, a column for each metric that the table shows."""
    import pandas as pd

    metrics, environments = shown_metrics(record), record["environments"]
    lines = [
        {"dataset": "", "name": row["name"], "seed": run["seed"], "words": (row["name"],),
         "machine": ", ".join(filter(None, pair_of(environments[run["environment"]]))),
         "package": environments[run["environment"]].get("package"),
         "settings": run.get("settings", {}), "correct": run.get("correct", {})}
        | {metric: look_up(run, metric) for metric in metrics}
        for row in record["rows"] for run in row["runs"]
    ]  # fmt: skip
    columns = ["dataset", "name", "seed", "machine", "package", "words", "settings", "correct", *metrics]
    return Frame(table=pd.DataFrame(lines, columns=columns).astype(dict.fromkeys(metrics, float)), metrics=metrics)


def frame_of(found: list[Run], notes: Sequence[str] = ()) -> Frame:
    """The frame of runs that were read."""
    import pandas as pd

    datasets: dict[str, list[Configuration]] = {}
    notes, apart = list(notes), data_apart(found)
    for settings, members in configurations(found):
        seeds, older = by_seed(members)
        notes += older
        datasets.setdefault(members[0].dataset, []).append((settings, seeds))
    lines: list[dict[str, Any]] = []
    metrics: dict[str, None] = {}
    for dataset, own in datasets.items():
        figures = {run.path: [*own_figures(run), *later_figures(run)] for _, seeds in own for run in _runs(seeds)}
        columns = _metric_names([figure for measured in figures.values() for figure in measured])
        metrics |= dict.fromkeys(columns.values())
        if several := {apart[run.path] for _, seeds in own for run in _runs(seeds) if run.path in apart}:
            notes.append(f"{dataset}: {len(several)} data sets have this name, and their runs are not compared")
        for (settings, seeds), (name, words) in zip(own, _names(own), strict=True):
            data = next((f" data={apart[run.path]}" for run in _runs(seeds) if run.path in apart), "")
            for seed, members in seeds.items():
                # a run's own figures before those of later evaluations
                measured = sorted((f for run in members for f in figures[run.path]), key=lambda f: f.is_later)
                lines.append({
                    **{columns[figure.key]: figure.value for figure in reversed(measured)},
                    "dataset": f"{dataset}{data}", "name": name, "loss": option_name(members[0].loss), "seed": seed,
                    "machine": ", ".join(filter(None, pair_of(members[0].environment))), "words": words,
                    "package": of_sessions(members[0].environment, "package"), "settings": settings,
                    "path": str(members[0].path), "paths": [run.path for run in members],
                    "correct": {k: v for run in reversed(members) for k, v in run.result.get("correct", {}).items()},
                })  # fmt: skip
    return Frame(table=pd.DataFrame(lines), metrics=list(metrics), notes=notes)


def _names(own: list[Configuration]) -> list[tuple[str, tuple[str, ...]]]:
    """The name of each configuration and its words, as the first of its runs was typed: later runs change no name."""
    first = [min(_runs(seeds), key=lambda run: (run.finished, str(run.path))) for _, seeds in own]
    words = [typed_words(run.environment.get("overrides") or [], run.loss) for run in first]
    names = told_apart([" ".join(typed) for typed in words], [settings for settings, _ in own])
    return [
        (name, (*typed, *name.removeprefix(" ".join(typed)).split())) for name, typed in zip(names, words, strict=True)
    ]


def _runs(seeds: dict[int, list[Run]]) -> list[Run]:
    return [run for members in seeds.values() for run in members]


def _metric_names(figures: list[Figure]) -> dict[tuple[str, str, str], str]:
    """{key of a figure: its column}: `knn_top1`, `val/knn_top1`, or with several protocols `knn_top1 (k=5)`."""
    protocols: dict[str, dict[str, None]] = {}
    for figure in figures:
        protocols.setdefault(figure.metric, {})[figure.protocol] = None
    named: dict[tuple[str, str], str] = {}
    for metric, own in protocols.items():
        for text, words in protocols_apart(list(own)).items():
            named[metric, text] = f"{metric} ({words})" if words else metric
    return {
        figure.key: named[figure.metric, figure.protocol] if figure.split == "test"
        else f"{figure.split}/{named[figure.metric, figure.protocol]}"
        for figure in figures
    }  # fmt: skip
