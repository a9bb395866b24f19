"""python -m contrastive.verify: it agrees with an honest run and finds what was changed."""

import json
import shutil

import pytest
from hydra import compose, initialize_config_dir
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from contrastive.cli.verify import main
from contrastive.config.settings import Settings
from contrastive.experiment.run import run_experiment
from contrastive.run.files import read_result, write_result
from contrastive.run.weights import checksum
from tests.helpers import ROOT, TINY

WORDS = [
    *(word for word in TINY if "few_shot" not in word), "epochs=1", "loss=supcon", "regularizer=cross_entropy",
    "evaluator=[knn,linear,classifier,online_probe]",
]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run with a classifier and an observer."""
    folder = tmp_path_factory.mktemp("verify") / "run"
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        run_experiment(Settings.from_config(compose("train", WORDS)), folder)
    return folder


def rewrite(run, change):
    """Write the result as somebody who knows of its checksum would."""
    result = read_result(run)
    change(result)
    write_result(run, result)


def change_result(run):
    rewrite(run, lambda result: result["test"].update(knn_top1=result["test"]["knn_top1"] + 1))


def invent_a_figure(run):
    rewrite(run, lambda result: result["test"].update(best_top1=99.0))


def leave_out_a_figure(run):
    rewrite(run, lambda result: result["test"].pop("linear_top1"))


def change_the_protocol(run):
    rewrite(run, lambda result: result["protocol"].update(knn="cosine, best of five"))


def cut_the_log(run):
    (run / "metrics.jsonl").write_text("")


def change_encoder(run):
    with safe_open(run / "encoder.safetensors", "pt") as file:
        metadata = file.metadata()
    weights = load_file(run / "encoder.safetensors")
    weights["conv1.weight"] += 0.01
    save_file(weights, run / "encoder.safetensors", metadata={**metadata, "sha256": checksum(weights, metadata)})


def change_code(run):
    environment = json.loads((run / "environment.json").read_text())
    (run / "environment.json").write_text(json.dumps({**environment, "code": "0" * 64}))


def change_config(run):
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("temperature: 0.5", "temperature: 0.4"))


def change_config_and_lose_the_checkpoints(run):
    change_config(run)
    shutil.rmtree(run / "checkpoints")


def change_head(run):
    with safe_open(run / "head.safetensors", "pt") as file:
        metadata = file.metadata()
    weights = {key: value + 0.01 for key, value in load_file(run / "head.safetensors").items()}
    save_file(weights, run / "head.safetensors", metadata={**metadata, "sha256": checksum(weights, metadata)})


def test_an_honest_run_is_verified(finished, capsys):
    assert main([str(finished)]) == 0
    said = capsys.readouterr().out
    assert " 0 failed" in said
    assert {"test.knn_top1", "test.classifier_top1", "test.online_probe_top1"} <= set(said.split())


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (change_result, "test.knn_top1"),
        (invent_a_figure, "test.best_top1"),
        (leave_out_a_figure, "test.linear_top1"),
        (change_the_protocol, "protocol"),
        (cut_the_log, "metrics.jsonl"),
        (change_encoder, "encoder.safetensors"),
        (change_config, "checkpoint"),
        (change_config_and_lose_the_checkpoints, "config"),
        (change_head, "head.safetensors"),
    ],
)
def test_a_change_is_found(finished, tmp_path, capsys, change, line):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    change(run)
    assert main([str(run)]) == 1
    failed = [said for said in capsys.readouterr().out.splitlines() if "FAILED" in said]
    assert any(said.startswith(line) for said in failed)


def test_what_is_no_finished_run_is_one_sentence(finished, tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "error: " in capsys.readouterr().err
    assert main([]) == 2
    assert main(["--table", str(tmp_path)]) == 2
    assert "holds no table's JSON: usage: " in capsys.readouterr().err
    assert main(["--help"]) == 0


def test_other_code_is_said_and_no_failure(finished, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    change_code(run)
    assert main([str(run)]) == 0
    (line,) = [said for said in capsys.readouterr().out.splitlines() if said.startswith("code ")]
    assert "-       " in line and "000000000000 then" in line


def test_epochs_0_is_verified(tmp_path, capsys):
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        run_experiment(Settings.from_config(compose("train", [*WORDS[:-4], *WORDS[-3:], "epochs=0"])), tmp_path / "run")
    assert main([str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "untrained." not in said
    assert " 0 failed" in said


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.yaml", b"\xff", "config.yaml is missing or damaged"),
        ("config.yaml", b"", "config.yaml is missing or damaged"),
        ("environment.json", b"[]", "environment.json is missing or damaged"),
        ("environment.json", b"{}", "environment.json is missing or damaged"),
        ("environment.json", b'{"command":"","code":"","data":"","threads":null}', "environment.json is missing"),
        ("result.json", b'{"test": {}}', "has no whole result.json"),
        ("result.json", (b'"knn_top1": ', b'"knn_top1": 1'), "has no whole result.json"),
    ],
)
def test_a_damaged_file_is_one_sentence(finished, tmp_path, capsys, name, content, said):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    if isinstance(content, tuple):
        content = (run / name).read_bytes().replace(*content)
    (run / name).write_bytes(content)
    assert main([str(run)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert said in line


def test_an_option_that_cannot_be_is_one_sentence(finished, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    text = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(text.replace("  k: 20", "  k: 0"))
    assert main([str(run), "device=cpu"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "k must be" in line
    (run / "config.yaml").write_text(text.replace("contrastive.loss.supcon.SupCon", "os.path.Odd"))
    assert main([str(run)]) == 2
    assert "loss._target_=os.path.Odd is no component" in capsys.readouterr().err
    (run / "config.yaml").write_text(text + "trust: []\n")  # as older runs have it
    assert main([str(run), "device=cpu", "data_root=@x"]) == 0
