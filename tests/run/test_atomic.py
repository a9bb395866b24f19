"""Atomic writes and locks."""

import multiprocessing
import os
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from contrastive.errors import ConfigError
from contrastive.files import atomic, locked, write_text
from contrastive.run.files import is_locked, lock


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    write_text(path, "old")

    def write_half() -> None:
        with atomic(path) as part:
            part.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_where_a_file_is_prepared_leads_nowhere(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / f".file.{os.getpid()}.part").symlink_to(tmp_path / "precious")
    write_text(tmp_path / "file", "new")
    assert [(tmp_path / name).read_text() for name in ("precious", "file")] == ["mine", "new"]
    assert sorted(os.listdir(tmp_path)) == ["file", "precious"]


def test_what_takes_the_name_is_on_the_disk_before(tmp_path, monkeypatch):
    """A power failure after the renaming must not leave an empty file."""
    durable = []

    def fsync(descriptor: int) -> None:
        assert not (tmp_path / "file").exists()
        durable.append(os.pread(descriptor, 9, 0))

    monkeypatch.setattr(os, "fsync", fsync)
    write_text(tmp_path / "file", "whole")
    assert durable == [b"whole"]


def _append_under_lock(folder: Path) -> None:
    with locked(folder / "lock"):
        before = (folder / "log").read_text()
        time.sleep(0.05)
        (folder / "log").write_text(before + "x")


def test_a_lock_admits_one_process_at_a_time(tmp_path):
    (tmp_path / "log").write_text("")
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_append_under_lock, args=(tmp_path,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert (tmp_path / "log").read_text() == "xxxx"


def _hold(folder: Path, held: Event) -> None:
    with lock(folder):
        held.set()
        time.sleep(600)


def test_a_lock_of_a_killed_process_is_free(tmp_path):
    context = multiprocessing.get_context("fork")
    held = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, held), daemon=True)
    holder.start()
    assert held.wait(60)
    assert is_locked(tmp_path)
    with pytest.raises(ConfigError, match=rf"another process \(pid {holder.pid} on .*\) is running"), lock(tmp_path):
        pass
    holder.kill()
    holder.join()
    assert not is_locked(tmp_path)
    with lock(tmp_path):
        assert is_locked(tmp_path)


def test_a_link_in_place_of_a_lock_is_refused(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".lock").symlink_to(tmp_path / "precious")
    for held in (locked(tmp_path / ".lock"), lock(tmp_path)):  # of a file, of a stranger's run
        with pytest.raises(OSError, match=r"\.lock"), held:
            pass
    assert (tmp_path / "precious").read_text() == "mine"
