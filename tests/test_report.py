"""Tables and figures read run directories and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from contrastive.report.__main__ import find_jobs
from contrastive.report.figures import curve, draw
from contrastive.report.sweep import Job, spread, sweep_table
from contrastive.report.table import paper_table, row_folder
from tests.helpers import ONE_THREAD, ROOT


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
    assert rows[5][:2] == ["untrained", "10.00 ± 0.00 (4)"]
    assert "failed: loss=c epochs=1 seed=0: too hot" in text


def test_a_table_shows_ours_beside_the_published(tmp_path):
    spec = {
        "title": "T",
        "note": "N",
        "seeds": [0, 1],
        "metrics": ["knn_top1"],
        "rows": [
            {"name": "A, b", "overrides": [], "published": {"knn_top1": 74.3}, "source": "Table 1"},
            {"name": "C", "overrides": []},
        ],
    }
    for seed, value in ((0, 70.0), (1, 72.0)):
        path = row_folder(spec["rows"][0], tmp_path) / f"seed={seed}"
        path.mkdir(parents=True)
        (path / "result.json").write_text(json.dumps(result(value)))
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in paper_table(spec, tmp_path).splitlines()
        if line.startswith("|")
    ]
    assert rows[0] == ["method", "knn_top1", "published knn_top1", "source"]
    assert rows[2] == ["A, b", "71.00 ± 1.41 (2)", "74.3", "Table 1"]
    assert rows[3] == ["C", "-", "", ""]


def test_an_unknown_table_is_refused():
    done = subprocess.run(
        [sys.executable, "scripts/reproduce_table.py", "none"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "known are biased_digits, biased_mnist, debiased_positive, digits" in done.stderr


def test_a_figure(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 0, "epoch": 0, "a": 1.0}\n{"step": 1, "epoch": 1, "b": 2}\n{"step": 2, "epoch": 2, "a": 3.0}\n'
    )
    assert curve(tmp_path, "a") == ([0, 2], [1.0, 3.0])
    draw({"run": tmp_path}, "a", "title", tmp_path / "out.png")
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="has no c"):
        draw({"run": tmp_path}, "c", "title", tmp_path / "out.png")


def test_a_table_is_run_with_words_of_ones_own(tmp_path):
    words = [
        "epochs=1",
        "dataset.size=8",
        "encoder.width=2",
        "evaluator.linear.max_iter=5",
        "evaluator.knn.every=0",
        "batch_size=256",
        "device=cpu",
    ]
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/reproduce_table.py"), "digits", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=ONE_THREAD,
    )
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("outputs/table/digits-*/*/seed=*/result.json"))) == 6
    (written,) = tmp_path.glob("outputs/table/digits-*.md")
    assert written.read_text().count("(2)") == 9


def finished_run(path: Path, *, seed: int, data: str, data_seed: int, rho: float = 0.9) -> None:
    path.mkdir(parents=True)
    config = {"seed": seed, "dataset": {"data_seed": data_seed, "rho": rho}}
    (path / "config.yaml").write_text(json.dumps(config))
    (path / "environment.json").write_text(json.dumps({"data": data}))
    (path / "result.json").write_text(json.dumps(result(50.0 + seed)))


@pytest.mark.parametrize(("second_root", "rows"), [(False, 1), (True, 3)])
def test_runs_whose_data_is_redrawn_for_every_seed_share_a_row(tmp_path, second_root, rows):
    for seed in (0, 1):
        finished_run(tmp_path / f"a{seed}", seed=seed, data=f"hash-{seed}", data_seed=seed)
    if second_root:  # the same settings on other data
        finished_run(tmp_path / "other", seed=0, data="elsewhe0", data_seed=0)
    table = [line for line in sweep_table(find_jobs([tmp_path])).splitlines() if line.startswith("|")]
    body = [line for line in table[2:] if "untrained" not in line]
    assert len(body) == rows
    assert ("50.50 ± 0.71 (2)" in body[0]) == (not second_root)


def test_runs_on_other_maps_of_colors_do_not_share_a_row(tmp_path):
    for seed in (0, 1):
        finished_run(tmp_path / f"a{seed}", seed=seed, data="same", data_seed=5)
        finished_run(tmp_path / f"b{seed}", seed=seed, data="othe", data_seed=6)
    table = [line for line in sweep_table(find_jobs([tmp_path])).splitlines() if line.startswith("|")]
    assert sum("(2)" in line for line in table) == 2
