"""Several processes as one run, started as a user does."""

import errno
import os
import signal

import psutil
import pytest
import torch

from contrastive.config.messages import user_message
from contrastive.distributed.launch import launch
from contrastive.errors import ConfigError
from tests.helpers import BARE, TINY, logged_lines, program, restore_sigint, started, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        torch.cuda.is_available(), reason="two processes need two GPUs: try again with CUDA_VISIBLE_DEVICES= in front"
    ),
]
QUICK = [*BARE, "epochs=1", "precision=fp32", "log_every=1", "evaluator=[knn]"]


def test_devices_2_is_one_run_in_one_directory(tmp_path):
    one = program(*QUICK, "hydra.run.dir=one", cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    two = program(*QUICK, "devices=2", "hydra.run.dir=two", cwd=tmp_path)
    assert two.returncode == 0, two.stderr
    assert "on cpu, 2 processes of 1 thread" in two.stdout and "processes" not in one.stdout
    assert two.stdout.count("Test split") == 1
    assert {p.name for p in (tmp_path / "one").rglob("*")} >= {"result.json", "last.pt"}
    # what follows in the name of an event file is time, machine and process
    folders = tmp_path / "one", tmp_path / "two"
    one_files, two_files = (sorted(p.name.partition("tfevents")[0] for p in run.iterdir()) for run in folders)
    assert two_files == one_files
    mine, theirs = logged_lines(tmp_path / "two"), logged_lines(tmp_path / "one")
    assert [line.keys() for line in mine] == [line.keys() for line in theirs]
    assert mine[0] == theirs[0]  # the untrained encoder
    for i in (1, 2):  # later, rounding has grown: as it does between memory formats
        assert mine[i]["train/loss"] == pytest.approx(theirs[i]["train/loss"], rel=1e-5)


def test_a_refusal_of_several_processes_is_one_sentence(tmp_path):
    done = program(*QUICK, "devices=2", "loss=debiased_pos", "tau_plus=0.001", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "try batch_size=" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def fill_the_disk() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "last.pt")


def test_an_error_of_the_system_in_one_process_is_one_sentence():
    with pytest.raises(ConfigError, match=r"last\.pt: no space left on device: mend that"):
        launch(2, fill_the_disk, explain=user_message)


@pytest.mark.parametrize("whom", ["parent", "all"])
def test_ctrl_c_ends_all_processes_quietly(tmp_path, whom):
    words = [*TINY, "epochs=400", "devices=2", "hydra.run.dir=run"]
    process = started(*words, cwd=tmp_path, start_new_session=True, preexec_fn=restore_sigint)
    wait_for(tmp_path / "run/checkpoints/last.pt", process)
    alive = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    listening = [one for own in alive for one in own.net_connections() if one.status == psutil.CONN_LISTEN]
    assert {one.laddr.ip for one in listening} == {"127.0.0.1"}  # to nobody on other machines
    (os.killpg if whom == "all" else os.kill)(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)  # the pipes close when the last process has gone
    assert process.returncode == 130
    assert "same command again" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert not (tmp_path / "run/result.json").exists()
