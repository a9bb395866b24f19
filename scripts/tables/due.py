"""Which runs of tables are due: what is done, which data they lack, how long they take."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from contrastive.config.compose import importable
from contrastive.config.identity import key_of
from contrastive.config.settings import Settings
from contrastive.run.files import read_result
from contrastive.run.provenance import module_hashes
from contrastive.run.run import Run, done_already, read_run, replaced_sources
from contrastive.study.jobs import Compose, minutes_of
from contrastive.text import format_grid
from tables.spec import Table, folder_name

MISSING = 80  # letters of what a list says of missing data


def runs_of(table: Table, base: Path) -> list[Run]:
    """A run for each row and seed, its directory below `base`; none of a row that is quoted."""
    return [
        Run(overrides=(*row.overrides, f"seed={seed}"), path=base / folder_name(row.name) / f"seed={seed}",
            row=row.name, name=f"{row.name}, seed {seed}")
        for row in table.rows if row.overrides for seed in table.seeds
    ]  # fmt: skip


PLACES = ("dataset", "experiment", "data_root", "dataset.root", "dataset.table")  # say where images are looked for


def tables_text(
    tables: list[Table], base: Path, *, device: str, on_cpu: bool, n_parallel: int, compose: Compose
) -> str:
    """A line for each table.

    Args:
        base: the folder of all tables' runs.
        device: the name of this device, a CPU or not.
        n_parallel: runs at a time.
    """
    rows = [["table", "rows", "runs", "done", "hours left", "missing data"]]
    for table in tables:
        runs = runs_of(table, base / table.folder)
        n_done = sum(read_result(run.path) is not None for run in runs)
        on_a_gpu = on_cpu and table.needs_gpu and not any(minutes_taken(run.path, device) for run in runs)
        hours = hours_left(runs, device, {row.name: row.minutes for row in table.rows})
        needed = (
            "-" if hours is None else f"{short_hours(hours)} on a GPU" if on_a_gpu else short_hours(hours / n_parallel)
        )
        missing = "; ".join(item.removeprefix("data missing: ") for item in missing_of(runs, compose))
        if len(missing) > MISSING:
            missing = f"{missing[:MISSING]} ..."
        rows.append([table.name, str(len(table.rows)), str(len(runs)), str(n_done), needed, missing])
    return format_grid(rows)


def short_hours(hours: float) -> str:
    """185, 10, 6.7: two digits below ten hours."""
    return f"{hours:.0f}" if hours >= 10 else f"{hours:.2g}"


def hours_left(runs: Sequence[Run], device: str, stated: Mapping[str, float | None]) -> float | None:
    """Hours of the runs that are not done, one after the other; None when nothing tells how long one takes.

    Args:
        stated: {row: minutes of a run}.
    """
    taken = finished_minutes(runs, device)
    expected = [expected_minutes(run, taken, stated) for run in runs if read_result(run.path) is None]
    known = [minutes for minutes in expected if minutes is not None]
    return sum(known) / 60 if len(known) == len(expected) else None


def finished_minutes(runs: Sequence[Run], device: str) -> dict[Run, float]:
    """How long each of the runs took that finished on this device."""
    return {run: minutes for run in runs if (minutes := minutes_taken(run.path, device)) is not None}


def expected_minutes(run: Run, taken: Mapping[Run, float], stated: Mapping[str, float | None]) -> float | None:
    """How long a run will take; None when nothing tells.

    What the finished runs of its row took, else the minutes that are stated times what other rows took of theirs.

    Args:
        taken: see `finished_minutes`.
        stated: {row: minutes of a run}.
    """
    if of_row := [minutes for other, minutes in taken.items() if other.row == run.row]:
        return mean(of_row)
    if (minutes_stated := stated.get(run.row)) is None:
        return mean(taken.values()) if taken else None
    paces = [minutes / known for other, minutes in taken.items() if (known := stated.get(other.row))]
    return minutes_stated * (mean(paces) if paces else 1)


def minutes_taken(path: Path, device: str) -> float | None:
    """Minutes of a finished run; None when it is not finished or ran on another device."""
    run = read_run(path)
    return minutes_of(run.result) if run.kind == "finished" and run.environment.get("device") == device else None


def missing_of(runs: Sequence[Run], compose: Compose) -> dict[str, list[Run]]:
    """{data that the runs need and do not find: its runs}"""
    placed: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        placed.setdefault(tuple(word for word in run.overrides if key_of(word) in PLACES), []).append(run)
    missing: dict[str, list[Run]] = {}
    for words, own in placed.items():
        if sentence := missing_data(dataset_node(compose(words))):
            missing.setdefault(sentence, []).extend(own)
    return missing


def dataset_node(cfg: DictConfig) -> dict[str, Any]:
    """The dataset's part of a configuration, resolved."""
    return cast(dict[str, Any], OmegaConf.to_container(cfg.dataset, resolve=True))


# What is looked for below dataset.root, by torchvision the unpacked folder or the archive that it unpacks.
FILES = {
    "cifar10": ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    "cifar100": ("cifar-100-python", "cifar-100-python.tar.gz"),
    "stl10": ("stl10_binary", "stl10_binary.tar.gz"),
    "mnist": ("MNIST/raw", "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"),
    "biased_mnist": ("MNIST/raw", "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"),
}


def missing_data(dataset: dict[str, Any]) -> str:
    """What to put where, of the data that a dataset needs and does not find; empty when all is there, or when that is
    not known.

    Args:
        dataset: its resolved node.
    """
    name, root = str(dataset["_target_"]).rpartition(".")[2], Path(str(dataset.get("root"))).resolve()
    if name in FILES:
        is_there, what = any((root / file).exists() for file in FILES[name]), FILES[name][1]
    elif name != "image_folder":
        return ""
    elif table := dataset.get("table"):
        is_there = (root / table).exists()
        what = f"{table}, as `python train.py --help dataset=NAME` tells of a recipe,"
    else:
        is_there, what = root.is_dir(), "train/<class>/ and test/<class>/"
    if is_there and dataset.get("root") is not None:
        return ""
    where = 'PATH and add ARGS="dataset.root=PATH"' if dataset.get("root") is None else root
    return f"data missing: put {what} into {where}"


def is_done(run: Run, compose: Compose, folders: Sequence[Path] = ()) -> bool:
    """Whether the run is finished and whole, with the configuration, the files and the modules of one's own that it has
    now; these are looked for in `folders`, too."""
    if read_result(run.path) is None:  # which is quick
        return False
    config = Settings.from_config(compose(run.overrides)).to_dict()
    with importable([Path.cwd(), *folders]):
        own = module_hashes(config)
    done = done_already(run.path, config)
    return done is not None and own == done.environment["modules"] and not replaced_sources(done)
