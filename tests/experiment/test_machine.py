"""What a run asks of the machine: its GPU, the algorithms, compiler and threads, and how long it takes."""

import json
import re

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment import build as building
from contrastive.experiment import dry_run, machine
from contrastive.experiment.build import build
from contrastive.experiment.dry_run import estimate
from contrastive.experiment.machine import busy_warning, choose_compile, is_resident, set_threads
from contrastive.experiment.run import run_experiment
from contrastive.run.files import read_result
from contrastive.text import clock
from tests.helpers import TINY, run_until_step

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")


@pytest.mark.parametrize(
    ("what", "found", "advice"),
    [
        ("shutil.which", None, "a C compiler: try apt-get install gcc"),
        ("sysconfig.get_path", "/nowhere", "apt-get install python3-dev"),
    ],
)
def test_auto_compiles_on_a_gpu_that_has_a_compiler(monkeypatch, tmp_path, capsys, what, found, advice):
    for name in ("contrastive.experiment.machine.find_spec", "shutil.which"):
        monkeypatch.setattr(name, lambda name: name)
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    (tmp_path / "Python.h").touch()
    assert [choose_compile("auto", device) for device in (CPU, GPU)] == [False, "augmentation"]
    monkeypatch.setattr(what, lambda *_: found)
    assert choose_compile("auto", GPU) is False
    said = capsys.readouterr().out
    assert said.startswith("warning: ") and advice in said and said.count("\n") == 1
    with pytest.raises(ConfigError, match=f"{advice}.*, or compile=false"):
        choose_compile(True, GPU)


@pytest.mark.parametrize(("setting", "epochs", "pieces"), [("auto", 3, 1), ("auto", 10**7, 3), ("false", 10**7, 0)])
def test_the_pieces_that_are_compiled(composed, monkeypatch, setting, epochs, pieces):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: compiled.append(function) or function)
    monkeypatch.setattr(building, "choose_compile", lambda setting, device: setting == "auto" and "augmentation")
    build(composed(*TINY, f"compile={setting}", f"epochs={epochs}"))
    assert len(compiled) == pieces


@pytest.mark.skipif(not torch.backends.mps.is_available(), reason="a GPU of Apple")
def test_a_run_on_apples_gpu_goes_on_where_it_was_interrupted(composed, tmp_path):
    words = [*TINY, "device=mps", "augmentation=rotation_jitter", "loss=cross_entropy", "evaluator=[knn,classifier]"]
    run_until_step(9, composed(*words, "checkpoint_every=1"), tmp_path / "run")
    for name in ("run", "whole"):
        run_experiment(composed(*words, "checkpoint_every=1"), tmp_path / name)
    resumed, whole = (read_result(tmp_path / name)["test"] for name in ("run", "whole"))
    assert resumed == pytest.approx(whole, abs=1.0)


@pytest.fixture
def two_threads(monkeypatch):
    """torch's own number is 2."""
    monkeypatch.setattr(machine, "own_threads", lambda: 2)
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("busy", "cores", "threads", "warns"),
    [(0.2, 2, 2, False), (1.0, 2, 2, True), (2.0, 2, 1, False), (3.0, 8, 2, False), (7.0, 8, 8, True)],
)
def test_busy_machine_warns(monkeypatch, two_threads, busy, cores, threads, warns):
    monkeypatch.setattr(machine, "n_cores", lambda: cores)
    monkeypatch.setattr(machine, "n_busy", lambda: busy)
    torch.set_num_threads(threads)
    assert ("try threads=1 (or OMP_NUM_THREADS=1)" in busy_warning()) == warns


def test_resume_keeps_the_number_of_threads(composed, two_threads, tmp_path):
    words = ("dataset.size=8", "encoder.width=2", "batch_size=256", "epochs=1", "evaluator=[]", "threads=1")
    run_experiment(composed(*words), tmp_path)
    assert json.loads((tmp_path / "environment.json").read_text())["threads"] == 1
    assert set_threads("auto", tmp_path, rerun=False) == "2 threads"  # a finished run is not resumed
    assert torch.get_num_threads() == 2
    (tmp_path / "result.json").write_text("null")  # damaged: it is computed again
    assert set_threads("auto", tmp_path, rerun=False) == "1 thread"
    assert torch.get_num_threads() == 1
    assert set_threads(3, tmp_path, rerun=False).startswith("3 threads (it last ran with 1: metrics may differ")
    assert set_threads("auto", tmp_path, rerun=True) == "2 threads"
    assert set_threads(1, tmp_path / "new", rerun=False) == "1 thread"


def test_images_stay_on_the_device_when_they_fit(composed, monkeypatch):
    data = build(composed(*TINY)).data
    assert is_resident(data, torch.device("cpu"), "auto")
    monkeypatch.setattr("contrastive.experiment.machine.free_memory", lambda device: 2 * data.nbytes - 1)
    assert not is_resident(data, torch.device("cpu"), "auto")
    assert is_resident(data, torch.device("cpu"), True)


def test_the_estimate_of_a_dry_run_by_hand(composed, monkeypatch):
    """Ten epochs of 22 steps; kNN after each third epoch, and as linear before and after training."""
    monkeypatch.setattr(dry_run, "first_steps", lambda experiment, n: (0.5, []))
    monkeypatch.setattr(dry_run, "evaluation_seconds", lambda experiment: (4.0, {"knn": 2.0, "linear": 6.0}))
    words = [word for word in TINY if "few_shot" not in word]
    words += ["epochs=10", "batch_size=64", "evaluator=[knn,linear]", "evaluator.knn.every=3"]
    text = estimate(build(composed(*words))).text
    assert "10 epochs of 22 steps" in text
    assert "3 of knn, 2.0 s each, features 4.0 s\n" in text
    assert "before and after: features 4.0 s, knn 2.0 s, linear 6.0 s\n" in text
    assert re.search(r"peak memory +\d+\.\d\d GiB", text)
    rows = re.findall(r"^  (\w+(?: \w+)?) +(.+?) +(\d+) %", text, re.MULTILINE)
    training, curve, evaluation = 10 * 22 * 0.5, 3 * (4 + 2), 2 * (4 + 2 + 6)
    total = training + curve + evaluation
    parts = {"training": training, "curve points": curve, "evaluation": evaluation, "together": total}
    assert rows == [(name, clock(part), f"{100 * part / total:.0f}") for name, part in parts.items()]
    assert [clock(s) for s in (4.06, 187, 7510)] == ["4.1 s", "3 min 07 s", "2 h 05 min"]
