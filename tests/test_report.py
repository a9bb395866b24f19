"""Tables and figures read run directories and nothing else."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from contrastive.report.__main__ import main
from contrastive.report.jobs import find_jobs
from contrastive.report.sweep import Job, sweep_table
from contrastive.text import spread
from tests.helpers import EMPTY_RESULT, ROOT, SOUND_CONFIG, SOUND_ENVIRONMENT


def result(knn: float) -> dict:
    return {"test": {"knn_top1": knn, "linear_top1": knn + 1}, "untrained": {"knn_top1": 10.0}}


def test_spread():
    assert spread([1.0, 2.0, 3.0]) == "2.00 ± 1.00 (3)"
    assert spread([1.5]) == "1.50 (1)"
    assert spread([]) == "-"


def test_a_sweep_is_grouped_by_everything_but_the_seed():
    jobs = [
        Job([f"loss={loss}", "epochs=1", f"seed={seed}"], Path("x"), result(base + seed))
        for loss, base in (("a", 10.0), ("b", 20.0))
        for seed in (0, 2)
    ]
    jobs.append(Job(["loss=c", "epochs=1", "seed=0"], Path("x"), None, "too hot"))
    text = sweep_table(jobs)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert rows[0][0] == "loss"
    assert "epochs" not in rows[0]
    assert rows[2][:2] == ["a", "11.00 ± 1.41 (2)"]
    assert rows[3][:3] == ["b", "21.00 ± 1.41 (2)", "22.00 ± 1.41 (2)"]
    assert rows[4] == ["c", "-", "-", "1"]
    assert rows[5][:2] == ["untrained", "10.00 (1)"]  # the same encoder before training, counted once
    assert "failed: loss=c epochs=1 seed=0: too hot" in text


def save_run(path: Path, *, data: str, knn: float, **config: Any) -> None:
    path.mkdir(parents=True)
    (path / "result.json").write_text(json.dumps(EMPTY_RESULT | result(knn)))
    (path / "environment.json").write_text(json.dumps(SOUND_ENVIRONMENT | {"data": data}))
    config["dataset"] = SOUND_CONFIG["dataset"] | config.get("dataset", {})
    (path / "config.yaml").write_text(yaml.safe_dump(SOUND_CONFIG | config))


def rows_of(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


def test_runs_on_different_data_never_share_a_row(tmp_path):
    for i, data in enumerate(("aaaaaaaa1", "bbbbbbbb2")):
        save_run(tmp_path / data, data=data, knn=30.0 * (i + 1), seed=0, dataset={"root": data})
    jobs, repeated = find_jobs([tmp_path])
    rows = rows_of(sweep_table(jobs))
    assert repeated == []
    assert [row[:2] for row in rows[2:4]] == [["aaaaaaaa", "30.00 (1)"], ["bbbbbbbb", "60.00 (1)"]]


def test_a_run_that_is_there_twice_counts_once_and_is_named(tmp_path, capsys):
    for name in ("first", "second"):
        save_run(tmp_path / name, data="a" * 8, knn=30.0, seed=0, epochs=2)
    save_run(tmp_path / "third", data="a" * 8, knn=40.0, seed=1, epochs=2)
    assert main([str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "35.00 ± 7.07 (2)" in text
    assert f"{tmp_path}/second repeats {tmp_path}/first (equal settings, seed and data) and is not counted" in text


def test_maps_drawn_with_the_seed_belong_to_the_spread_over_seeds(tmp_path):
    for seed in (0, 1):
        save_run(tmp_path / f"{seed}", data=f"{seed}" * 8, knn=30.0 + seed, seed=seed, dataset={"data_seed": seed})
    assert "30.50 ± 0.71 (2)" in sweep_table(find_jobs([tmp_path])[0])
    save_run(tmp_path / "fixed", data="c" * 8, knn=50.0, seed=1, dataset={"data_seed": 0})
    assert "(2)" not in sweep_table(find_jobs([tmp_path])[0]).split("untrained")[0]


def test_equal_seeds_on_other_data_are_not_averaged_as_maps(tmp_path):
    for data in ("a" * 8, "b" * 8):
        save_run(tmp_path / data, data=data, knn=30.0, seed=0, dataset={"data_seed": 0})
    assert "(2)" not in sweep_table(find_jobs([tmp_path])[0]).split("untrained")[0]


def test_table_is_the_command_of_words_without_one(tmp_path, capsys):
    save_run(tmp_path / "a", data="a" * 8, knn=30.0, seed=0, epochs=2)
    assert main([str(tmp_path)]) == main(["table", str(tmp_path)]) == 0
    first, second = capsys.readouterr().out.split("Test split")[1:]
    assert first.strip() == second.strip()


def test_a_folder_without_runs_is_one_sentence(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert f"no finished run under {tmp_path}: try python train.py first" in capsys.readouterr().err


@pytest.mark.slow
def test_a_closed_pipe_ends_without_a_traceback(tmp_path):
    for seed in range(40):
        save_run(tmp_path / str(seed), data="a" * 8, knn=30.0, seed=seed, epochs=seed)
    command = f"{sys.executable} -m contrastive.report {tmp_path} | true"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
