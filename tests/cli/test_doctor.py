"""make doctor: a line for each check, a sentence for each fault, and the exit code says whether there was one."""

from collections import namedtuple

import psutil
import pytest

from contrastive.cli import doctor
from contrastive.cli.doctor import Finding
from contrastive.distributed.hardware import n_busy, n_cores
from tests.helpers import ANYWHERE, python


def test_a_fault_is_a_sentence_and_exit_code_1(capsys):
    assert doctor.examine({"disk": lambda: Finding("9 GiB free")}) == 0
    assert "ready" in capsys.readouterr().out

    def breaks() -> Finding:
        raise OSError("no such\ndevice")

    assert doctor.examine({"disk": lambda: Finding("1 MiB free", "too little: try PATH"), "device": breaks}) == 1
    said = capsys.readouterr().out
    assert "too little: try PATH" in said
    assert "OSError: no such device: try make setup" in said
    assert "2 of 2 checks found a fault" in said


def test_a_full_disk_and_a_missing_package_are_faults(monkeypatch, capsys):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(2**40, 2**40, 2**20))
    assert "2 GiB" in doctor.disk().fault
    assert doctor.environment().fault is None
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package-at-all",))
    assert doctor.examine({"environment": doctor.environment}) == 1
    assert "no-such-package-at-all: try make setup" in capsys.readouterr().out


def test_a_busy_machine_is_a_warning_and_no_fault(monkeypatch, capsys):
    monkeypatch.setattr("contrastive.experiment.machine.busy_warning", lambda: "try threads=1")
    assert doctor.examine({"load": doctor.load}) == 0
    assert "warn   load" in (said := capsys.readouterr().out) and "try threads=1" in said


def test_busy_cores_are_those_of_this_moment_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_percent", lambda seconds, percpu: [100.0, 20.0, 50.0, 70.0])
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: [1, 3], raising=False)
    assert (n_cores(), n_busy()) == (2, pytest.approx(0.9))


@pytest.mark.slow
def test_the_page_of_this_machine(tmp_path):
    done = python("-m", "contrastive", "doctor", cwd=tmp_path, env={**ANYWHERE, "DATA_ROOT": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    for name in (*doctor.CHECKS, "10 steps of 128 digits", "ready"):
        assert name in done.stdout
    assert not list(tmp_path.iterdir())
