"""Finished runs are evaluated again, on their own data and on other data, as a user does it."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from figures import tsne_map

import contrastive
from contrastive import load_encoder
from contrastive.cli.evaluate import evaluate_runs, main, parse_args
from contrastive.errors import ConfigError
from contrastive.experiment.run import run_experiment
from contrastive.export.formats import export_onnx
from contrastive.run.files import ENCODER, read_evaluations, read_result, write_result
from contrastive.types import Data
from tests.dataset.test_channels import write_classes
from tests.helpers import CONTIGUOUS, TINY, compose_settings, write_files, write_image_folder

pytestmark = pytest.mark.slow
WORDS = [*TINY, "epochs=1", "evaluator=[knn,linear,few_shot]", "evaluator.knn.k=7"]
WORDS += ["precision=bf16"]  # which is for training and points of the curve: figures are of float32


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "digits"
    run_experiment(compose_settings(*WORDS), path)
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def evaluated(*words: object, folders: Sequence[Path] = ()) -> str:
    """The table that `contrastive evaluate` prints of these words."""
    return evaluate_runs(parse_args([str(word) for word in words], folders=folders))


def edited(run: Path, **changes: Any) -> dict[str, Any]:
    """The configuration of a run with these changes, which its config.yaml has from now on."""
    config = yaml.safe_load((run / "config.yaml").read_text()) | changes
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    return config


def records(run: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((run / "evaluation").glob("*.json"))]


@pytest.mark.smoke
def test_the_same_evaluators_give_the_figures_of_the_run(run, capsys):
    before = (run / "result.json").read_bytes()
    evaluated(run, "evaluator=[knn,linear,few_shot]")
    (record,) = records(run)
    result = json.loads(before)
    assert "knn_top1 as recorded, " in capsys.readouterr().out
    write_result(run, {**read_result(run), "test": {**result["test"], "knn_top1": 1.0}})
    evaluated(run, "evaluator=[knn]")
    assert f"knn_top1 is {result['test']['knn_top1']:.2f}, 1.00 recorded" in capsys.readouterr().out
    (run / "result.json").write_bytes(before)
    assert record["test"] == result["test"]
    assert record["val"] == result["val"]
    assert (run / "result.json").read_bytes() == before
    assert record["settings"]["evaluator"]["knn"]["k"] == 7  # the run's setting, not the recipe's


def test_done_evaluation_is_read_not_repeated(run, monkeypatch, capsys):
    words = [str(run), "evaluator=[rankme]"]
    monkeypatch.setattr(Data, "majority", {"majority": {"class": "7", "percent": 95.0}})
    table = evaluated(*words)
    assert "|\n95.00 % of the test images are of one class, 7: to guess it" in table
    with monkeypatch.context() as patch:
        patch.setattr("contrastive.experiment.evaluate._evaluate", None)  # a call would fail
        assert evaluated(*words, "evaluator.rankme.every=3") == table  # which changes no figure
        assert "is done already; rerun=true" in capsys.readouterr().out
    evaluated(run, "evaluator=[knn]", "evaluator.knn.k=3")
    assert len(records(run)) == 2
    (run / "encoder.safetensors").write_bytes((run / "encoder.safetensors").read_bytes() + b"\0")
    assert read_evaluations(run) == {}  # of other weights: never shown


@pytest.mark.smoke
def test_another_dataset_is_normalized_as_in_training(run, tmp_path):
    folder = write_image_folder(tmp_path / "insects")
    words = ["dataset=image_folder", f"dataset.root={folder}", f"dataset.cache={tmp_path}/cache"]
    assert "image_folder-insects" in evaluated(run, "evaluator=[knn,linear]", *words)
    (record,) = records(run)
    assert record["is_transfer"]
    assert record["settings"]["dataset"]["size"] == 8  # that of the run
    transform = load_encoder(run)[1]
    assert (tuple(record["mean"]), tuple(record["std"])) == (transform.mean, transform.std)
    assert record["mean"][0] == pytest.approx(0.305, abs=0.02)  # of the digits, not of the insects


def test_transfer_knows_datasets_by_name_and_by_path(run, tmp_path):
    folder, gray = write_image_folder(tmp_path / "insects"), write_classes(tmp_path / "gray", ".png", (9, 9))
    words = [f"data_root={tmp_path}", f"evaluator.transfer.datasets=[digits,{folder}]"]
    for _ in range(2):
        evaluated(run, "evaluator=[transfer,knn,linear]", *words)
    (record,) = records(run)
    for metric in ("linear_top1", "linear_top5"):  # the images of the run's own side
        assert record["test"][f"transfer_digits_{metric}"] == pytest.approx(record["test"][metric], abs=3)
    assert 0 <= record["test"]["transfer_insects_knn_top1"] <= 100
    assert "transfer_insects_linear_top1" in record["val"]
    shutil.rmtree(folder)
    write_image_folder(folder, seed=3)
    evaluated(run, "evaluator=[transfer,knn,linear]", *words)
    assert len(records(run)) == 2  # of a folder that changed
    for datasets, message in (
        ("nowhere", "there is no dataset=nowhere"),
        ("mnist", r"images of mnist have a size of their own: try evaluator.transfer"),
        (gray, r"3 channels and these have 1: try other images than .*gray in evaluator\.transfer"),
        ("a/x,b/x", r"names one twice: try each once, and folders whose last names differ"),
    ):
        with pytest.raises(ConfigError, match=message):
            evaluated(run, "evaluator=[transfer]", f"evaluator.transfer.datasets=[{datasets}]")


MISTAKES = [
    (["evaluator=[knn]"], "no run is given"),
    (["RUN", "outputs/x/seed=9"], "outputs/x/seed=9 is neither a folder"),
    (["RUN", "epochs=3"], "epochs is not a setting of an evaluation"),
    (["RUN", "evaluator=[online_probe]"], "learns from the batches of training"),
    (["RUN", "evaluator=[knnn]"], "there is no evaluator=knnn"),
    (["EMPTY"], "no finished run in"),
]


@pytest.mark.parametrize(("words", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_sentence(run, tmp_path, capsys, words, message):
    (tmp_path / "EMPTY").mkdir()
    assert main([{"EMPTY": str(tmp_path / "EMPTY"), "RUN": str(run)}.get(word, word) for word in words]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert message in said
    assert "try " in said
    assert not (run / "evaluation").exists()


def test_a_run_that_cannot_be_evaluated_is_left_out_and_a_loss_of_ones_own_is_no_reason(run, capsys):
    own, odd, cut = (shutil.copytree(run, run.parent / name) for name in ("own", "odd", "cut"))
    edited(own, loss={"_target_": "my_loss.Loss"})
    edited(odd, encoder={"_target_": "my_encoder.Encoder"})
    (cut / ENCODER).unlink()
    table = evaluated(run.parent, "evaluator=[rankme]")
    assert [line.split()[1].rpartition("/")[2] for line in table.splitlines()[4:]] == ["own", "run"]
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: a run is left out")]
    assert "my_encoder.Encoder" in said[0]
    assert str(cut) in said[1]
    with pytest.raises(ConfigError, match=r"my_encoder\.Encoder"):
        evaluated(odd, "evaluator=[rankme]")


def test_evaluations_of_folders_of_one_name_are_not_mixed(run, tmp_path, monkeypatch, capsys):
    folders = [write_image_folder(tmp_path / place / "insects", seed=seed) for seed, place in enumerate("ab")]
    words = [str(run), "evaluator=[rankme]", "dataset=image_folder", f"dataset.cache={tmp_path}/cache"]
    tables = [evaluated(*words, f"dataset.root={folder}") for folder in folders]
    assert tables[0] != tables[1]
    assert len(records(run)) == 2
    before = records(run)
    other = {"commit": "other", "dirty": False, "package": "other"}
    monkeypatch.setattr("contrastive.run.provenance._checkout", lambda _: other)
    evaluated(*words, f"dataset.root={folders[0]}")
    assert "is done already, with other code than now; rerun=true" in capsys.readouterr().out
    assert records(run) == before


def test_images_that_changed_since_the_run_have_a_column_of_their_own(tmp_path, capsys):
    folder = write_image_folder(tmp_path / "insects")
    words = ["dataset=image_folder", f"dataset.root={folder}", f"dataset.cache={tmp_path}/cache", "dataset.size=8"]
    run = tmp_path / "run"
    run_experiment(compose_settings(*WORDS, *words, "batch_size=8"), run)
    evaluated(run, "evaluator=[rankme]")
    assert "warning" not in capsys.readouterr().out
    shutil.rmtree(folder)
    write_image_folder(folder, seed=3)
    evaluated(run, "evaluator=[rankme]")
    assert "warning: these images are not those that" in capsys.readouterr().out
    evaluated(run, "evaluator=[rankme]", "dataset.size=6")
    shown = [column for column in contrastive.runs(run) if column.startswith("rankme")]
    assert len(shown) == 3
    assert ["data=" in column for column in sorted(shown)].count(True) == 1


def test_code_of_a_users_encoder_is_part_of_an_evaluation(run, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_evaluated.py").write_text(
        "from contrastive.encoder.resnet import ResNet\nclass Mine(ResNet):\n"
        "    def forward(self, x):\n        print('it is mine')\n        return super().forward(x)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    edited(run, encoder={**edited(run)["encoder"], "_target_": "my_evaluated.Mine"})
    for edit, is_done in (("", False), ("", True), ("# edited\n", False)):
        with (tmp_path / "my_evaluated.py").open("a") as file:
            file.write(edit)
        evaluated(run, "evaluator=[rankme]", folders=[tmp_path])
        said = capsys.readouterr().out
        assert ("is done already" in said, "it is mine" in said) == (is_done, not is_done)
        sys.modules.pop("my_evaluated", None)  # as in a new process


def test_encoder_of_another_run_is_refused(run, tmp_path):
    run_experiment(compose_settings(*WORDS, "seed=1"), tmp_path / "other")
    shutil.copy(tmp_path / "other" / ENCODER, run / ENCODER)
    for use in (evaluated, load_encoder, export_onnx, tsne_map):
        with pytest.raises(ConfigError, match="is damaged or another run's"):
            use(run)
    (run / "result.json").unlink()
    run_experiment(compose_settings(*WORDS), run)
    evaluated(run, "evaluator=[rankme]")


def test_what_is_typed_takes_precedence_over_what_was_recorded(run, tmp_path, monkeypatch):
    (request,) = parse_args([str(run), "evaluator.knn={k: 50}"])
    assert request.settings.evaluator["knn"]["k"] == 50
    (request,) = parse_args([str(run)])
    assert request.settings.evaluator["knn"]["k"] == 7
    # a dataset of one's own
    own = {"_target_": "stripes.stripes", "root": "/old", "n": 100}
    edited(run, dataset=own, data_root="/old")
    yaml_of_it = "_target_: stripes.stripes\nroot: null\nn: 5\n"
    files = {"dataset/stripes.yaml": yaml_of_it, "stripes.py": "def stripes(root, n): ...\n"}
    folder = write_files(tmp_path / "mine", files)
    monkeypatch.syspath_prepend(folder)
    for words, changed in (([], {}), (["data_root=/new"], {"root": "/new"}), (["dataset.n=7"], {"n": 7})):
        (request,) = parse_args([str(run), *words], folders=[folder])
        assert request.settings.dataset == {**own, **changed}


def test_run_without_labels_is_evaluated_on_other_images(tmp_path, capsys):
    folder = tmp_path / "flat"
    (write_image_folder(tmp_path / "insects") / "train/ant").rename(folder)
    words = ["encoder=resnet18_narrow", "encoder.width=2", "device=cpu", CONTIGUOUS]
    words += ["dataset=image_folder", f"dataset.root={folder}", "dataset.size=8", f"dataset.cache={tmp_path}/cache"]
    words += ["epochs=1", "batch_size=8", "augmentation=digits"]
    path = tmp_path / "run"
    result = run_experiment(compose_settings(*words), path)
    assert set(result["test"]) == {"rankme", "alignment_uniformity_uniformity"}
    assert result["left_out"] == ["knn", "linear", "few_shot", "classifier", "bias_audit"]
    said = capsys.readouterr().out
    assert "18 training images of 8 px without labels" in said
    assert said.count("are left out") == 1
    assert f"-m contrastive evaluate {path} dataset=digits" in said
    assert "linear_top1" in evaluated(path, "dataset=digits", "evaluator=[linear]")
    with pytest.raises(ConfigError, match="have no labels, which linear need: try dataset=digits"):
        evaluated(path, "evaluator=[linear]")
