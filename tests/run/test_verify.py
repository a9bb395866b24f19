"""python -m contrastive verify: it agrees with an honest run and finds what was changed."""

import json
import shutil

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from contrastive.cli.verify import main
from contrastive.experiment.run import run_experiment
from contrastive.run.content import checksum
from contrastive.run.files import read_result, write_result
from tests.helpers import TINY, compose_settings, further

WORDS = [
    *(word for word in TINY if "few_shot" not in word), "epochs=1", "loss=supcon", "regularizer=cross_entropy",
    "evaluator=[knn,linear,classifier,online_probe]",
]  # fmt: skip


def run_at(path, *overrides):
    run_experiment(compose_settings(*overrides), path)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run with a classifier and an observer."""
    return run_at(tmp_path_factory.mktemp("verify") / "run", *WORDS)


@pytest.fixture
def run(finished, tmp_path):
    """A copy of the finished run, to be changed."""
    return shutil.copytree(finished, tmp_path / "run")


def result(change):
    """Write the result as somebody who knows of its checksum would."""

    def rewrite(run):
        content = read_result(run)
        change(content)
        write_result(run, content)

    return rewrite


def weights(name):
    """Move the weights of a file, and its checksum with them."""

    def rewrite(run):
        with safe_open(run / name, "pt") as file:
            metadata = file.metadata()
        tensors = load_file(run / name)
        for value in filter(torch.is_floating_point, tensors.values()):
            value += 0.01
        save_file(tensors, run / name, metadata={**metadata, "sha256": checksum(tensors, metadata)})

    return rewrite


def text(name, old, new):
    def rewrite(run):
        content = (run / name).read_bytes()
        assert old in content
        (run / name).write_bytes(content.replace(old, new))

    return rewrite


change_config = text("config.yaml", b"temperature: 0.5", b"temperature: 0.4")


def change_config_and_lose_the_checkpoints(run):
    change_config(run)
    shutil.rmtree(run / "checkpoints")


def test_an_honest_run_is_verified(finished, capsys):
    assert main([str(finished)]) == 0
    said = capsys.readouterr().out
    assert " 0 failed" in said
    assert {"test.knn_top1", "test.classifier_top1", "test.online_probe_top1"} <= set(said.split())


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (result(lambda said: said["test"].update(knn_top1=said["test"]["knn_top1"] + 1)), "test.knn_top1"),
        (weights("encoder.safetensors"), "encoder.safetensors"),
        (change_config, "checkpoint"),
        *further(
            (result(lambda said: said["test"].update(best_top1=99.0)), "test.best_top1"),
            (result(lambda said: said["test"].pop("linear_top1")), "test.linear_top1"),
            (result(lambda said: said["protocol"].update(knn="cosine, best of five")), "protocol"),
            (lambda run: (run / "metrics.jsonl").write_text(""), "metrics.jsonl"),
            (weights("head.safetensors"), "head.safetensors"),
            (change_config_and_lose_the_checkpoints, "config"),
        ),
    ],
)
def test_a_change_is_found(run, capsys, change, line):
    change(run)
    assert main([str(run)]) == 1
    failed = [said for said in capsys.readouterr().out.splitlines() if "FAILED" in said]
    assert any(said.startswith(line) for said in failed)


def test_what_is_no_finished_run_is_one_sentence(finished, tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "error: " in capsys.readouterr().err
    assert main([]) == 2
    assert main(["--table", str(tmp_path)]) == 2
    assert "contains no JSON of a table: try " in capsys.readouterr().err
    assert main(["--help"]) == 0


def test_other_code_is_said_and_no_failure(run, capsys):
    environment = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps({**environment, "code": "0" * 64}))
    assert main([str(run)]) == 0
    (line,) = [said for said in capsys.readouterr().out.splitlines() if said.startswith("code ")]
    assert "-       " in line and "000000000000 then" in line


@pytest.mark.slow
def test_epochs_0_is_verified(tmp_path, capsys):
    assert main([str(run_at(tmp_path / "run", *WORDS[:-4], *WORDS[-3:], "epochs=0"))]) == 0
    said = capsys.readouterr().out
    assert "untrained." not in said
    assert " 0 failed" in said


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.yaml", b"\xff", "config.yaml is missing or damaged"),
        ("environment.json", b"{}", "environment.json is missing or damaged"),
        ("environment.json", b'{"command":"","code":"","data":"","threads":null}', "environment.json is missing"),
        ("result.json", b'{"test": {}}', "is not finished: try its command again"),
        ("result.json", (b'"knn_top1": ', b'"knn_top1": 1'), "is not finished: try its command again"),
    ],
)
def test_a_damaged_file_is_one_sentence(run, capsys, name, content, said):
    if isinstance(content, tuple):
        content = (run / name).read_bytes().replace(*content)
    (run / name).write_bytes(content)
    assert main([str(run)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"  k: 20", b"  k: 0", "k must be"),
        (b"contrastive.loss.supcon.SupCon", b"os.path.Odd", "loss._target_=os.path.Odd is neither a component"),
    ],
)
def test_an_option_that_cannot_be_is_one_sentence(run, capsys, old, new, said):
    text("config.yaml", old, new)(run)
    assert main([str(run), "device=cpu"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
