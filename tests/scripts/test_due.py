"""Which runs of a table are due: what is missing, how long the rest takes."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from tables.due import expected_minutes, finished_minutes, hours_left, missing_data, tables_text
from tables.spec import read_table, table_paths

from contrastive.study.jobs import Run
from tests.helpers import write_finished


def run_of(path: Path, seed: int = 0, row: str = "A") -> Run:
    return Run(row=row, overrides=("loss=nt_xent", f"seed={seed}"), path=path / f"seed={seed}")


def finish(run: Run, *, processor: str = "X", seconds: float = 60) -> None:
    write_finished(run.path, config={}, environment={"device": processor}, time={"seconds": seconds})


FOLDER = {"_target_": "contrastive.dataset.image_folder.image_folder"}


@pytest.mark.parametrize(
    ("node", "file", "said"),
    [
        (
            {"_target_": "contrastive.dataset.cifar.cifar10"},
            "cifar-10-python.tar.gz",
            "put cifar-10-python.tar.gz into ",
        ),
        ({**FOLDER, "table": "blonde.csv"}, "blonde.csv", "put blonde.csv, as "),
        ({**FOLDER, "root": None}, "", "dataset.root=PATH"),
        ({**FOLDER, "root": "nowhere"}, "", "nowhere"),
        (FOLDER, "", ""),  # which layout it has only a listing tells
        ({"_target_": "contrastive.dataset.digits.digits", "size": 8}, "", ""),
        ({"_target_": "my.own", "root": "nowhere"}, "", ""),
    ],
)
def test_what_is_missing_is_told_with_its_place(tmp_path, node: dict[str, Any], file, said):
    node = {"root": str(tmp_path), **node}
    assert said in missing_data(node) and bool(said) == bool(missing_data(node))
    if file:
        (tmp_path / file).touch()
        assert not missing_data(node)


def test_hours_left_come_from_finished_runs_of_this_device(tmp_path):
    runs, stated = [run_of(tmp_path / row, seed, row) for row in "AB" for seed in range(2)], {"A": 30.0, "B": 30.0}
    assert hours_left(runs, "X", stated) == 2
    finish(runs[0], seconds=3600, processor="Y")
    assert hours_left(runs, "X", stated) == 1.5
    finish(runs[0], seconds=3600)
    assert hours_left(runs, "X", stated) == 3  # B's runs as long as A's
    finish(runs[2], seconds=7200)
    assert hours_left(runs, "X", stated) == 3  # one hour of A, two of B
    assert hours_left([run_of(tmp_path / "C")], "X", {"A": None}) is None


def test_a_row_without_a_finished_run_goes_by_its_stated_minutes_and_the_pace_of_the_others(tmp_path):
    short, long, other = (run_of(tmp_path / name, row=name) for name in "ABC")
    stated = {"A": 15.0, "B": 40.0, "C": None}
    assert expected_minutes(long, {}, stated) == 40
    finish(short, seconds=180)  # a fifth of what is stated
    taken = finished_minutes([short, long], "X")
    assert [expected_minutes(run, taken, stated) for run in (long, short, other)] == [8, 3, 3]
    assert expected_minutes(other, {}, stated) is None


def test_the_list_shows_every_table(tmp_path):
    tables = [read_table(path) for path in table_paths().values()]
    config = OmegaConf.create({"dataset": {"_target_": "x.mnist", "root": str(tmp_path)}})
    text = tables_text(tables, tmp_path, device="X", on_cpu=True, n_parallel=2, compose=lambda overrides: config)
    (simclr,) = (line for line in text.splitlines() if "| simclr_cifar10 " in line)
    assert "1.7 on a GPU" in simclr  # 50, 10 and 40 minutes, one after the other
    assert all(f"| {table.name} " in text for table in tables)
    assert "put MNIST/raw" in text
    assert "e+" not in text  # 185 hours would be 1.8e+02
