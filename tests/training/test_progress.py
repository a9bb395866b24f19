"""What a run shows while it trains: lines without carriage returns in a file, a bar on a terminal, or nothing."""

import io
import itertools
import multiprocessing
import os
import pty
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from contrastive.distributed import pool
from contrastive.training import progress
from contrastive.training.progress import Progress
from tests.cli.program import call
from tests.helpers import ONE_THREAD, ROOT, TINY

termios = pytest.importorskip("termios")  # not on Windows

LINE = re.compile(
    r"epoch +\d+/\d+  loss \d+\.\d+  kNN \d+\.\d(?: \(epoch \d+\))?  [\d,]+ views/s  (?:\d.* left|trained in \d.*)"
)


def train(
    epochs: int, per_epoch: int, *, knn: tuple[int, ...] = (), first: float | None = None, name="a run", **options
):
    """Show a training with kNN before it and after some epochs."""
    shown = Progress(name=name, **{"quiet": False, **options})
    place = SimpleNamespace(epochs=epochs, loader=range(per_epoch), epoch=0, epochs_done=0, steps_done=0)
    place.metrics = {} if first is None else {"test/knn_top1": first}
    shown.on_start(place)
    for step in range(epochs * per_epoch):
        place.epoch, place.epochs_done, place.steps_done = step // per_epoch, (step + 1) / per_epoch, step + 1
        place.metrics = {"train/loss": 5.4321, "time/views_per_s": 1290.4, "pairs/alignment": 1.0}
        shown.on_step(place, None)
        if (step + 1) % per_epoch == 0:
            place.metrics = {"test/knn_top1": 47.14} if place.epoch + 1 in knn else {}
            shown.on_epoch(place)


def test_lines_say_epoch_loss_knn_speed_and_time_left(capsys, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    train(50, 2, knn=range(1, 51))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert re.fullmatch(r"epoch  5/50  loss 5\.43  kNN 47\.1  1,290 views/s  \d+ (h|min) \d\d (min|s) left", lines[0])
    assert "trained in" in lines[-1]


def test_a_slow_epoch_gets_lines_of_its_own(capsys, monkeypatch):
    clock = itertools.count(step=20)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    train(2, 4)
    assert re.search(r"^epoch 0.75/2  loss 5.43  1,290 views/s  \d min \d\d s left$", capsys.readouterr().out, re.M)


def test_a_figure_says_of_which_encoder_it_is(capsys):
    train(3, 2, first=31.2, knn=(2,), before="as loaded")
    words = [line.split("  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert words == ["kNN 31.2 (as loaded)", "kNN 47.1", "kNN 47.1 (epoch 2)"]


def test_what_takes_long_is_named_and_named_again(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.02)
    monkeypatch.setattr(progress, "LONGEST_SILENCE", 0.02)
    with progress.announced("evaluating: knn"):
        time.sleep(0.3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "evaluating: knn"
    assert re.fullmatch(r"evaluating: knn, 0\.\d s so far", lines[1])
    with progress.announced("evaluating: rankme"):
        pass
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_a_log_file_has_a_line_an_epoch_and_the_final_table_alone_if_quiet(tmp_path):
    out = io.StringIO()
    assert call([*TINY, "hydra.run.dir=run"], tmp_path, out) == (0, "")
    assert "\r" not in out.getvalue()
    lines = [line for line in out.getvalue().splitlines() if line.startswith("epoch")]
    assert len(lines) == 3
    assert all(LINE.fullmatch(line) for line in lines), lines
    out = io.StringIO()
    assert call([*TINY, "epochs=1", "quiet=true", "hydra.run.dir=quiet"], tmp_path, out) == (0, "")
    assert out.getvalue().startswith("\nTest split, last epoch")
    assert "try temperature=0.5" in call(["quiet=true", "temperature=0"], tmp_path)[1]


@pytest.mark.slow
def test_a_terminal_shows_a_bar_that_counts_batches(tmp_path):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 120))
    command = [sys.executable, str(ROOT / "train.py"), *TINY, "epochs=4", "log_every=1"]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, cwd=tmp_path, env=ONE_THREAD)
    os.close(theirs)
    said = b""
    while True:
        try:
            said += os.read(ours, 4096)
        except OSError:  # the terminal is closed
            break
    assert process.wait() == 0, said
    text = said.decode()
    assert "pretraining" in text
    assert re.search(r"\d+/20 \[", text), "4 epochs of 5 batches"
    assert re.search(r"epoch \d  loss [\d.]+  kNN [\d.]+  [\d,]+ views/s", text)
    assert not re.search(r"^epoch ", text, re.MULTILINE), "lines are for files"


def test_parallel_lines_begin_with_the_name_of_the_run(capsys, monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "name", pool.NAME)
    train(2, 2, name="loss=nt_xent")
    assert all(line.startswith("loss=nt_xent: epoch ") for line in capsys.readouterr().out.splitlines())
