"""The launcher of a sweep, and the record of its jobs."""

import signal
import time

import pytest
import torch
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from contrastive.cli import sweep
from contrastive.cli.sweep import RecordJobs, choose_launcher, read_jobs
from contrastive.distributed import cores
from contrastive.errors import ConfigError
from contrastive.run.files import write_result
from tests.forked import Program
from tests.helpers import BARE, EMPTY_RESULT

SWEEP = ["-m", "seed=0,1"]


@pytest.fixture
def two_cores_without_gpu(monkeypatch):
    monkeypatch.setattr(sweep, "n_cores", lambda: 2)
    monkeypatch.setattr(cores, "DRIVERS", ())


@pytest.mark.usefixtures("two_cores_without_gpu")
def test_a_sweep_on_a_cpu_gets_a_core_for_each_run():
    assert choose_launcher(SWEEP) == ["hydra/launcher=cores"]


@pytest.mark.usefixtures("two_cores_without_gpu")
@pytest.mark.parametrize("word", ["hydra/launcher=basic", "hydra/sweeper=basic", "devices=2", "device=cuda:1"])
def test_a_chosen_launcher_sweeper_or_device_stays(word):
    assert choose_launcher([*SWEEP, word]) == []


@pytest.mark.parametrize("n", [1, 2])
def test_a_sweep_uses_every_gpu_and_shares_one_only_when_asked_to(monkeypatch, tmp_path, n):
    monkeypatch.setattr(sweep, "n_cores", lambda: 2)
    monkeypatch.setattr(cores, "DRIVERS", (str(tmp_path),))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert choose_launcher(SWEEP) == (["hydra/launcher=cores"] if n > 1 else [])
    assert choose_launcher([*SWEEP, "hydra.launcher.n_jobs=4"]) == ["hydra/launcher=cores"]
    assert choose_launcher([*SWEEP, "device=cpu"]) == ["hydra/launcher=cores"]


def test_jobs_are_read_in_the_order_of_the_sweep(tmp_path):
    result = EMPTY_RESULT | {"test": {"knn_top1": 50.0}}
    write_result(tmp_path, result)
    records = tmp_path / "records"
    records.touch()
    record(RecordJobs(str(records)), tmp_path, 1, ConfigError("too large"))
    record(RecordJobs(str(records)), tmp_path, 0, None)
    record(RecordJobs(str(records)), tmp_path / "dry", 2, None)  # which leaves nothing
    assert [(run.overrides, run.path, failure) for run, failure in read_jobs(records).items()] == [
        (("seed=0",), tmp_path, ""), (("seed=1",), tmp_path, "too large")
    ]  # fmt: skip


def test_a_job_on_another_machine_goes_unrecorded(tmp_path):
    record(RecordJobs(str(tmp_path / "records")), tmp_path, 0, None)
    assert not (tmp_path / "records").exists()


def record(callback: RecordJobs, path, number: int, error: Exception | None) -> None:
    hydra = {
        "job": {"num": number},
        "overrides": {"task": [f"seed={number}"]},
        "runtime": {"output_dir": str(path)},
    }
    job = JobReturn(status=JobStatus.COMPLETED if error is None else JobStatus.FAILED)
    job.return_value = error
    callback.on_job_end(OmegaConf.create({"hydra": hydra}), job)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["basic", "cores"])
def test_a_sweep_that_is_ended_saves_its_runs(tmp_path, launcher):
    words = [*BARE, "epochs=1000", "evaluator=[]", "checkpoint_every_minutes=0", f"hydra/launcher={launcher}"]
    sweep = Program("-m", "seed=0,1", *words, cwd=tmp_path)
    n_runs = 2 if launcher == "cores" else 1
    while len(saved := list(tmp_path.rglob("last.pt"))) < n_runs:
        assert sweep.process.is_alive(), sweep.said
        time.sleep(0.1)
    before = [path.stat().st_ino for path in saved]
    sweep.send(signal.SIGTERM)
    assert sweep.wait() == 143
    assert sweep.said.splitlines()[-1].startswith("ended by SIGTERM: run the same command again")
    assert "Traceback" not in sweep.said
    assert all(path.stat().st_ino != inode for path, inode in zip(saved, before, strict=True))  # each was saved anew
