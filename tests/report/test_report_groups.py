"""Which runs share a row: every printed n, mean and std is recomputed from generated ablations."""

import copy
import csv
import io
import json
import re
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contrastive.cli.report import frame_csv
from contrastive.config.identity import option_name
from contrastive.report.facts import section_grid
from contrastive.report.frame import read_frame
from contrastive.report.runs import without_shared
from contrastive.run.files import read_result, write_result
from tests.helpers import SOUND_CONFIG, write_finished

BASE: dict[str, Any] = SOUND_CONFIG | {
    "dataset": {"_target_": "contrastive.dataset.digits.digits", "size": 16},
    "augmentation": {
        "_target_": "contrastive.augmentation.compose.Compose",
        "ops": {
            "crop": {"_target_": "contrastive.augmentation.crop.RandomResizedCrop", "scale": [0.3, 1.0]},
            "jitter": {"_target_": "contrastive.augmentation.jitter.ColorJitter", "p": 0.8},
            "blur": {"_target_": "contrastive.augmentation.blur.GaussianBlur", "p": 0.5},
        },
    },
    "loss": {"_target_": "contrastive.loss.nt_xent.NTXent", "temperature": 0.5},
    "regularizer": {},
    "evaluator": {
        "knn": {"_target_": "contrastive.evaluator.knn.KNN", "k": 20, "every": 5},
        "linear": {"_target_": "contrastive.evaluator.linear.Linear", "max_iter": 100},
    },
    "temperature": 0.5,
    "epochs": 50,
}
ABSENT = object()
FAIRKL = {"_target_": "contrastive.regularizer.fairkl.FairKL", "weight": 1.0}
CHANGES: list[tuple[str, Any]] = [
    ("regularizer", FAIRKL),
    ("regularizer", FAIRKL | {"weight": 0.1}),
    ("regularizer", {"_target_": "contrastive.regularizer.end.EnD"}),
    ("loss", {"_target_": "contrastive.loss.debiased_pos.DebiasedPos", "temperature": 0.5, "tau_plus": 0.1}),
    ("loss.temperature", 0.2),
    ("temperature", 0.2),
    ("augmentation.ops", {}),
    ("augmentation.ops.blur", ABSENT),
    ("augmentation.ops.blur", None),
    ("augmentation.ops.blur.p", 0.1),
    ("augmentation.ops.solarize", {"_target_": "contrastive.augmentation.solarize.Solarize", "p": 0.2}),
    ("augmentation.ops.crop", {"_target_": "contrastive.augmentation.crop.RandomCrop", "padding": 4}),
    ("dataset", {"_target_": "contrastive.dataset.cifar.cifar10"}),
    ("dataset.size", 8),
    ("only_here", True),
    ("only_here", "true"),
    ("only_here", None),
    ("epochs", 51),
]
EVALUATORS: list[tuple[str, Any]] = [("evaluator.knn.k", 5), ("evaluator.linear", ABSENT), ("evaluator.knn.every", 1)]


def changed(config: dict[str, Any], changes: list[tuple[str, Any]]) -> dict[str, Any]:
    config = copy.deepcopy(config)
    for key, value in changes:
        *path, last = key.split(".")
        node = config
        for part in path:
            node = node.setdefault(part, {}) if isinstance(node, dict) else {}
            node = {} if node is None else node
        if value is ABSENT:
            node.pop(last, None)
        else:
            node[last] = copy.deepcopy(value)
    return config


def save_run(path: Path, config: dict[str, Any], test: dict[str, float], **environment: Any) -> Path:
    return write_finished(path, config=config, environment=environment, test=test, val=test)


def without(config: dict[str, Any], *keys: str) -> str:
    return json.dumps({key: value for key, value in config.items() if key not in keys}, sort_keys=True)


ablations = st.lists(
    st.tuples(
        st.lists(st.sampled_from(CHANGES), max_size=3, unique_by=lambda change: change[0]),
        st.lists(st.sampled_from(EVALUATORS), max_size=2, unique_by=lambda change: change[0]),
        st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True),
    ),
    min_size=1,
    max_size=8,
)


