"""Files that say what no run wrote: each reader answers in one sentence or works."""

import json
from typing import NotRequired, TypedDict

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.experiment.run import run_experiment
from contrastive.files import file_hash, misfit
from contrastive.run.checkpoint import content_hash
from contrastive.run.files import (
    ENCODER,
    read_config,
    read_environment,
    read_evaluations,
    read_result,
    write_evaluation,
    write_result,
)
from contrastive.run.log import read_points
from tests.helpers import SOUND_CONFIG, SOUND_ENVIRONMENT, TINY, compose_settings, run_until_step


class Inner(TypedDict):
    name: str
    n: NotRequired[int | None]


class Outer(TypedDict):
    inner: list[Inner]
    values: dict[str, float]
    pair: tuple[int, str]


SOUND = {"inner": [{"name": "a", "n": None}, {"name": "b", "more": 1}], "values": {"x": 1}, "pair": [1, "y"]}


def test_what_fits():
    assert misfit(SOUND, Outer) is None
    assert misfit([], Outer) == ""  # the whole does not
    assert misfit({key: value for key, value in SOUND.items() if key != "pair"}, Outer) == "pair"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"inner": [{"name": "a"}, {}]}, "inner[1].name"),
        ({"inner": [{"name": 3}]}, "inner[0].name"),
        ({"inner": [{"name": "a", "n": "3"}]}, "inner[0].n"),
        ({"inner": {"name": "a"}}, "inner"),
        ({"values": {"x": True}}, "values.x"),
        ({"values": {"x": 10**400}}, "values.x"),
        ({"values": {3: 1.0}}, "values"),
        ({"pair": [1]}, "pair"),
        ({"pair": [1, 2]}, "pair[1]"),
    ],
)
def test_the_first_place_that_does_not_fit_is_named(change, place):
    assert misfit({**SOUND, **change}, Outer) == place


def test_what_is_not_as_a_run_wrote_it_is_no_result_and_no_evaluation(tmp_path):
    (tmp_path / ENCODER).write_bytes(b"weights")
    content = {"test": {"knn_top1": 50.0}, "weights": file_hash(tmp_path / ENCODER)}
    write_result(tmp_path, content)
    write_evaluation(tmp_path, "knn", content)
    assert (read_result(tmp_path), read_evaluations(tmp_path)) == (content, {"knn": content})
    for file in (tmp_path / "result.json", tmp_path / "evaluation/knn.json"):
        whole = json.loads(file.read_text())
        edited = {**whole, "test": {"knn_top1": 51.0}}
        for text in (json.dumps(edited), json.dumps({**whole, "checksum": None}), "null", "[]", '{"test": {"kn', ""):
            file.write_text(text)
            assert read_result(tmp_path) is None or not read_evaluations(tmp_path), text
    assert read_result(tmp_path) is None and not read_evaluations(tmp_path)


@pytest.mark.parametrize(
    ("name", "read", "content"),
    [
        ("environment.json", read_environment, json.dumps({**SOUND_ENVIRONMENT, "earlier": [3]})),
        *(("config.yaml", read_config, text) for text in (
            "", "\0", "a: [", json.dumps({**SOUND_CONFIG, "encoder": {"width": 2}}),
            json.dumps({**SOUND_CONFIG, "dataset": {"_target_": "x.Y", "name": ["${oc.env:SECRET}"]}}),
        )),
        *(("metrics.jsonl", read_points, f"{line}\n") for line in (
            "3", "{}", '{"step": 1}', '{"step": 1, "epoch": "x"}', '{"step": 1, "epoch": 1, "a": {}}', "{",
        )),
    ],
)  # fmt: skip
def test_a_file_that_no_run_wrote_is_one_sentence(tmp_path, name, read, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=rf"{name} is (missing or )?damaged.*: try (rerun=true|the command)"):
        read(tmp_path)


def test_a_checkpoint_of_another_shape_is_one_sentence(tmp_path):
    settings, last = compose_settings(*TINY, "checkpoint_every=1"), tmp_path / "checkpoints/last.pt"
    run_until_step(7, settings, tmp_path)
    state = torch.load(last, weights_only=True)
    del state["sha256"]
    state["encoder"]["conv1.weight"] = state["encoder"]["conv1.weight"][:-1]
    torch.save({**state, "sha256": content_hash(state)}, last)
    with pytest.raises(ConfigError, match=r"does not fit this code .*size mismatch.*rerun=true"):
        run_experiment(settings, tmp_path)
