"""The table at the end of a sweep."""

import os
from collections.abc import Mapping
from pathlib import Path

from contrastive.errors import ConfigError
from contrastive.experiment.summary import command
from contrastive.study.frame import Frame, read_frame
from contrastive.study.jobs import Run
from contrastive.study.render.text import section_text
from contrastive.text import as_typed, spread


def sweep_table(runs: Mapping[Run, str]) -> str:
    """The runs of a sweep as a table for each dataset, and a line for each that failed.

    Args:
        runs: why each failed; empty for one that is done.
    """
    failures = [f"failed: {' '.join(run.overrides)}: {failure}" for run, failure in runs.items() if failure]
    finished = [run.path for run, failure in runs.items() if not failure]
    if not finished:
        return "\n".join(failures)
    try:
        frame = read_frame(finished)
    except ConfigError as error:  # they ran: what their folders hold besides is no failure of the sweep
        return "\n".join([str(error), *failures])
    folder = as_typed(Path(os.path.commonpath(finished)))
    more = f"{command('python')} -m contrastive report table {folder} --metric all"
    sections = [
        section_text(name, section, section.chosen(None), below=untrained_rows(section), more=more)
        for name, section in frame.sections.items()
    ]
    return "\n".join([*sections, *failures])


def untrained_rows(section: Frame) -> list[list[str]]:
    """A row for each network before training: losses of one seed start from the same one, which counts once.

    Two configurations have the same network if their metrics before training agree for every seed that both have.
    """
    metrics = section.chosen(None)
    known = [metric for metric in metrics if f"untrained/{metric}" in section.metrics]
    groups: list[tuple[list[str], dict[int, dict[str, float]]]] = []
    for name, own in section.rows.items():
        own = own.dropna(subset=[f"untrained/{metric}" for metric in known])  # a run that starts from a file has none
        values = {
            int(line["seed"]): {metric: line[f"untrained/{metric}"] for metric in known}
            for line in own.to_dict("records")
        }
        for names, shared in groups:
            if values.keys() & shared.keys() and all(shared.get(seed, v) == v for seed, v in values.items()):
                names.append(name)
                shared.update(values)
                break
        else:
            groups += [([name], values)] if known and values else []
    shown, rows = section.shown(), []
    for names, values in groups:
        words = [set(shown[name].split()[1:]) for name in names]
        told = sorted(set.intersection(*words)) or ([shown[names[0]]] if len(groups) > 1 else [])
        cells = [spread([own[metric] for own in values.values() if metric in own]) for metric in metrics]
        rows.append([" ".join(["untrained", *told]), *cells])
    return rows
