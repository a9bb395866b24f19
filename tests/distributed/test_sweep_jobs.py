"""The launcher of a sweep, and the record of its jobs."""

import signal
import time

import pytest
import torch
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from contrastive.cli import sweep
from contrastive.cli.sweep import RecordJobs, choose_launcher, read_jobs
from contrastive.distributed import hardware
from contrastive.errors import ConfigError
from contrastive.run.files import write_result
from tests.forked import Program
from tests.helpers import BARE, EMPTY_RESULT

SWEEP = ["-m", "seed=0,1"]


CORES = ["hydra/launcher=cores"]


@pytest.mark.parametrize(
    ("word", "n_gpus", "chosen"),
    [
        ("epochs=1", 0, CORES),
        *((word, 0, []) for word in ("hydra/launcher=basic", "hydra/sweeper=basic", "devices=2", "device=cuda:1")),
        ("epochs=1", 1, []), ("epochs=1", 2, CORES), ("hydra.launcher.n_jobs=4", 1, CORES), ("device=cpu", 1, CORES),
    ],
)  # fmt: skip
def test_a_sweep_uses_every_core_or_gpu_unless_it_says_otherwise(monkeypatch, tmp_path, word, n_gpus, chosen):
    monkeypatch.setattr(sweep, "n_cores", lambda: 2)
    monkeypatch.setattr(hardware, "DRIVERS", (str(tmp_path),) if n_gpus else ())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert choose_launcher([*SWEEP, word]) == chosen


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
