"""The GPUs that runs are spread over, on a machine whose GPUs are made up."""

import pytest
import torch

from contrastive.distributed import cores
from contrastive.distributed.cores import gpus_for
from contrastive.study import jobs
from hydra_plugins import contrastive_launcher
from hydra_plugins.contrastive_launcher import CoresLauncher


@pytest.fixture
def four_gpus(monkeypatch, tmp_path):
    monkeypatch.setattr(cores, "DRIVERS", (str(tmp_path),))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


ALL = ["0", "1", "2", "3"]


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        ([], ALL),
        (["device=cuda"], ALL),
        (["device=auto", "epochs=1"], ALL),
        (["device=cpu"], []),  # none, a certain one, or several for each run
        (["device=cuda:1"], []),
        (["devices=2"], []),
    ],
)
def test_runs_are_spread_over_every_gpu_but_those_that_say_otherwise(words, gpus):
    assert gpus_for(words) == gpus


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("listed", "n", "names"),
    [
        ("6,2", 2, ["6", "2"]),
        ("GPU-8932f937,GPU-1a2b", 2, ["GPU-8932f937", "GPU-1a2b"]),
        ("1, 3,-1,0", 2, ["1", "3"]),  # CUDA stops at the first that there is not
        ("", 0, []),
    ],
)
def test_the_users_list_of_gpus_is_kept_to(monkeypatch, listed, n, names):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n)
    assert gpus_for([]) == names


def test_without_a_driver_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(cores, "DRIVERS", ())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: pytest.fail("torch was asked"))
    assert gpus_for([]) == []


def test_a_table_runs_one_job_on_each_gpu_or_core(monkeypatch):
    monkeypatch.setattr(jobs, "n_cores", lambda: 16)
    assert jobs.default_jobs(["0", "1"], on_cpu=False) == 2
    assert jobs.default_jobs([], on_cpu=False) == 1  # a certain GPU, or several for one run
    assert jobs.default_jobs([], on_cpu=True) == 16


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("n_jobs", "word", "n_parallel", "gpus"),
    [
        (-1, "seed=0", 4, ["0", "1", "2", "3"]),
        (8, "seed=0", 8, ["0", "1", "2", "3"]),  # two on each
        (-1, "device=cpu", 16, []),
    ],
)
def test_a_sweep_runs_one_job_on_each_gpu_or_core(monkeypatch, n_jobs, word, n_parallel, gpus):
    asked = {}
    monkeypatch.setattr(contrastive_launcher, "n_cores", lambda: 16)
    monkeypatch.setattr(contrastive_launcher, "run_in_processes", lambda tasks, **how: asked.update(how) or [])
    CoresLauncher(n_jobs).launch([[word], [word, "epochs=1"]], 0)
    assert asked == {"n_parallel": n_parallel, "gpus": gpus}