@settings(deadline=None, max_examples=25)
@given(ablations)
def test_every_printed_figure_is_recomputed(drawn):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # {(configuration, metric, protocol): {seed: value}}
        expected: dict[tuple[str, str, str], dict[int, float]] = {}
        for i, (changes, evaluators, seeds) in enumerate(drawn):
            for seed in seeds:
                config = changed(BASE, [*changes, *evaluators]) | {"seed": seed}
                same = without(config, "seed", "evaluator")
                test = {}
                for evaluator, node in config["evaluator"].items():
                    kept = json.dumps({k: v for k, v in node.items() if k != "every"}, sort_keys=True)
                    value = hash((same, evaluator, kept, seed)) % 10_000 / 100  # as a deterministic run would give
                    test[f"{evaluator}_top1"] = value
                    expected.setdefault((same, evaluator, kept), {})[seed] = value
                save_run(folder / f"{i}/{seed}", config, test)

        frame = read_frame([folder])
        rows = {(section, name): own for section, part in frame.sections.items() for name, own in part.rows.items()}
        assert len(rows) == len({key[0] for key in expected})  # names are unique in a section
        for own in rows.values():
            configs = [json.loads((path / "config.yaml").read_text()) for paths in own["paths"] for path in paths]
            assert len({without(config, "seed", "evaluator") for config in configs}) == 1
        printed = []
        for section, part in frame.sections.items():
            head, *lines = section_grid(part, part.test_metrics()).cells
            full = {short: name for name, short in part.shown().items()}
            for name, *cells in lines:
                for metric, cell in zip(head[1:], cells, strict=True):
                    if cell != "-":
                        printed.append((rows[section, full[name]], metric, cell))
        assert len(printed) == len(expected)
        for row, metric, cell in printed:
            config = json.loads((row["paths"].iloc[0][0] / "config.yaml").read_text())
            same, evaluator = without(config, "seed", "evaluator"), metric.partition("_")[0]
            found = [v for key, v in expected.items() if key[:2] == (same, evaluator)]
            if len(found) > 1:
                k = re.search(r"\(k=(\d+)\)", metric)
                found = [v for key, v in expected.items() if key[:2] == (same, evaluator) and f'"k": {k[1]}' in key[2]]
            (values,) = (list(value.values()) for value in found)
            std = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
            assert cell == f"{mean(values):.2f}{std} ({len(values)})"
        lines = list(csv.DictReader(io.StringIO(frame_csv(frame, frame.test_metrics()))))
        assert len(lines) == len(rows)
        numbers = sorted(
            (int(line[key]), float(line[key.removesuffix("_n")]))
            for line in lines for key in line if key.endswith("_n") and line[key] != "0"
        )  # fmt: skip
        assert [n for n, _ in numbers] == sorted(len(values) for values in expected.values())
        by_mean = sorted(mean(values.values()) for values in expected.values())
        assert sorted(value for _, value in numbers) == pytest.approx(by_mean, abs=1e-4)


def names_of(folder: Path, *typed: list[str], changes: list[list[tuple[str, Any]]] | None = None) -> list[str]:
    """The names of runs of different configurations with these overrides."""
    for i, words in enumerate(typed):
        own = changes[i] if changes else [("only_here", i)]
        save_run(folder / f"{i}", changed(BASE, own), {"knn_top1": 1.0}, overrides=words)
    return list(read_frame([folder]).rows)


def test_rows_are_named_by_the_overrides_as_they_were_typed_method_first(tmp_path):
    typed = [
        ["epochs=3", "loss=debiased_pos", "tau_plus=0.2", "seed=1", "dataset=digits", "evaluator=[knn]", "device=cpu"],
        ["+augmentation.ops.solarize={_target_: x.Y}", "epochs=3", "encoder.width=8"],
        ["~augmentation.ops.blur", "temperature=0.5939321535345923"],
        ["experiment=mine"],
        [],
    ]
    assert names_of(tmp_path, *typed) == [
        "debiased_pos epochs=3 tau_plus=0.2",
        "nt_xent augmentation.ops.solarize={_target_: x.Y} epochs=3 encoder.width=8",
        "nt_xent ~augmentation.ops.blur temperature=0.5939",
        "nt_xent experiment=mine",
        "nt_xent",
    ]


def test_names_do_not_move_when_runs_are_added(tmp_path):
    first = names_of(tmp_path, ["loss=nt_xent", "epochs=3"], ["loss=debiased_pos", "epochs=3"])
    later = names_of(tmp_path, ["loss=nt_xent", "epochs=3"], ["loss=debiased_pos", "epochs=3"], ["encoder.width=8"])
    assert later[:2] == first


def test_equal_words_of_different_configurations_are_told_apart(tmp_path):
    same = ["loss=mine"]  # whose YAML was edited in between
    assert names_of(tmp_path, same, same, changes=[[("epochs", 51)], []]) == ["mine epochs=51", "mine epochs=50"]


def test_what_all_rows_share_is_printed_once():
    names = [("nt_xent", "epochs=3", "encoder.width=8"), ("debiased_pos", "epochs=3", "tau_plus=0.2")]
    assert without_shared(names) == (["nt_xent encoder.width=8", "debiased_pos tau_plus=0.2"], ["epochs=3"])
    assert without_shared(names[:1]) == (["nt_xent epochs=3 encoder.width=8"], [])


def test_option_name():
    names = {
        "contrastive.loss.nt_xent.NTXent": "nt_xent", "contrastive.loss.eps_supinfonce.EpsSupInfoNCE": "eps_supinfonce",
        "contrastive.evaluator.few.FewShot": "few_shot", "torch.optim.Adam": "adam", "MyLoss": "my_loss",
    }  # fmt: skip
    assert {target: option_name(target) for target in names} == names


@pytest.mark.parametrize(
    ("environment", "evaluators", "weights"),
    [({}, [], "1"), ({"device": "a GPU"}, [], "1"), ({"commit": "2"}, [], "1"), ({}, EVALUATORS, "2")],
)
def test_of_two_runs_of_one_seed_the_newer_one_counts_and_the_other_is_named(
    tmp_path, environment, evaluators, weights
):
    place = {"device": "a CPU", "commit": "1"}
    save_run(tmp_path / "b", changed(BASE, evaluators), {"knn_top1": 1.0}, **place)
    save_run(tmp_path / "a", BASE, {"knn_top1": 3.0}, **place | environment)
    for name, day, own in (("b", "1", "1"), ("a", "2", weights)):
        result = {"time": {"seconds": 1.0, "finished": day}, "weights": {"encoder.safetensors": own}}
        write_result(tmp_path / name, {**read_result(tmp_path / name), **result})
    frame = read_frame([tmp_path])
    assert frame.table["knn_top1"].tolist() == [3.0]
    assert frame.notes == [f"{tmp_path}/b is not counted: {tmp_path}/a has equal settings and seed, and is newer"]
