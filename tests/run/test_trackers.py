"""Trackers: each line of metrics.jsonl once, whatever happens to the run or to the tracker."""

import functools
import json
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from contrastive.errors import ConfigError
from contrastive.experiment.run import run_experiment
from contrastive.run.directory import clear
from contrastive.tracker.wandb import WandB
from contrastive.training.hook import Hook
from contrastive.training.step import TrainStep
from tests.forked import Program, at_call, kill_me
from tests.helpers import BARE, compose_settings, logged_lines, run_named, run_until_step, write_files

WORDS = [*BARE, "epochs=2", "evaluator=[knn]", "evaluator.knn.every=1", "log_every=1", "checkpoint_every=1"]
MINE = """
import json
from contrastive.tracker.base import Tracker

class ToFile(Tracker):
    package = "json"

    def connect(self, run, known):
        self.file = open("sent.jsonl", "a")
        print("known as", known, file=open("connected.txt", "a"))
        return "the run"

    def send(self, step, metrics):
        print(json.dumps({"step": step, **metrics}), file=self.file, flush=True)

    def disconnect(self, *, finished):
        print("finished", finished, file=open("connected.txt", "a"))
"""


class Broken(Hook):
    """Fails at its third step."""

    calls = 0

    def on_step(self, training, output):
        Broken.calls += 1
        if Broken.calls == 3:
            raise OSError("the server is gone")


def points(lines: list[dict[str, float]]) -> list[tuple[str, int, float]]:
    """(curve, step, value) of every point but those of time, in a fixed order; W&B merges lines of one step."""
    return sorted(
        (key, int(line["step"]), pytest.approx(value))
        for line in lines
        for key, value in line.items()
        if key not in ("step", "epoch") and not key.startswith("time/")
    )  # fmt: skip


@pytest.mark.slow
def test_a_killed_run_sends_each_line_once_to_a_tracker_of_ones_own(tmp_path):
    yaml = "# @package tracker.to_file\n# Lines to a file\n_target_: my_tracker.ToFile\n"
    write_files(tmp_path / "mine", {"my_tracker.py": MINE, "tracker/to_file.yaml": yaml})
    words = [*WORDS, "--config-dir", "mine", "tracker=[tensorboard,to_file]", "hydra.run.dir=run"]
    for n_steps, n_sent in ((2, 3), (7, 9)):  # before the first checkpoint, and two steps after it
        fault = functools.partial(at_call, TrainStep, "__call__", n_steps, kill_me)
        assert Program(*words, cwd=tmp_path, fault=fault).wait() == -signal.SIGKILL
        assert len((tmp_path / "sent.jsonl").read_text().splitlines()) == n_sent
    assert Program(*words, cwd=tmp_path).wait() == 0
    sent = [json.loads(line) for line in (tmp_path / "sent.jsonl").read_text().splitlines()]
    assert points(sent) == points(logged_lines(tmp_path / "run"))
    said = (tmp_path / "connected.txt").read_text().splitlines()
    assert said == ["known as None", "known as the run", "known as the run", "finished True"]
    clear(tmp_path / "run")
    assert not list((tmp_path / "run/trackers").iterdir())  # started over it is another run there, too


@pytest.mark.slow
def test_a_tracker_that_fails_warns_once_and_the_run_is_the_same(composed, tmp_path, capsys):
    settings = composed(*WORDS, f"+tracker.broken={{_target_:{__name__}.Broken}}")
    result = run_experiment(settings, tmp_path / "broken")
    said = capsys.readouterr().out
    assert said.count("warning: tracker broken failed (OSError: the server is gone): the run goes on without it") == 1
    assert said.count("warning") == 1
    assert Broken.calls == 3
    plain = run_experiment(composed(*WORDS, "tracker=[]"), tmp_path / "plain")
    assert result["test"] == plain["test"]
    assert result["made_by"]["config"] == plain["made_by"]["config"]
    assert points(logged_lines(tmp_path / "broken")) == points(logged_lines(tmp_path / "plain"))
    assert not list((tmp_path / "plain").glob("events.*"))
    assert list((tmp_path / "broken").glob("events.*"))


def test_trackers_are_no_part_of_what_a_run_is(composed, tmp_path):
    assert run_named("tracker=[]") == run_named("tracker=[tensorboard,mlflow]") == run_named()
    run_until_step(8, composed(*WORDS, "tracker=[]"), tmp_path)
    run_experiment(composed(*WORDS), tmp_path)
    shown = [event.step for event in EventAccumulator(str(tmp_path)).Reload().Tensors("train/loss")]
    assert shown == list(range(1, 11))  # what was logged before TensorBoard was chosen, too


def test_a_library_that_is_missing_is_said_before_anything_is_loaded(monkeypatch):
    class Missing(WandB):
        package = "not_installed_here"

    with pytest.raises(ConfigError, match=r"needs the package not_installed_here.*try pip install not_installed_here"):
        Missing()


def of_mlflow(folder: Path) -> list[dict[str, float]]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("contrastive").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["loss.temperature"] == "0.5"
    history = [client.get_metric_history(run.info.run_id, key) for key in run.data.metrics]
    return [{"step": point.step, point.key: point.value} for curve in history for point in curve]


def of_trackio(folder: Path) -> list[dict[str, float]]:
    from trackio.sqlite_storage import SQLiteStorage

    (run,) = SQLiteStorage.get_runs("contrastive")
    return [
        {key: value for key, value in line.items() if key != "timestamp"}
        for line in SQLiteStorage.get_logs("contrastive", run)
    ]


def of_wandb(folder: Path) -> list[dict[str, float]]:
    from wandb.proto import wandb_internal_pb2

    files = sorted((folder / "run/wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 2
    assert len({file.name for file in files}) == 1  # one run at Weights & Biases
    lines = []
    for content in (content for file in files for content in records(file.read_bytes())):
        record = wandb_internal_pb2.Record.FromString(content)
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            values = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
            lines.append({key: value for key, value in values.items() if not key.startswith("_")})
    return lines


def records(content: bytes) -> Iterator[bytes]:
    """The records of a .wandb file, LevelDB's log after a header of seven bytes: blocks of 32 KiB, in which a record
    has checksum, length and kind (1 whole, 2 first, 3 middle, 4 last part) in front."""
    place, parts = 7, b""
    while place < len(content):
        if 2**15 - place % 2**15 < 7:
            place += 2**15 - place % 2**15
            continue
        length, kind = struct.unpack_from("<xxxxHB", content, place)
        parts += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_a_service_has_each_point_once(name, tmp_path, monkeypatch):
    """With the real library, of a run that was stopped three steps after its checkpoint, and resumed."""
    pytest.importorskip(name)
    monkeypatch.setenv("WANDB_SILENT", "true")
    if name == "trackio":
        monkeypatch.setattr("trackio.utils.TRACKIO_DIR", tmp_path)
        monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", tmp_path)
    options = {
        "wandb": ["tracker.wandb.mode=offline"],
        "mlflow": [f"tracker.mlflow.uri=sqlite:///{tmp_path}/mlflow.db"],
    }
    settings = compose_settings(*WORDS, f"tracker=[tensorboard,{name}]", *options.get(name, []))
    run_until_step(9, settings, tmp_path / "run")
    run_experiment(settings, tmp_path / "run")
    found = {"wandb": of_wandb, "mlflow": of_mlflow, "trackio": of_trackio}[name](tmp_path)
    assert points(found) == points(logged_lines(tmp_path / "run"))
