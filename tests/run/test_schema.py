"""Files that say what no run wrote: each reader answers in one sentence or works."""

import copy
import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest
import torch

from contrastive import runs
from contrastive.cli.evaluate import evaluate_runs, parse_args
from contrastive.errors import ConfigError
from contrastive.experiment.run import run_experiment
from contrastive.run.checkpoint import content_hash
from contrastive.run.files import read_evaluations, read_result
from contrastive.run.log import read_points
from contrastive.schema import misfit
from tests.helpers import (
    CONTIGUOUS,
    compose_settings,
    load_image_folder,
    run_until_step,
    write_image_folder,
)

WORDS = [
    "dataset=biased_digits", "dataset.rho=0.9", "dataset.size=8", "encoder.width=8", "encoder.kernel_size=3",
    "precision=fp32", "epochs=1", "batch_size=256", "device=cpu", CONTIGUOUS, "evaluator=[knn,bias_audit,class_audit]",
    "evaluator.bias_audit.max_iter=5",
]  # fmt: skip
PER_IMAGE = [*WORDS, "epochs=2", "loss=sogclr", "n_views=2", "augmentation=rotation_jitter", "checkpoint_every=1"]
ODD: list[Any] = [None, True, -3, 1e29, 10**30, "x", "", [], [[]], {}, {"x": {}}]


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


# ---- structural mutants of each file of a run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on data with biases, evaluated once more."""
    path = tmp_path_factory.mktemp("runs") / "run"
    run_experiment(compose_settings(*WORDS), path)
    evaluate_runs(parse_args([str(path), "evaluator=[knn]", "evaluator.knn.k=3"]))
    return path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def mutants(content: Any) -> Iterator[tuple[str, Any]]:
    """The content with one place removed or replaced by each odd value, and what was done."""
    for place in places(content):
        for value in ODD:
            yield (
                f"{place} = {value!r}",
                changed(content, place, lambda node, key, value=value: node.__setitem__(key, value)),
            )
        yield f"without {place}", changed(content, place, lambda node, key: node.__delitem__(key))


def places(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = (
        list(content) if isinstance(content, dict) else range(min(2, len(content))) if isinstance(content, list) else []
    )
    for key in keys:
        yield (*at, key)
        yield from places(content[key], (*at, key))


def changed(content: Any, place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    new = copy.deepcopy(content)
    node = new
    for key in place[:-1]:
        node = node[key]
    change(node, place[-1])
    return new


def check(what: str, read: Callable[[], object]) -> bool:
    """Whether it is read; anything but a sentence fails."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read()
    except ConfigError as error:
        said = str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    else:
        return True
    assert "try " in said, (what, said)
    return False


def test_what_is_not_as_a_run_wrote_it_is_no_result_and_no_evaluation(run):
    assert read_result(run) and len(read_evaluations(run)) == 1
    for file in (run / "result.json", *(run / "evaluation").glob("*.json")):
        content = json.loads(file.read_text())
        content["test"]["knn_top1"] += 1
        for text in (json.dumps(content), json.dumps({**content, "checksum": None}), "null", "[]", '{"test": {"kn', ""):
            file.write_text(text)
            assert read_result(run) is None or not read_evaluations(run), text
    assert read_result(run) is None and not read_evaluations(run)


def test_environments_and_logs(run, capsys):
    environment = json.loads((run / "environment.json").read_text())
    environment["packages"] = []
    for what, mutant in mutants(environment):
        (run / "environment.json").write_text(json.dumps(mutant))
        check(what, lambda: runs(run))
    (run / "environment.json").write_text(json.dumps(environment))
    for line in ("3", "[]", "{}", '{"step": 1}', '{"step": 1, "epoch": "x"}', '{"step": 1, "epoch": 1, "a": {}}', "{"):
        (run / "metrics.jsonl").write_text(line + "\n")
        with pytest.raises(ConfigError, match=r"is damaged .*try rerun=true"):
            read_points(run)


# ---- checkpoints


def test_the_state_of_another_number_of_images(tmp_path):
    settings = compose_settings(*PER_IMAGE)
    run_until_step(9, settings, tmp_path)
    state = torch.load(tmp_path / "checkpoints/last.pt", weights_only=True)
    del state["sha256"]
    per_image = [key for key, value in state["objective"].items() if value.ndim and len(value) > 1000]
    assert per_image
    for key in per_image:
        state["objective"][key] = state["objective"][key][:-1]
    torch.save({**state, "sha256": content_hash(state)}, tmp_path / "checkpoints/last.pt")
    with pytest.raises(ConfigError, match=r"does not fit this code .*size mismatch.*rerun=true"):
        run_experiment(settings, tmp_path)


# ---- other files


@pytest.mark.slow
def test_facts_of_decoded_images(tmp_path):
    folder = write_image_folder(tmp_path)
    before = load_image_folder(folder)
    for file in sorted((folder / "cache").glob("*.json")):
        content = json.loads(file.read_text())
        for what, mutant in mutants({**content, "faults": {"0": "why"}}):
            file.write_text(json.dumps(mutant))
            check(what, lambda: load_image_folder(folder))
        for mutant in ({**content, "mean": "x"}, {"faults": {}}):
            file.write_text(json.dumps(mutant))
            again = load_image_folder(folder)  # decoded again
            assert again.mean == before.mean
            assert json.loads(file.read_text()) == content
