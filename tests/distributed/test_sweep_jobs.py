"""The launcher of a sweep, also one that it is delegated to, and the record of its jobs."""

import json
import signal
import time

import pytest
import torch
from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import MissingConfigException
from omegaconf import OmegaConf

from contrastive.cli import sweep
from contrastive.cli.sweep import RecordJobs, choose_launcher, read_jobs
from contrastive.config.messages import user_message
from contrastive.distributed import hardware
from contrastive.errors import ConfigError
from contrastive.run.files import write_result
from tests.forked import Program
from tests.helpers import ANYWHERE, BARE, EMPTY_RESULT, TINY, program

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
    assert choose_launcher(["-m", "seed=0,1", word]) == chosen


def test_jobs_are_read_in_the_order_of_the_sweep(tmp_path):
    write_result(tmp_path, EMPTY_RESULT | {"test": {"knn_top1": 50.0}})
    records = tmp_path / "records"
    record(RecordJobs(str(records)), tmp_path, 0, None)
    assert not records.exists()  # as on another machine
    records.touch()
    record(RecordJobs(str(records)), tmp_path, 1, ConfigError("too large"))
    record(RecordJobs(str(records)), tmp_path, 0, None)
    record(RecordJobs(str(records)), tmp_path / "dry", 2, None)  # which leaves nothing
    assert [(run.overrides, run.path, failure) for run, failure in read_jobs(records).items()] == [
        (("seed=0",), tmp_path, ""), (("seed=1",), tmp_path, "too large")
    ]  # fmt: skip


def record(callback: RecordJobs, path, number: int, error: Exception | None) -> None:
    hydra = {"job": {"num": number}, "overrides": {"task": [f"seed={number}"]}, "runtime": {"output_dir": str(path)}}
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("hydra_submitit_launcher", ["hydra/launcher=submitit_local"]),
        ("hydra_ray_launcher", ["hydra/launcher=gpus", "hydra.launcher.ray.remote.num_gpus=0"]),
    ],
)
def test_a_comparison_on_submitit_and_ray(tmp_path, plugin, words):
    pytest.importorskip(f"hydra_plugins.{plugin}")
    numbers = ["hydra.sweeper.budget=2", "hydra.sweeper.seeds=3"]
    command = ["-m", "hydra/sweeper=compare", *words, "loss=nt_xent,debiased_neg", *numbers, *TINY, "epochs=1"]
    done = program(*command, cwd=tmp_path, env=ANYWHERE)
    assert done.returncode == 0, done.stderr
    assert "debiased_neg: " in done.stdout
    (record,) = tmp_path.glob("outputs/compare/*.json")
    assert [len(row["runs"]) for row in json.loads(record.read_text())["rows"]] == [3, 3, 3, 3]


def test_a_missing_plugin_is_named_with_what_to_install():
    error = MissingConfigException("Could not find it", missing_cfg_file="hydra/launcher/submitit_slurm")
    assert "pip install -e '.[slurm]'" in user_message(error)
