"""One run on several machines: Slurm's variables, torchrun's restarts, and the files for clusters in examples/."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from contrastive.distributed.process import torchrun_variables
from tests.helpers import ANYWHERE, BARE, ROOT, check_same, logged_lines, wait_for

QUICK = [*BARE, "device=cpu", "precision=fp32", "log_every=1", "evaluator=[knn]"]
STEP = {
    "SLURM_JOB_ID": "123456", "SLURM_PROCID": "17", "SLURM_LOCALID": "1", "SLURM_NODEID": "2",
    "SLURM_STEP_NUM_TASKS": "20", "SLURM_STEP_TASKS_PER_NODE": "8(x2),4",
    "SLURM_STEP_NODELIST": "rack[2,4]-gpu[03,7-9],login1",
}  # fmt: skip


def test_a_task_of_slurm_is_a_process_of_torchrun():
    assert torchrun_variables(STEP) == {
        "RANK": "17", "WORLD_SIZE": "20", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "rack2-gpu03", "MASTER_PORT": "23456",
    }  # fmt: skip


@pytest.mark.parametrize(
    "alone",
    [
        {},
        {**STEP, "SLURM_STEP_NUM_TASKS": "1"},
        {"SLURM_NTASKS": "12", "SLURM_PROCID": "0", "SLURM_JOB_ID": "7"},  # a batch script that calls no srun
    ],
)
def test_a_process_that_nobody_else_runs_beside_is_alone(alone):
    assert torchrun_variables(alone) == {}


@pytest.mark.parametrize("file", sorted((ROOT / "examples/cluster").glob("*.yaml")), ids=lambda file: file.stem)
def test_the_files_for_clusters_start_a_run_that_composes(composed, file):
    node = yaml.safe_load(file.read_text())
    if file.stem == "skypilot":
        said = shlex.split(node["run"].replace("\\\n", " "))
    else:
        worker = node["spec"]["pytorchReplicaSpecs"]["Worker"]
        said = worker["template"]["spec"]["containers"][0]["command"]
        assert worker["replicas"] == node["spec"]["elasticPolicy"]["minReplicas"]
    assert said[0] == "torchrun"
    settings = composed(*(word for word in said[said.index("train.py") + 1 :] if not word.startswith("hydra.")))
    assert settings.batch_size == 4096 and re.match(r"/runs/", str(settings.data_root))


@pytest.mark.slow
def test_two_tasks_of_slurm_are_one_run(tmp_path):
    words = [str(ROOT / "train.py"), *QUICK, "epochs=1", "hydra.run.dir=run"]
    step = {
        "SLURM_JOB_ID": str(os.getpid()), "SLURM_NODEID": "0", "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "localhost",
    }  # fmt: skip
    start = {"cwd": tmp_path, "stdout": subprocess.PIPE, "text": True}
    environments = [{**ANYWHERE, **step, "SLURM_PROCID": i, "SLURM_LOCALID": i} for i in "01"]
    tasks = [subprocess.Popen([sys.executable, *words], env=env, **start) for env in environments]
    said = [task.communicate(timeout=300)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0]
    assert "Test split" in said[0] and not said[1]
    assert sum("train/loss" in line for line in logged_lines(tmp_path / "run")) == 1438 // 256


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "2"]
MEETING = """
import os, time, torch.distributed as dist
from contrastive.distributed.process import any_process, init, shutdown

attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], int(os.environ["RANK"])
time.sleep(2 * (attempt == "1" and rank == 0))  # rank 1 is there first, and the address of the dead rank 0
init("cpu")
any_process(True)
if attempt == "0":
    os._exit(1)
open(f"met {rank}", "w").close()
shutdown()
"""


@pytest.mark.slow
def test_restarted_processes_do_not_look_for_those_before_them(tmp_path):
    (tmp_path / "meeting.py").write_text(MEETING)
    subprocess.run([*TORCHRUN, "meeting.py"], cwd=tmp_path, env=ANYWHERE, check=True, timeout=300)
    assert {path.name for path in tmp_path.glob("met *")} == {"met 0", "met 1"}


def workers(torchrun: int) -> list[int]:
    """The processes that a torchrun has now, by rank."""
    ranks = {}
    for pid in Path(f"/proc/{torchrun}/task/{torchrun}/children").read_text().split():
        with suppress(OSError):  # of one that has just ended
            if said := re.search(rb"\0RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes()):
                ranks[int(said[1])] = int(pid)
    return [ranks[rank] for rank in sorted(ranks)]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds the processes in Linux's /proc")
def test_a_run_that_lost_a_process_twice_is_the_run_that_lost_none(tmp_path):
    words = [str(ROOT / "train.py"), *QUICK, "epochs=4", "checkpoint_every=1"]
    start = {"cwd": tmp_path, "env": ANYWHERE, "text": True}
    subprocess.run([*TORCHRUN, *words, "hydra.run.dir=whole"], **start, check=True, timeout=300)
    with subprocess.Popen([*TORCHRUN, *words, "hydra.run.dir=cut"], **start, stderr=subprocess.PIPE) as process:
        try:
            wait_for(tmp_path / "cut/checkpoints/last.pt", process)
            for victim in (0, 1):  # the one that writes, in training; then another, while it starts
                first = workers(process.pid)
                os.kill(first[victim], signal.SIGKILL)
                while len(now := workers(process.pid)) < 2 or set(now) & set(first):
                    assert process.poll() is None
                    time.sleep(0.05)
            _, said = process.communicate(timeout=300)
        finally:
            process.terminate()
    assert process.returncode == 0, said
    assert not (tmp_path / "cut/failure.json").exists()
    check_same(tmp_path / "cut", tmp_path / "whole")
