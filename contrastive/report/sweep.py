"""The table at the end of a sweep."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive.experiment.summary import command
from contrastive.run.figures import is_detail, test_figures
from contrastive.text import as_typed, format_grid, spread


@dataclass
class Job:
    """One job of a sweep: the settings typed, its directory, and its result or why it failed."""

    overrides: list[str]
    path: Path
    result: dict[str, Any] | None = None
    failure: str | None = None


Figures = dict[str, float]
Group = tuple[str, ...]  # the values of the swept keys but for the seed


def sweep_table(jobs: list[Job]) -> str:
    """Mean ± std over seeds of the test metrics, a row for each combination of the other swept keys.

    The last rows are the means over the encoders before training, one for each network: losses of one seed start from
    the same one, widths do not.
    """
    settings = [dict(item.lstrip("+").split("=", 1) for item in job.overrides if "=" in item) for job in jobs]
    keys = sorted({key for values in settings for key in values})
    swept = [key for key in keys if key != "seed" and len({values.get(key) for values in settings}) > 1]
    groups: dict[Group, dict[str, Job]] = {}  # by seed
    for job, values in zip(jobs, settings, strict=True):
        groups.setdefault(tuple(values.get(key, "") for key in swept), {})[values.get("seed", "")] = job
    known = list(dict.fromkeys(key for job in jobs if job.result for key in test_figures(job.result)))
    metrics = [key for key in known if not is_detail(key)]
    failed = any(job.failure for job in jobs)
    rows = [[*swept, *metrics, *(["failed"] if failed else [])]]
    for group, members in groups.items():
        count = [str(sum(job.failure is not None for job in members.values()) or "")] if failed else []
        figures = [test_figures(job.result) for job in members.values() if job.result]
        rows.append([*group, *_cells(figures, metrics), *count])
    networks = _untrained(groups) if swept else []
    for of_groups, by_seed in networks:
        shared = [values[0] if len(set(values)) == 1 else "" for values in zip(*of_groups, strict=True)]
        first, *others = shared if len(networks) > 1 else [""] * len(swept)
        figures = list(by_seed.values())
        figures = figures[:1] if figures.count(figures[0]) == len(figures) else figures  # pretrained: of every seed
        cells = _cells(figures, metrics)
        rows.append([f"untrained, {first}" if first else "untrained", *others, *cells, *[""] * failed])
    failures = [f"failed: {' '.join(job.overrides)}: {job.failure}" for job in jobs if job.failure]
    table = ["", "Test split, mean ± std over seeds (n); accuracies in percent:", format_grid(rows), *failures]
    if details := [key for key in known if is_detail(key)]:
        folder = as_typed(Path(os.path.commonpath([job.path for job in jobs])))
        report = f"{command('python')} -m contrastive.report table {folder} --metric {' '.join(details[:2])}"
        table.append(f"More of bias groups: {report}")
    return "\n".join(table)


def _untrained(groups: dict[Group, dict[str, Job]]) -> list[tuple[list[Group], dict[str, Figures]]]:
    """(its groups, {seed: figures before training}) of each network: groups that agree in every common seed share one.

    Runs that start from a file's weights have none untrained.
    """
    networks: list[tuple[list[Group], dict[str, Figures]]] = []
    for group, members in groups.items():
        results = {seed: job.result for seed, job in members.items() if job.result}
        own = {s: r["untrained"] for s, r in results.items() if not r.get("encoder", {}).get("weights")}
        for rows, known in networks:
            seeds = own.keys() & known.keys()
            if seeds and all(own[seed] == known[seed] for seed in seeds):
                rows.append(group)
                known |= own
                break
        else:
            networks += [([group], own)] if any(own.values()) else []
    return networks


def _cells(figures: list[Figures], metrics: list[str]) -> list[str]:
    return [spread([values[key] for values in figures if key in values]) for key in metrics]
