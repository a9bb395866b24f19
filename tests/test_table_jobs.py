"""Jobs of a table: what is done, what fails, what is missing, how long the rest takes."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from contrastive.tables.jobs import TableJob, hours_left, is_done, missing_data, missing_of, run_jobs, tables_text
from contrastive.tables.spec import Row, read_table
from tests.helpers import EMPTY_RESULT, ROOT, SOUND_CONFIG, SOUND_ENVIRONMENT, restore_sigint


def row(name: str = "A", minutes: float | None = None) -> Row:
    return Row(name=name, words=("loss=x",), published={}, source="", minutes=minutes)


def job(path: Path, seed: int = 0, **values: Any) -> TableJob:
    return TableJob(row=row(**values), seed=seed, path=path / f"seed={seed}")


def finish(job: TableJob, *, device: str = "X", seconds: float = 60, **config: Any) -> None:
    job.path.mkdir(parents=True, exist_ok=True)
    (job.path / "result.json").write_text(json.dumps(EMPTY_RESULT | {"time": {"seconds": seconds}}))
    (job.path / "environment.json").write_text(json.dumps(SOUND_ENVIRONMENT | {"device": device}))
    (job.path / "config.yaml").write_text(yaml.safe_dump(SOUND_CONFIG | config))


def test_a_run_is_done_when_it_has_a_result_of_the_same_configuration(tmp_path):
    one = job(tmp_path)
    assert not is_done(one, lambda words: SOUND_CONFIG | {"epochs": 3})
    finish(one, epochs=3, device="cpu")
    seen = []
    assert is_done(one, lambda words: seen.append(words) or SOUND_CONFIG | {"epochs": 3, "device": "cuda"})
    assert seen == [("loss=x", "seed=0")]
    assert not is_done(one, lambda words: SOUND_CONFIG | {"epochs": 4})
    (one.path / "result.json").write_text("null")
    assert not is_done(one, lambda words: SOUND_CONFIG | {"epochs": 3})  # damaged: the program computes it again


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    """A stand-in for train.py: seed 1 fails."""
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys\nprint(sys.argv[1:], os.environ.get('OMP_NUM_THREADS'))\n"
        "sys.exit('error: too hot' if 'seed=1' in sys.argv else 0)\n"
    )
    return [str(script)]


def test_a_failed_run_stops_nothing_and_names_its_log(tmp_path, program, capsys):
    jobs = [job(tmp_path / "runs", seed) for seed in range(3)]
    failed = run_jobs(jobs, program=program, n_parallel=1, one_thread=True)
    assert failed == [jobs[1]]
    text = capsys.readouterr().out
    assert f"FAILED, see {jobs[1].log}: error: too hot" in text
    assert text.count("done in") == 2
    log = jobs[2].log.read_text()
    assert "'loss=x', 'seed=2', " in log


START = """
import sys
from pathlib import Path
from contrastive.tables.jobs import run_jobs
from tests.test_table_jobs import job
print(run_jobs([job(Path("runs"), seed) for seed in range(3)], program=sys.argv[1:], n_parallel=2, one_thread=True))
"""


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
def test_runs_get_one_thread_tuned_memory_and_ctrl_c(tmp_path, stopped):
    """In a program of its own, where no server runs yet."""
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys, time\nprint(os.environ['OMP_NUM_THREADS'], os.environ['GLIBC_TUNABLES'][:5], flush=True)\n"
        f"time.sleep(60 * {stopped} * ('seed=1' in sys.argv))\nsys.exit(130 * {stopped})\n"
    )
    env = {key: value for key, value in os.environ.items() if key not in ("OMP_NUM_THREADS", "GLIBC_TUNABLES")}
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(script)], cwd=tmp_path, env={**env, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=restore_sigint,
    )  # fmt: skip
    log = tmp_path / "runs/seed=1.log"
    while not log.exists() or "glibc" not in log.read_text():
        assert process.poll() is None or not stopped, process.communicate()
        time.sleep(0.05)
    assert log.read_text().splitlines()[1] == "1 glibc"
    if stopped:
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)  # the pipes close when the last process has gone
    assert process.returncode == (-signal.SIGINT if stopped else 0), err
    assert out.count("interrupted") >= 1 if stopped else out.endswith("[]\n")
    assert ("KeyboardInterrupt" in err) == stopped


def test_a_run_that_an_earlier_process_holds_is_waited_for(tmp_path, program):
    one = job(tmp_path / "runs")
    one.path.mkdir(parents=True)
    with (one.path / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        thread = threading.Thread(
            target=run_jobs, args=([one],), kwargs={"program": program, "n_parallel": 1, "one_thread": False}
        )
        thread.start()
        time.sleep(0.2)
        assert not one.log.exists()
    thread.join()
    assert one.log.exists()


def test_what_is_missing_is_told_with_its_place(tmp_path):
    cifar = {"_target_": "contrastive.dataset.cifar.cifar10", "root": str(tmp_path)}
    assert str(missing_data(cifar)) == f"data missing: put cifar-10-python.tar.gz into {tmp_path}"
    (tmp_path / "cifar-10-python.tar.gz").touch()
    assert missing_data(cifar) is None
    folder = {"_target_": "contrastive.dataset.image_folder.image_folder", "root": None}
    assert "dataset.root=PATH" in str(missing_data(folder))
    assert str(tmp_path) in str(missing_data({**folder, "root": str(tmp_path)}))
    for split in ("train", "test"):
        (tmp_path / split).mkdir()
    assert missing_data({**folder, "root": str(tmp_path)}) is None
    assert missing_data({"_target_": "contrastive.dataset.digits.digits", "size": 8}) is None
    assert missing_data({"_target_": "my.own", "root": "nowhere"}) is None


def test_a_dataset_is_composed_once_for_all_jobs_that_share_it(tmp_path):
    asked = []

    def dataset(words: tuple[str, ...]) -> dict[str, Any]:
        asked.append(words)
        return {"_target_": "contrastive.dataset.mnist.mnist", "root": str(tmp_path)}

    jobs = [job(tmp_path, seed) for seed in range(3)]
    ((item, blocked),) = missing_of(jobs, dataset).items()
    assert "MNIST/raw" in item.what
    assert (blocked, asked) == (jobs, [()])


def test_hours_come_from_finished_runs_of_this_device_else_from_the_table(tmp_path):
    jobs = [job(tmp_path / name, seed, name=name, minutes=30) for name in "AB" for seed in range(2)]
    assert hours_left(jobs, "X") == 2
    finish(jobs[0], seconds=3600, device="Y")
    assert hours_left(jobs, "X") == 1.5
    finish(jobs[0], seconds=3600)
    assert hours_left(jobs, "X") == 3  # B's runs as long as A's
    finish(jobs[2], seconds=7200)
    assert hours_left(jobs, "X") == 3  # one hour of A, two of B
    assert hours_left([job(tmp_path / "C")], "X") is None


def test_the_list_shows_every_table(tmp_path):
    tables = [read_table(path) for path in sorted((ROOT / "configs/table").glob("*.yaml"))]
    text = tables_text(
        tables,
        tmp_path,
        device="X",
        on_cpu=True,
        n_parallel=2,
        dataset=lambda words: {"_target_": "x.mnist", "root": str(tmp_path)},
    )
    (simclr,) = (line for line in text.splitlines() if "| simclr_cifar10 " in line)
    assert "6.7 on a GPU" in simclr  # 180, 180 and 40 minutes, one after the other
    assert all(f"| {table.name} " in text for table in tables)
    assert "put MNIST/raw" in text
