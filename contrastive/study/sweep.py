"""The table at the end of a sweep."""

import os
from collections.abc import Mapping
from pathlib import Path

from contrastive.errors import ConfigError
from contrastive.experiment.summary import command
from contrastive.run.run import Run
from contrastive.study.frame import read_frame
from contrastive.study.render.text import section_text
from contrastive.text import as_typed


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
        section_text(name, section, section.chosen(None), more=more) for name, section in frame.sections.items()
    ]
    return "\n".join([*sections, *failures])
