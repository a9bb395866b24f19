"""Runs from Python: the same run as train.py's, mistakes in one sentence, no trace in Hydra's global state."""

import json
import shutil
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser

from contrastive import ConfigError, NTXent, Result, load_encoder, load_head, pretrain
from contrastive.config.words import typed
from tests.helpers import TINY, logged_lines, program, without_time, write_files

WORDS = [*TINY, "epochs=2", "loss=debiased_pos", "tau_plus=0.2"]


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A run from Python, in a working directory of its own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("work")
        patch.chdir(folder)
        return Result(folder / pretrain(*WORDS).path)


def test_the_result_tells_path_figures_and_curves(result):
    assert "outputs/digits,size=8/debiased_pos/encoder.width=2," in str(result.path)
    assert result.test == json.loads((result.path / "result.json").read_text())["test"]
    assert set(result.untrained) == set(result.test)
    epochs, values = result.curve("test/knn_top1")
    assert epochs == [0, 1, 2]
    assert (values[0], values[-1]) == (result.untrained["knn_top1"], result.test["knn_top1"])
    assert len(result.curves) == len(logged_lines(result.path))
    with pytest.raises(ConfigError, match=r"there is no curve test/nn: try one of .*test/knn_top1"):
        result.curve("test/nn")
    assert "knn_top1" in repr(result)
    environment = json.loads((result.path / "environment.json").read_text())
    assert environment["overrides"] == WORDS
    assert environment["command"] == " ".join(["train.py", *WORDS])


def test_keywords_are_the_words(result):
    assert not GlobalHydra.instance().is_initialized()
    words, settings = WORDS[:3], dict(word.split("=") for word in WORDS[3:])
    again = pretrain(*words, **settings, **{"hydra.run.dir": result.path, "regularizer": "none"})
    assert again.test == result.test


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (None, "null"), (True, "true"), (1e-3, "0.001"), ("debiased_pos", "debiased_pos"), (["knn"], "[knn]"),
        ({"every": 1, "k": None}, "{every:1,k:null}"), ("_([0-9]+)[.]png$", "'_([0-9]+)[.]png$'"), ("it's", r"'it\'s'"),
        (Path("my images/a,b"), "'my images/a,b'"), ("2024_01_15", "'2024_01_15'"),
    ],
)  # fmt: skip
def test_a_keyword_reaches_hydra_as_it_is(value, word):
    assert typed(value) == word
    assert str(OverridesParser.create().parse_override(f"key={word}").value()) == str(value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["epocs=3"], "there is no setting epocs"),
        (["loss=nt_xent,npair"], "loss=nt_xent,npair"),
        (["-m", "seed=0,1"], "-m is not KEY=VALUE"),
    ],
)
def test_a_mistake_is_one_sentence(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        pretrain(*words)
    assert not GlobalHydra.instance().is_initialized()


def test_components_of_ones_own_are_found_by_name(tmp_path, monkeypatch):
    write_files(tmp_path, {"mine/loss/own.yaml": "_target_: own.Own\ntemperature: ${temperature}\n"})
    (tmp_path / "mine/own.py").write_text("from contrastive import NTXent\n\n\nclass Own(NTXent):\n    pass\n")
    monkeypatch.chdir(tmp_path)
    done = pretrain(*TINY, loss="own", config_dir="mine")
    assert str(done.path).startswith("outputs/digits,size=8/own/") and done.encoder()[0].dim
    with pytest.raises(ConfigError, match=r"there is no loss=owns: did you mean loss=own\?"):
        pretrain(*TINY, loss="owns", config_dir="mine")
    for unnamed in (NTXent(), NTXent, lambda z: z.sum()):
        with pytest.raises(ConfigError, match=r'is chosen by name, .*try loss="my_loss", config_dir="mine"'):
            pretrain(*TINY, loss=unnamed)


def test_a_folder_above_one_run_is_that_run(result, tmp_path):
    above = result.path.parents[1]
    assert Result(above).path == result.path
    assert load_encoder(above)[1].size == (8, 8)
    for name in ("a", "b"):
        shutil.copytree(result.path, tmp_path / name)
    for use in (Result, load_encoder, load_head):
        with pytest.raises(ConfigError, match=f"holds 2 runs: try one of {tmp_path}/a, {tmp_path}/b"):
            use(tmp_path)
        with pytest.raises(ConfigError, match=r"no finished run in .*: try"):
            use(tmp_path / "a" / "checkpoints")


@pytest.mark.slow
def test_python_and_the_command_line_make_the_same_run(result, tmp_path):
    done = program(*WORDS, "hydra.run.dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    one, two = (json.loads((path / "result.json").read_text()) for path in (tmp_path / "run", result.path))
    assert without_time(one) == without_time(two)
    assert logged_lines(tmp_path / "run") == logged_lines(result.path)


def test_it_runs_inside_of_a_hydra_program_of_ones_own_and_takes_a_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/mine.yaml").write_text("lr: 3\n")
    with initialize_config_dir(str(tmp_path / "conf"), version_base="1.3"):
        found = pretrain(*TINY, "epochs=0", **{"hydra.run.dir": "~/größe"})
        assert compose("mine").lr == 3
    assert found.path == tmp_path / "größe"
