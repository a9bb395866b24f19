"""Which runs of a table are due: what is done, what is missing, how long the rest takes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from tables.due import hours_left, is_done, missing_data, tables_text
from tables.spec import read_table, table_paths

from contrastive.config import CONFIGS
from contrastive.config.settings import Settings
from contrastive.files import file_hash
from contrastive.run.files import write_config
from contrastive.run.run import Run
from tests.helpers import SOUND_CONFIG, write_finished


def run_of(path: Path, seed: int = 0, row: str = "A") -> Run:
    return Run(row=row, overrides=("loss=nt_xent", f"seed={seed}"), path=path / f"seed={seed}")


def finish(run: Run, *, processor: str = "X", seconds: float = 60, **config: Any) -> None:
    write_finished(run.path, config=config, environment={"device": processor}, time={"seconds": seconds})
    write_config(run.path, SOUND_CONFIG | config)


def test_done_is_a_result_of_the_same_settings_modules_and_weights(tmp_path):
    one, weights = run_of(tmp_path), tmp_path / "start.safetensors"
    weights.write_bytes(b"first")
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = compose("train", [*one.overrides, f"encoder.weights={weights}"])
    assert not is_done(one, lambda overrides: cfg)
    finish(one, **Settings.from_config(cfg).to_dict() | {"device": "cuda"})
    environment = json.loads((one.path / "environment.json").read_text()) | {"weights": file_hash(weights)}
    for modules, same in (({"my_loss": "edited since"}, False), ({}, True)):
        (one.path / "environment.json").write_text(json.dumps({**environment, "modules": modules}))
        assert is_done(one, lambda overrides: cfg) == same
    weights.write_bytes(b"trained again")
    assert not is_done(one, lambda overrides: cfg)
    weights.write_bytes(b"first")
    assert is_done(one, lambda overrides: cfg)
    cfg.epochs += 1
    assert not is_done(one, lambda overrides: cfg)


CIFAR10 = "cifar-10-python.tar.gz"
FOLDER = {"_target_": "contrastive.dataset.image_folder.image_folder"}


@pytest.mark.parametrize(
    ("node", "file", "said"),
    [
        ({"_target_": "contrastive.dataset.cifar.cifar10"}, CIFAR10, f"put {CIFAR10} into "),
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


def test_hours_left_come_from_finished_runs_of_this_device_else_from_stated_minutes_at_their_pace(tmp_path):
    runs, stated = [run_of(tmp_path / row, seed, row) for row in "AB" for seed in range(2)], {"A": 15.0, "B": 60.0}
    assert hours_left(runs, "X", stated) == 2.5
    finish(runs[0], seconds=3600, processor="Y")
    assert hours_left(runs, "X", stated) == 2.25
    finish(runs[0], seconds=180)  # a fifth of what is stated
    assert hours_left(runs, "X", stated) == pytest.approx((3 + 2 * 12) / 60)
    finish(runs[2], seconds=7200)
    assert hours_left(runs, "X", stated) == 2.05  # three minutes of A, two hours of B
    other = run_of(tmp_path / "C", row="C")
    assert hours_left([*runs, other], "X", stated) == pytest.approx(2.05 + (3 + 120) / 2 / 60)
    assert hours_left([other], "X", {"C": None}) is None


def test_the_list_shows_every_table(tmp_path):
    tables = [read_table(path) for path in table_paths().values()]
    config = OmegaConf.create({"dataset": {"_target_": "x.mnist", "root": str(tmp_path)}})
    text = tables_text(tables, tmp_path, device="X", on_cpu=True, n_parallel=2, compose=lambda overrides: config)
    (simclr,) = (line for line in text.splitlines() if "| simclr_cifar10 " in line)
    assert "1.7 on a GPU" in simclr  # 50, 10 and 40 minutes, one after the other
    assert all(f"| {table.name} " in text for table in tables)
    assert "put MNIST/raw" in text
    assert "e+" not in text  # 185 hours would be 1.8e+02
