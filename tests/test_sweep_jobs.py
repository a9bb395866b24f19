"""The launcher of a sweep, and the records of its jobs."""

import json
import os

import pytest

from contrastive.cli import sweep as sweep_jobs
from contrastive.cli.sweep import PARALLEL, RECORDS, choose_launcher, read_jobs, record_job, sweep_records
from tests.helpers import EMPTY_RESULT

SWEEP = ["-m", "seed=0,1"]


@pytest.fixture
def two_cores_without_gpu(monkeypatch):
    monkeypatch.setattr(sweep_jobs, "n_cores", lambda: 2)
    monkeypatch.setattr(sweep_jobs, "GPUS", ())


@pytest.mark.usefixtures("two_cores_without_gpu")
def test_a_sweep_on_a_cpu_gets_a_core_for_each_run():
    assert choose_launcher(SWEEP, {}) == ([*SWEEP, "hydra/launcher=cores"], {PARALLEL: "1", "OMP_NUM_THREADS": "1"})


@pytest.mark.usefixtures("two_cores_without_gpu")
def test_a_chosen_number_of_threads_stays():
    assert choose_launcher(SWEEP, {"OMP_NUM_THREADS": "2"})[1] == {PARALLEL: "1"}


@pytest.mark.usefixtures("two_cores_without_gpu")
@pytest.mark.parametrize("word", ["hydra/launcher=basic", "hydra/sweeper=search", "devices=2"])
def test_a_chosen_launcher_sweeper_or_number_of_devices_stays(word):
    assert choose_launcher([*SWEEP, word], {}) == ([*SWEEP, word], {})


def test_a_gpu_is_not_shared(monkeypatch, tmp_path):
    monkeypatch.setattr(sweep_jobs, "n_cores", lambda: 2)
    monkeypatch.setattr(sweep_jobs, "GPUS", (str(tmp_path),))
    assert choose_launcher(SWEEP, {}) == (SWEEP, {})
    assert "hydra/launcher=cores" in choose_launcher([*SWEEP, "device=cpu"], {})[0]


def test_records_come_back_in_the_order_of_the_sweep(tmp_path):
    result = EMPTY_RESULT | {"test": {"knn_top1": 50.0}}
    (tmp_path / "result.json").write_text(json.dumps(result))
    with sweep_records() as records:
        record_job(1, ["seed=1"], path=tmp_path, failure="too large")
        record_job(0, ["seed=0"], path=tmp_path, failure=None)
        first, second = read_jobs(records)
    assert (first.overrides, first.result, first.failure) == (["seed=0"], result, None)
    assert (second.overrides, second.result, second.failure) == (["seed=1"], None, "too large")
    assert RECORDS not in os.environ
    record_job(0, [], path=tmp_path, failure=None)  # a job of a cluster: nobody on this machine reads its record
