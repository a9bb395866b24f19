"""One run on several machines: Slurm's variables, and the files for clusters in examples/."""

import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml

from contrastive.distributed.slurm import first_node, tasks_per_node, torchrun_variables
from tests.helpers import ONE_THREAD, ROOT, TINY, logged_lines

BARE = [word for word in TINY if not word.startswith("evaluator.")]
QUICK = [*BARE, "device=cpu", "precision=fp32", "log_every=1", "evaluator=[knn]"]
ENVIRONMENT = {**ONE_THREAD, "PYTHONPATH": str(ROOT)}
STEP = {
    "SLURM_JOB_ID": "123456", "SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "12", "SLURM_STEP_TASKS_PER_NODE": "8,4", "SLURM_STEP_NODELIST": "gpu[03,7-9]",
}  # fmt: skip


def test_a_task_of_slurm_is_a_process_of_torchrun():
    assert torchrun_variables(STEP) == {
        "RANK": "9", "WORLD_SIZE": "12", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4",
        "MASTER_ADDR": "gpu03", "MASTER_PORT": "23456",
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


def test_lists_of_slurm():
    lists = ["a1", "a1,b2", "gpu[03-05,9],login1", "rack[2,4]-node[07-08]"]
    assert [first_node(nodes) for nodes in lists] == ["a1", "a1", "gpu03", "rack2-node07"]
    assert [tasks_per_node(tasks) for tasks in ("4", "8(x2),4", "2,1")] == [[4], [8, 8, 4], [2, 1]]


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
    words = said[said.index("train.py") + 1 :]
    settings = composed(*(word for word in words if not word.startswith("hydra.")))
    assert settings.batch_size == 4096 and re.match(r"/runs/", str(settings.data_root))


@pytest.mark.slow
def test_two_tasks_of_slurm_are_one_run(tmp_path):
    words = [str(ROOT / "train.py"), *QUICK, "epochs=1", "hydra.run.dir=run"]
    step = {
        "SLURM_JOB_ID": str(os.getpid()), "SLURM_NODEID": "0", "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "localhost",
    }  # fmt: skip
    tasks = [
        subprocess.Popen(
            [sys.executable, *words],
            cwd=tmp_path,
            env={**ENVIRONMENT, **step, "SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    said = [task.communicate(timeout=300)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0]
    assert "Test split" in said[0] and not said[1]
    assert sum("train/loss" in line for line in logged_lines(tmp_path / "run")) == 1438 // 256
