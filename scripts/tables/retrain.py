"""Does what is on record come back? The first run of a record is trained again, and its encoder is compared."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from contrastive.distributed.hardware import pair_of
from contrastive.errors import ConfigError
from contrastive.report.collect import run_record
from contrastive.run.run import Run, read_run
from contrastive.study.jobs import composer, run_here
from tables.kept import table_of
from tables.spec import config_dirs, read_table, table_paths


def retrain(path: Path, own: Sequence[str]) -> int:
    """Train the first run of a table's record, and say whether the weights are the same; returns 1 if they are not.

    Args:
        own: overrides that no record has, such as where the images are.

    Raises:
        ConfigError: the file is no record of a table, the table's YAML is gone, or the run failed.
    """
    record, yamls = table_of(path), table_paths()
    if record is None or record["table"] not in yamls:
        raise ConfigError(f"{path} is no record of a table in studies/: try studies/push_swapped/record.json.xz")
    row = next((row for row in record["rows"] if row["runs"]), None)
    if row is None:
        raise ConfigError(f"{path} has no run: try studies/push_swapped/record.json.xz")
    was = row["runs"][0]
    folders = config_dirs(read_table(yamls[record["table"]]))
    with TemporaryDirectory() as place:
        overrides = (*row["overrides"], f"seed={was['seed']}", *own)
        run = Run(overrides=overrides, path=Path(place) / "run", name=f"{row['name']}, seed {was['seed']}")
        failed = run_here([run], compose=composer(folders), folders=folders, n_parallel=1)
        if failed:
            raise ConfigError(f"{run} failed: {failed[run]}")
        found = run_record(run.path, read_run(run.path), list(record["metrics"]))
    what, key = (
        ("weights, to the last bit", "weights") if was.get("weights") else ("accuracies, to four decimals", "test")
    )
    again = {metric: found["test"].get(metric) for metric in was["test"]} if key == "test" else found[key]
    if again == was[key]:
        print(f"the same {what}")
        return 0
    print(f"not the same {what}")
    for metric in was["test"]:
        print(f"  {metric}: {was['test'][metric]:.2f} on record, {found['test'].get(metric, float('nan')):.2f} now")
    for said, of in (("on record", record["environments"][was["environment"]]), ("now", found["environment"])):
        print(f"  {said}: {', '.join(filter(None, pair_of(of)))}")
    return 1
