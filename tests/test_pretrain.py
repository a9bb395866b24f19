"""Runs from Python: the same run as train.py's, mistakes in one sentence, no trace in Hydra's global state."""

import json
import subprocess
import sys

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra

import contrastive
from contrastive import ConfigError, Result, pretrain
from contrastive.training.precision import Normalize
from tests.helpers import ONE_THREAD, ROOT, TINY, logged_lines, program, saved_weights, without_time

WORDS = [*TINY, "epochs=2", "loss=debiased_pos", "tau_plus=0.2"]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A run from Python, in a working directory of its own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("work")
        patch.chdir(folder)
        done = pretrain(*WORDS)
        return Result(folder / done.path)


def test_the_result_tells_path_figures_and_curves(result):
    assert str(result.path).endswith(
        "outputs/digits/debiased_pos/dataset.size=8,encoder.width=2,"
        + result.path.parts[-2].split(",", 2)[2]
        + "/seed=0"
    )
    assert result.test == json.loads((result.path / "result.json").read_text())["test"]
    assert set(result.untrained) == set(result.test)
    epochs, values = result.curve("test/knn_top1")
    assert epochs == [0, 1, 2]
    assert (values[0], values[-1]) == (result.untrained["knn_top1"], result.test["knn_top1"])
    assert len(result.curves) == len(logged_lines(result.path))
    with pytest.raises(ConfigError, match="there is no curve test/nn"):
        result.curve("test/nn")
    assert "knn_top1" in repr(result)


def test_the_encoder_is_the_trained_one(result):
    encoder = result.encoder()
    assert not encoder.training
    expected = saved_weights(result.path)
    assert all(torch.equal(value, expected[key]) for key, value in encoder.state_dict().items())
    data = contrastive.make("dataset/digits", size=8)
    with torch.no_grad():
        assert encoder(Normalize(data.mean, data.std)(data.test.image[:5])).shape == (5, 16)


def test_hydra_is_left_as_it_was(result):
    assert not GlobalHydra.instance().is_initialized()
    assert pretrain(*WORDS, f"hydra.run.dir='{result.path}'").test == result.test


def test_the_command_to_get_the_same_run_is_recorded(result):
    environment = json.loads((result.path / "environment.json").read_text())
    assert environment["overrides"] == WORDS
    assert environment["command"] == " ".join(["train.py", *WORDS])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["epocs=3"], "there is no setting epocs"),
        (["temperature=0"], "try temperature=0.5"),
        (["loss=nt_xent,npair"], "loss=nt_xent,npair"),
        (["-m", "seed=0,1"], "-m is for the command line"),
        (["loss=unknown"], "debiased_pos"),
    ],
)
def test_a_mistake_is_one_sentence(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        pretrain(*words)
    assert not GlobalHydra.instance().is_initialized()


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="holds no finished run"):
        Result(tmp_path)


@pytest.mark.slow
def test_python_and_the_command_line_make_the_same_run(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    done = program(*WORDS, cwd=tmp_path / "a")
    assert done.returncode == 0, done.stderr
    code = f"import contrastive; print(contrastive.pretrain(*{WORDS!r}).path)"
    environment = {**ONE_THREAD, "PYTHONPATH": str(ROOT)}
    called = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "b", env=environment, capture_output=True, text=True
    )
    assert called.returncode == 0, called.stderr
    path = called.stdout.splitlines()[-1]
    one, two = (json.loads((tmp_path / side / path / "result.json").read_text()) for side in "ab")
    assert without_time(one) == without_time(two)
    assert logged_lines(tmp_path / "a" / path) == logged_lines(tmp_path / "b" / path)
