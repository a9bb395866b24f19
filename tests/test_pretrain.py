"""Runs from Python: the same run as train.py's, mistakes in one sentence, no trace in Hydra's global state."""

import json

import pytest
import torch
from hydra.core.global_hydra import GlobalHydra

from contrastive import ConfigError, Result, pretrain
from tests.helpers import TINY, logged_lines, program, saved_weights, without_time

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
    assert "outputs/digits/debiased_pos/dataset.size=8,encoder.width=2," in str(result.path)
    assert result.test == json.loads((result.path / "result.json").read_text())["test"]
    assert set(result.untrained) == set(result.test)
    epochs, values = result.curve("test/knn_top1")
    assert epochs == [0, 1, 2]
    assert (values[0], values[-1]) == (result.untrained["knn_top1"], result.test["knn_top1"])
    assert len(result.curves) == len(logged_lines(result.path))
    with pytest.raises(ConfigError, match="there is no curve test/nn"):
        result.curve("test/nn")
    assert "knn_top1" in repr(result)
    environment = json.loads((result.path / "environment.json").read_text())
    assert environment["overrides"] == WORDS
    assert environment["command"] == " ".join(["train.py", *WORDS])


def test_the_encoder_is_the_trained_one(result):
    encoder, expected = result.encoder(), saved_weights(result.path)
    assert not encoder.training
    assert all(torch.equal(value, expected[key]) for key, value in encoder.state_dict().items())


def test_hydra_is_left_as_it_was(result):
    assert not GlobalHydra.instance().is_initialized()
    assert pretrain(*WORDS, f"hydra.run.dir='{result.path}'").test == result.test


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["epocs=3"], "there is no setting epocs"),
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
def test_python_and_the_command_line_make_the_same_run(result, tmp_path):
    done = program(*WORDS, "hydra.run.dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    one, two = (json.loads((path / "result.json").read_text()) for path in (tmp_path / "run", result.path))
    assert without_time(one) == without_time(two)
    assert logged_lines(tmp_path / "run") == logged_lines(result.path)
