"""The best of finished runs, and comparisons of them with their later evaluations and curves."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contrastive.bits import pack
from contrastive.files import file_hash
from contrastive.report.__main__ import main
from contrastive.report.compare import mean_curve
from contrastive.report.runs import read_runs
from contrastive.run.files import ENCODER, write_evaluation
from contrastive.tables.intervals import holm, paired_test, two_way_test
from tests.helpers import SOUND_ENVIRONMENT, write_finished

KNN = {"knn": {"_target_": "x.KNN", "k": 5, "every": 1}}


def save_run(path: Path, *, loss: str, seed: int, knn: float, linear: float | None = None, **config: Any) -> Path:
    config = {"loss": {"_target_": f"x.{loss}"}, "seed": seed, "evaluator": KNN, **config}
    val = {} if linear is None else {"linear_top1": linear}
    write_finished(path, config=config, environment={}, test={"knn_top1": knn, "linear_top1": knn / 2}, val=val)
    (path / "encoder.safetensors").write_bytes(b"weights")
    points = [{"epoch": epoch, "train/loss": knn / (epoch + 1)} for epoch in range(3)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two losses with three seeds each: Bad is better on the test split, Good on the validation images."""
    for seed, noise in enumerate((0.0, 1.0, 5.0)):
        save_run(tmp_path / f"runs/bad/{seed}", loss="Bad", seed=seed, knn=50 + noise, linear=70 - noise)
        save_run(tmp_path / f"runs/good/{seed}", loss="Good", seed=seed, knn=48 + 1.1 * noise, linear=80 - noise)
    return tmp_path / "runs"


def evaluation(run: Path, name: str, value: float, *, k: int = 5, dataset: str = "", target: str = "digits") -> None:
    settings = {"dataset": {"_target_": target}, "evaluator": {"knn": {"_target_": "x.KNN", "k": k}, "knn_sweep": {}}}
    write_evaluation(
        run,
        name,
        {
            "weights": file_hash(run / ENCODER), "protocol": {}, "environment": {}, "time": {"finished": ""},
            "dataset": dataset, "is_transfer": bool(dataset), "settings": settings,
            "test": {"knn_top1": value, "knn_sweep_top1": 1.0}, "val": {},
        },
    )  # fmt: skip


def test_the_best_is_chosen_on_the_validation_images(runs, capsys):
    assert main(["best", str(runs)]) == 0
    said = capsys.readouterr().out
    assert "best by linear_top1 on the validation images" in said
    first = next(line for line in said.splitlines() if line.startswith("| 1 "))
    assert "78.00 ± 2.65 (3)" in first
    assert "| good" in first
    assert said.count(f"{runs}/good/") == 3


def test_the_best_says_when_only_test_figures_exist(runs, capsys):
    assert main(["best", str(runs), "--metric", "knn_top1", "--top", "1"]) == 0
    said = capsys.readouterr().out
    assert "on the TEST split" in said
    assert "optimistic" in said
    assert "| bad" in said
    assert "| good" not in said
    assert main(["best", str(runs), "--metric", "nope"]) == 2
    assert "no run has nope, known are knn_top1, linear_top1: try knn_top1" in capsys.readouterr().err
    assert main(["best", str(runs), "--top", "0"]) == 2


def test_a_comparison_shows_settings_figures_and_curves(runs, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["compare", str(runs / "bad"), str(runs / "good"), "-o", str(tmp_path / "out.md")]) == 0
    text = (tmp_path / "out.md").read_text()
    rows = {
        cells[1]: cells[2:-1] for line in text.splitlines() if len(cells := [c.strip() for c in line.split("|")]) > 3
    }
    assert rows["loss._target_"] == ["x.Bad", "x.Good"]
    assert rows["A"][0] == "bad"
    assert rows["knn_top1"][:2] == ["52.00 ± 2.65 (3)", "50.20 ± 2.91 (3)"]
    low, high, _ = paired_test([-2.0, -1.9, -1.5])
    assert rows["knn_top1"][2] == f"-1.80 [{low:+.2f}, {high:+.2f}] (3) *"  # every seed says so
    assert "* = significant: the two-sided p, corrected for the 2 tests of this table (Holm)" in text
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert "![Curves" in text
    assert main(["compare", str(runs / "good"), str(runs / "bad")]) == 0
    assert f"| A | good | {runs}/good" in capsys.readouterr().out  # in the order typed
    assert main(["compare", str(runs)]) == 0  # a folder of several configurations: a column for each
    assert "| B | good" in capsys.readouterr().out
    for words, message in (
        ([str(runs / "bad")], "one configuration"),
        ([str(runs), "-o", "out.pdf"], "try -o out.md"),
        ([str(runs / "none"), str(runs)], "is not a folder"),
        ([str(runs), "--only", "good", "best"], "no runs are called best, known are bad, good: try --only 'bad'"),
        ([str(runs), "-o", str(tmp_path / "x.png"), "--curves", "test/none"], "no run has a curve of test/none"),
    ):
        assert main(["compare", *words]) == 2
        assert message in capsys.readouterr().err


def test_many_configurations_are_chosen_by_name(runs, capsys):
    for epochs in range(7):
        save_run(runs / f"{epochs}", loss="Good", seed=0, knn=50, epochs=epochs)
    assert main(["compare", str(runs)]) == 2
    assert "9 configurations are too many side by side: good epochs=0, good epochs=1," in (
        said := capsys.readouterr().err
    )
    assert "try --only 'good epochs=0' 'good epochs=1', at most 6 of them" in said
    assert main(["compare", str(runs), "--only", "good epochs=3", "bad"]) == 0
    assert "| A | good epochs=3" in capsys.readouterr().out


