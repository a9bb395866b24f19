"""Finished runs in groups that differ in nothing but the seed, with their figures and those of later evaluations."""

from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.evaluated import evaluated_figures
from contrastive.report.jobs import find_jobs
from contrastive.report.sweep import Job
from contrastive.run.files import read_config

Evaluated = dict[Path, dict[str, dict[str, float]]]  # {run: {split: {metric: value}}}

LOWER_IS_BETTER = ("alignment_uniformity_alignment", "alignment_uniformity_uniformity")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs of one configuration.

    Attributes:
        settings: {setting: value} in words, of those in which the groups differ.
        runs: {seed: run directory}. test, val: {seed: {metric: value}}.
    """

    settings: dict[str, str]
    runs: dict[int, Path]
    test: dict[int, dict[str, float]]
    val: dict[int, dict[str, float]]

    @property
    def name(self) -> str:
        """The settings as typed words."""
        return " ".join(f"{key}={value}" for key, value in self.settings.items()) or "all runs"

    def by_seed(self, split: str, metric: str) -> dict[int, float]:
        """{seed: figure} of a metric on `test` or `val`, in the order of the seeds."""
        figures = self.test if split == "test" else self.val
        return {seed: figures[seed][metric] for seed in sorted(figures) if metric in figures[seed]}

    def values(self, split: str, metric: str) -> list[float]:
        """The figures of a metric on `test` or `val`, in the order of the seeds."""
        return list(self.by_seed(split, metric).values())


def read_groups(folders: list[Path]) -> tuple[list[Group], list[str]]:
    """Every finished run below the folders, grouped, in the order of the settings.

    Returns:
        the groups, and a sentence for each run that was left out because another one is the same.

    Raises:
        ConfigError: a folder is missing, or there is no finished run.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder: try python -m contrastive.report table outputs")
    jobs, repeated = find_jobs(folders)
    if not jobs:
        raise ConfigError(f"no finished run under {', '.join(map(str, folders))}: try python train.py first")
    members: dict[tuple[tuple[str, str], ...], list[Job]] = {}
    for job in jobs:
        words = dict(item.split("=", 1) for item in job.overrides)
        members.setdefault(tuple(sorted((k, v) for k, v in words.items() if k != "seed")), []).append(job)
    evaluated = evaluated_figures([job.path for job in jobs])
    return [_group(dict(settings), group, evaluated) for settings, group in members.items()], repeated


def _group(settings: dict[str, str], jobs: list[Job], evaluated: Evaluated) -> Group:
    """Runs of one seed, which differ in their evaluators alone, count once, with the figures of all of them."""
    runs: dict[int, Path] = {}
    figures: dict[str, dict[int, dict[str, float]]] = {"test": {}, "val": {}}
    for job in jobs:
        seed = read_config(job.path)["seed"]
        runs.setdefault(seed, job.path)
        for split, by_seed in figures.items():
            own = job.result.get(split, {}) if job.result else {}
            by_seed[seed] = {**evaluated[job.path][split], **own, **by_seed.get(seed, {})}
    return Group(settings=settings, runs=runs, test=figures["test"], val=figures["val"])


def metric_names(groups: list[Group], split: str = "test") -> list[str]:
    """Every metric that some run has."""
    tables = [(group.test if split == "test" else group.val).values() for group in groups]
    return list(dict.fromkeys(key for table in tables for figures in table for key in figures))


def ranked(groups: list[Group], metric: str, split: str) -> list[Group]:
    """The groups by the mean of a metric, best first; those without it last.

    Raises:
        ConfigError: no run has the metric.
    """
    known = metric_names(groups, split)
    if metric not in known:
        example = f"try {known[0]}" if known else "try runs with evaluators"
        raise ConfigError(f"no run has {metric}, known are {', '.join(known) or 'none'}: {example}")
    sign = 1 if metric.rpartition(":")[2] in LOWER_IS_BETTER else -1

    def place(group: Group) -> tuple[bool, float]:
        values = group.values(split, metric)
        return (not values, sign * mean(values) if values else 0.0)

    return sorted(groups, key=place)


def setting_names(groups: list[Group]) -> list[str]:
    """Every setting in which the groups differ."""
    return sorted({key for group in groups for key in group.settings})


def plain(value: Any) -> str:
    """A number to four decimals for machines; nothing for None."""
    return "" if value is None else f"{value:.4f}"
