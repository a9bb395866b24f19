"""Finished runs for pandas."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive.report.names import option_name
from contrastive.report.runs import Row, read_runs

if TYPE_CHECKING:
    import pandas as pd


def runs(*folders: str | Path) -> "pd.DataFrame":
    """The finished runs below the folders, a line each: runs("outputs").groupby("loss")["knn_top1"].mean().

    The columns are `dataset`, `name` (what tells runs of a dataset apart but for the seed), `loss`, `seed`, every other
    setting in which the runs differ, under the key that is typed, every figure on the test split, those on the
    validation images as `val/knn_top1`, and `path`. What a run lacks is missing. Runs that differ in their evaluators
    alone are one line; a run that is not finished, cannot be read, or repeats another is named in a warning. Accuracies
    over bias groups are called `knn_worst_group_top1`, `knn_conflicting_top1`, `knn_top1/CLASS/BIAS` and so on.

    Args:
        folders: none = outputs.

    Raises:
        ConfigError: a folder is missing, no run is finished, or two runs of equal settings and seed are not equal.
    """
    import pandas as pd  # late: it takes half a second

    found = read_runs([Path(folder) for folder in folders or ("outputs",)])
    for note in found.notes:
        warnings.warn(note, stacklevel=2)
    differing = [key for key in found.differing if key not in ("dataset._target_", "loss._target_")]
    table = pd.DataFrame([
        {"dataset": row.section, "name": row.name, "loss": row.loss, "seed": seed}
        | {key.removesuffix("._target_"): _cell(key, row.settings[key]) for key in differing if key in row.settings}
        | _figures(row, seed)
        | {"path": str(members[0].path)}
        for row in found.rows
        for seed, members in row.runs.items()
    ])  # fmt: skip
    return table[[*(column for column in table if column != "path"), "path"]]  # figures differ between datasets


def _figures(row: Row, seed: int) -> dict[str, float | None]:
    """Of every row in the same order."""
    return {
        metric if split == "test" else f"{split}/{metric}": values.get(seed)
        for (split, metric), values in row.figures.items()
    }


def _cell(key: str, value: Any) -> Any:
    """A component as its option; lists and dicts, by which pandas cannot group, as text."""
    if key.endswith("._target_"):
        return option_name(value)
    return str(value) if isinstance(value, list | dict) else value