def compared(capsys, *words: object) -> tuple[dict[str, str], str]:
    """{metric: the last difference} and the whole text of a comparison."""
    assert main(["compare", *map(str, words)]) == 0
    text = capsys.readouterr().out
    lines = text.partition("test split")[2].splitlines()
    return {cells[1].strip(): cells[-2].strip() for line in lines if len(cells := line.split("|")) > 3}, text


def test_two_seeds_have_no_interval_and_no_star(tmp_path, capsys):
    for seed in (0, 1):
        save_run(tmp_path / f"a/{seed}", loss="A", seed=seed, knn=60.0 + seed)
        save_run(tmp_path / f"b/{seed}", loss="B", seed=seed, knn=58.61 + seed)  # both seeds by as many images
    differences, text = compared(capsys, tmp_path)
    assert differences["knn_top1"] == "-1.39 (2)"
    assert "*" not in text and "[" not in text
    assert "with an interval from 3 on" in text


def test_runs_of_other_processors_are_not_paired(runs, capsys):
    environment = runs / "good/1/environment.json"
    environment.write_text(json.dumps(SOUND_ENVIRONMENT | {"device": "a GPU"}))
    differences, text = compared(capsys, runs)
    assert differences["knn_top1"] == "-1.75 (2)"  # of -2.0 and -1.5
    assert "good: its runs are of several kinds of processor" in text
    for seed in (0, 2):
        (runs / f"good/{seed}/environment.json").write_text(environment.read_text())
    differences, _ = compared(capsys, runs)
    assert differences["knn_top1"] == "-"


def test_differences_are_judged_as_claims_are(tmp_path, capsys):
    rng = np.random.default_rng(0)
    easy, right = rng.random(300), {}  # of all losses alike: how easy an image is
    for loss, shift in (("A", 0.0), ("B", 0.2), ("C", 0.0)):
        for seed in range(4):
            right[loss, seed] = easy + shift + 0.1 * rng.random(300) > 0.5
            write_finished(
                tmp_path / f"{loss}/{seed}",
                config={"loss": {"_target_": f"x.{loss}"}, "seed": seed, "evaluator": KNN},
                environment={},
                test={
                    "knn_top1": 100 * right[loss, seed].mean(),
                    "rankme": 5.0 + seed + (loss == "C") * (0.1, 0.1, 0.3, 0.3)[seed],
                },
                correct={"knn_top1": pack(right[loss, seed])},
            )
    tests = {
        loss: two_way_test(100 * np.array([right[loss, s].astype(float) - right["A", s] for s in range(4)]))
        for loss in "BC"
    }
    rankme = paired_test([0.1, 0.1, 0.3, 0.3])
    p = holm([2 * min(test.p, 1 - test.p) for test in (tests["B"], tests["C"], rankme)])
    assert p[0] < 0.05 < p[1] and 2 * rankme.p < 0.05 < p[2]  # the last is significant alone
    assert main(["compare", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    rows = {own[0]: own[-2:] for own in cells}
    for i, (loss, star) in enumerate((("B", " *"), ("C", ""))):
        effect = 100 * np.mean([right[loss, s].mean() - right["A", s].mean() for s in range(4)])
        assert rows["knn_top1"][i] == f"{effect:+.2f} [{tests[loss].low:+.2f}, {tests[loss].high:+.2f}] (4){star}"
    assert rows["rankme"] == ["+0.00 [+0.00, +0.00] (4)", f"+0.20 [{rankme.low:+.2f}, {rankme.high:+.2f}] (4)"]
    assert "allow for other seeds; those of knn_top1 also for other test images" in text
    assert "corrected for the 3 tests" in text


def test_curves_are_means_over_seeds(runs):
    bad = read_runs([runs]).rows[0]
    points = mean_curve(bad, "train/loss")
    assert (points["epoch"][1], points["mean"][1], points["std"][1]) == pytest.approx((1, 26.0, 1.323))
    assert mean_curve(bad, "test/none") is None


def test_later_evaluations_stand_beside_the_figures_of_the_run(runs):
    run = runs / "bad/0"
    evaluation(run, "own", 99.0, target="x.Y")
    evaluation(run, "other", 10.0, dataset="cifar10", target="cifar10")
    found = read_runs([runs])
    assert {metric: found.values(found.rows[0], metric).get(0) for metric in found.metrics()} == {
        "knn_top1": 50.0,  # the run's own, not the later one
        "linear_top1": 25.0,
        "knn_sweep_top1": 1.0,
        "cifar10:knn_top1": 10.0,
        "cifar10:knn_sweep_top1": 1.0,
    }


def test_figures_of_other_settings_never_share_a_name(runs):
    evaluation(runs / "bad/0", "five", 10.0, k=5, dataset="cifar10")
    evaluation(runs / "good/0", "nine", 20.0, k=9, dataset="cifar10")
    found = read_runs([runs])
    bad, good = found.rows
    assert found.values(bad, "cifar10:knn_top1 (k=5)") == {0: 10.0}
    assert found.values(good, "cifar10:knn_top1 (k=9)") == {0: 20.0}
    assert found.values(bad, "cifar10:knn_sweep_top1").keys() == found.values(good, "cifar10:knn_sweep_top1").keys()
