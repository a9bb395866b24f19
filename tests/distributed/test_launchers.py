"""Sweeps beyond one process, each with the engine it is delegated to."""

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import pytest
from hydra.errors import MissingConfigException

from contrastive.config.messages import user_message
from tests.helpers import BARE, ONE_THREAD, ROOT, TINY, program, started

QUICK = [*TINY, "epochs=1", "log_every=100"]


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
    command = ["-m", "hydra/sweeper=compare", *words, "loss=nt_xent,debiased_neg", *numbers, *QUICK]
    done = program(*command, cwd=tmp_path, env={**ONE_THREAD, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert "debiased_neg: " in done.stdout
    (record,) = tmp_path.glob("outputs/compare/*.json")
    assert [len(row["runs"]) for row in json.loads(record.read_text())["rows"]] == [3, 3, 3, 3]


@pytest.mark.slow
def test_submitit_job_that_times_out_is_requeued(tmp_path):
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    linear = ["evaluator=[linear]", "evaluator.linear.max_iter=5"]
    sweep = started("-m", "hydra/launcher=submitit_local", *BARE, "epochs=60", *linear, cwd=tmp_path)
    first = job_of(tmp_path, sweep)
    while not list(tmp_path.rglob("last.pt")):
        time.sleep(0.05)
        assert sweep.poll() is None, sweep.communicate()
    run = next(tmp_path.rglob("last.pt")).parents[1]
    os.kill(first, signal.SIGUSR2)  # what submitit sends before the time is up
    _, said = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, said
    assert json.loads((run / "result.json").read_text())["test"]
    assert len(json.loads((run / "environment.json").read_text())["earlier"]) == 1
    log = "".join(path.read_text() for path in tmp_path.rglob("*_log.out"))
    assert "Requeued job" in log
    assert "resuming after epoch" in log


def job_of(folder, sweep) -> int:
    """The process that runs submitit's only job."""
    while sweep.poll() is None:
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (path / "cmdline").read_text().split("\0")
                if "submitit.core._submit" in words and any(str(folder) in word for word in words):
                    return int(path.name)
        time.sleep(0.1)
    raise AssertionError(sweep.communicate())


def test_a_missing_plugin_is_named_with_what_to_install():
    error = MissingConfigException("Could not find it", missing_cfg_file="hydra/launcher/submitit_slurm")
    assert "pip install -e '.[slurm]'" in user_message(error)
