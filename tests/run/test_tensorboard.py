"""What TensorBoard reads of a run: curves with descriptions, texts, settings; nothing twice after a stop."""

import json
import time

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util import tensor_util

from contrastive.experiment.run import run_experiment
from contrastive.tracker.tensorboard import description, tensorboard_tag
from contrastive.training.diagnostics import view_grid
from tests.helpers import TINY, compose_settings, logged_lines, run_until_step

WORDS = [*TINY, "epochs=2", "loss=debiased_pos", "tau_plus=0.2", "optimizer.lr=2e-3"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that was stopped in its second epoch and resumed."""
    path, settings = tmp_path_factory.mktemp("run"), compose_settings(*WORDS)
    run_until_step(8, settings, path, WORDS)
    time.sleep(1)  # of event files of one second TensorBoard reads that with counter 10 before that with 9
    run_experiment(settings, path, WORDS)
    return path


@pytest.fixture(scope="module")
def events(run):
    """The newest event file read as TensorBoard reads the directory."""
    assert len(list(run.glob("events.*"))) == 2
    return EventAccumulator(str(run)).Reload()


def values(events, tag):
    return [tensor_util.make_ndarray(event.tensor_proto) for event in events.Tensors(tag)]


def text(events, tag):
    (value,) = values(events, f"{tag}/text_summary")
    return value.item().decode()


def test_every_curve_is_there_once_and_described(run, events):
    lines = logged_lines(run)
    for key in set().union(*lines) - {"step", "epoch"}:
        tag = tensorboard_tag(key)
        logged = [(line["step"], line[key]) for line in lines if key in line]
        shown = [(event.step, tensor_util.make_ndarray(event.tensor_proto).item()) for event in events.Tensors(tag)]
        assert shown == [(step, pytest.approx(value, rel=1e-6)) for step, value in logged], key
        assert events.SummaryMetadata(tag).summary_description == description(key) != ""
        assert events.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"


def test_accuracy_and_loss_come_before_diagnostics(events):
    groups = sorted({tag.partition("/")[0] for tag in events.Tags()["tensors"] if tag.startswith(("te", "tr"))})
    assert groups[:3] == ["test", "test-more", "train"]
    assert groups[3:] == ["train-debiasing", "train-pairs", "train-time", "trained-similarity"]
    assert tensorboard_tag("audit/bias_top1") == "test-audit/bias_top1"
    assert {tag for tag in events.Tags()["tensors"] if tag.startswith("test/")} == {
        f"test/{name}_top{k}" for name in ("knn", "linear") for k in (1, 5)
    }
    assert events.Tags()["images"] == [tensorboard_tag("views")] == ["views"]


def test_texts_hold_command_settings_and_environment(run, events):
    shown = yaml.safe_load(text(events, "run/config").removeprefix("```yaml\n").removesuffix("```"))
    assert shown == yaml.safe_load((run / "config.yaml").read_text())
    assert "python train.py dataset.size=8" in text(events, "run/command")
    assert json.loads((run / "environment.json").read_text())["code"] in text(events, "run/environment")


def test_settings_are_listed_by_the_names_that_are_typed(events):
    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    start = HParamsPluginData.FromString(content).session_start_info
    listed = {key: value.string_value or value.number_value for key, value in start.hparams.items()}
    expected = {"loss": "debiased_pos", "loss.tau_plus": 0.2, "optimizer.lr": 2e-3, "dataset.size": 8, "seed": 0}
    assert expected.items() <= listed.items()
    assert "device" not in listed, "the device is no part of the result"


def test_similarities_within_and_between_classes_are_counted(events):
    n_pairs = 0
    for kind in ("same_class", "other_class"):
        (bins,) = values(events, f"trained-similarity/{kind}")
        assert bins[:, 0].min() >= -1.001
        assert bins[:, 1].max() <= 1.001
        n_pairs += bins[:, 2].sum()
    assert n_pairs == 359 * 358 / 2


def test_first_row_shows_the_images():
    images = torch.randint(0, 256, (8, 3, 16, 16), dtype=torch.uint8)
    grid = view_grid(images, torch.stack([images / 255, 1 - images / 255]))
    size, gap = 6 * 16, 2
    assert grid.shape == (3, 3 * size + 4 * gap, 8 * size + 9 * gap)
    rows = [grid[:, gap + i * (size + gap) :][:, :size, gap : gap + size] for i in range(3)]
    torch.testing.assert_close(rows[0][:, ::6, ::6], images[0] / 255)
    torch.testing.assert_close(rows[1], rows[0])
    torch.testing.assert_close(rows[2], 1 - rows[0])
