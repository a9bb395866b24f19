"""Damaged images that others stand in for are counted in the results."""

import json
from pathlib import Path

import pytest
import torch

from contrastive.__main__ import main
from contrastive.dataset.shard.order import Order
from contrastive.experiment import build
from contrastive.experiment.run import run_experiment
from contrastive.hook import replaced_images
from contrastive.hook.replaced_images import ReplacedImages
from contrastive.run.kinds import Result
from contrastive.schema import misfit
from contrastive.types import Windows
from tests.helpers import compose_settings, program, run_until_step
from tests.test_shards import damage, load, write_shards

RECIPE = [
    "encoder=resnet18_narrow", "encoder.width=2", "epochs=1", "batch_size=6", "log_every=1", "device=cpu",
    "precision=fp32", "channels_last=false", "evaluator=[rankme]", "checkpoint_every_minutes=0.0001", "quiet=true",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images without labels, so that no evaluation reads the training images."""
    return write_shards(tmp_path / "tars", labeled=False)


def words(folder: Path) -> list[str]:
    place = [f"dataset.root={folder}", "dataset.size=8", f"dataset.cache={folder}/cache"]
    return [*RECIPE, "dataset=shards", *place, "dataset.on_damage=replace"]


def damage_some(folder: Path) -> None:
    """The first two training images of the first epoch, the last of its second batch, and a test image."""
    data = load(folder)
    order = Order(len(data.pretrain), Windows(1, 131_072), 0, "order", 0, 0).rows(0, 12)
    for row in order[[0, 1, 11]].tolist():
        damage(folder, int(data.pretrain.image.chosen[row]))
    damage(folder, int(data.test.image.chosen[0]))
    build._load_data.cache_clear()


def test_each_split_counts_its_own_once(folder, monkeypatch):
    damage_some(folder)
    data = load(folder, on_damage="replace")
    counted = ReplacedImages(data)
    counted.exchange()
    assert counted.counts == {}  # those of the statistics are read again
    for _ in range(2):
        data.pretrain.image[torch.arange(len(data.pretrain))]
        data.test.select(torch.tensor([0, 3])).image[torch.tensor([0])]
    assert counted.counts == {}
    counted.exchange()
    assert counted.counts == {"pretrain": 3, "test": 1}
    resumed = ReplacedImages(data)
    resumed.load_state_dict(json.loads(json.dumps(counted.state_dict())))
    monkeypatch.setattr(replaced_images, "from_all", lambda own: [own, {"pretrain": [-1], "test": []}])
    resumed.exchange()  # with another process, that met another one
    assert resumed.counts == {"pretrain": 4, "test": 1}


def test_a_resumed_run_has_those_of_before(folder, tmp_path, capsys):
    damage_some(folder)
    settings = compose_settings(*words(folder))
    run_until_step(3, settings, tmp_path / "run")  # the damaged ones were in the first two batches
    result = run_experiment(settings, tmp_path / "run")
    assert result["replaced"] == {"pretrain": 3, "test": 1}
    assert misfit(result, Result) is None
    assert "other images stood in for damaged ones: 3 of pretrain, 1 of test" in capsys.readouterr().out
    evaluation = ["dataset=shards", f"dataset.root={folder}", "dataset.size=8", "dataset.on_damage=replace"]
    assert main(["evaluate", str(tmp_path / "run"), *evaluation, f"dataset.cache={folder}/cache"]) == 0
    (path,) = (tmp_path / "run/evaluation").glob("*.json")
    assert json.loads(path.read_text())["replaced"] == {"test": 1}


def test_a_run_that_met_none_says_nothing(folder, tmp_path):
    assert "replaced" not in run_experiment(compose_settings(*words(folder)), tmp_path / "run")


@pytest.mark.slow
def test_two_processes_count_together(folder, tmp_path):
    damage_some(folder)
    done = program(*words(folder), "devices=2", "hydra.run.dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run/result.json").read_text())["replaced"] == {"pretrain": 3, "test": 1}
