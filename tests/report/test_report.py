"""Tables of finished runs and of sweeps read run directories and nothing else."""

import csv
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

from contrastive.cli.report import main
from contrastive.cli.sweep import sweep_table
from contrastive.report.frame import read_frame
from contrastive.report.runs import find_runs
from contrastive.run.run import Run
from contrastive.text import printable
from tests.helpers import SOUND_CONFIG, write_finished


def result(knn: float) -> dict:
    return {"test": {"knn_top1": knn, "linear_top1": knn + 1}, "untrained": {"knn_top1": 10.0}}


def cells(text: str) -> dict[str, list[str]]:
    """{first cell: the others} of every line of every table in a text."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return {first: others for first, *others in rows}


def test_a_sweep_is_grouped_by_everything_but_the_seed(tmp_path):
    runs = {}
    for loss, base in (("a", 10.0), ("b", 20.0)):
        for seed in (0, 2):
            words, path = [f"loss={loss}", "epochs=1", f"seed={seed}"], tmp_path / f"{loss}{seed}"
            config = {"seed": seed, "loss": {"_target_": f"x.{loss}"}, "epochs": 1}
            write_finished(path, config=config, environment={"overrides": words}, **result(base + seed))
            runs[Run(overrides=tuple(words), path=path)] = ""
    runs[Run(overrides=("loss=c", "epochs=1", "seed=0"), path=tmp_path / "c")] = "too hot"
    text = sweep_table(runs)
    rows = cells(text)
    assert rows["runs"] == ["knn_top1", "linear_top1"]
    assert rows["a"][0] == "11.00 ± 1.41 (2)"
    assert rows["b"] == ["21.00 ± 1.41 (2)", "22.00 ± 1.41 (2)"]
    assert "in every row: epochs=1" in text  # once, above the table
    assert "failed: loss=c epochs=1 seed=0: too hot" in text


def save_run(path: Path, *, data: str, knn: float, device: str = "", **config: Any) -> None:
    config["dataset"] = SOUND_CONFIG["dataset"] | config.get("dataset", {})
    write_finished(path, config=config, environment={"data": data, "device": device}, **result(knn))


def knn_of(folder: Path) -> dict[str, dict[int, float]]:
    rows = read_frame([folder]).rows
    return {name: dict(zip(own["seed"], own["knn_top1"], strict=True)) for name, own in rows.items()}


def test_losses_on_different_data_are_never_set_side_by_side(tmp_path):
    for loss, data in (("Plain", "aaaaaaaa1"), ("Good", "bbbbbbbb2"), ("Better", "bbbbbbbb2")):
        save_run(tmp_path / loss, data=data, knn=30.0, seed=0, loss={"_target_": f"x.{loss}"}, dataset={"root": data})
    option = find_runs([tmp_path])[0][0].dataset
    sections = {name: list(part.rows) for name, part in read_frame([tmp_path]).sections.items()}
    assert sections == {f"{option} data=aaaaaaaa": ["plain"], f"{option} data=bbbbbbbb": ["better", "good"]}
    (note,) = read_frame([tmp_path]).notes
    assert note == f"{option}: 2 data sets have this name, and their runs are not compared"
    fewer = {"root": "c", "per_class": 100}  # another setting, which says why the data differ
    save_run(tmp_path / "fewer", data="c" * 8, knn=30.0, seed=0, dataset=fewer)
    assert list(read_frame([tmp_path]).sections)[-1] == option


def test_maps_drawn_with_the_seed_share_a_row(tmp_path):
    for seed in (0, 1):
        save_run(tmp_path / f"{seed}", data=f"{seed}" * 8, knn=30.0 + seed, seed=seed, dataset={"data_seed": seed})
    assert knn_of(tmp_path) == {"y": {0: 30.0, 1: 31.0}}
    save_run(tmp_path / "fixed", data="c" * 8, knn=50.0, seed=1, dataset={"data_seed": 0})
    assert [len(values) for values in knn_of(tmp_path).values()] == [1, 1, 1]


def test_a_table_in_every_format(tmp_path, capsys):
    for loss, seed, knn in (("Bad", 0, 50.0), ("Bad", 1, 54.0), ("Good", 0, 60.0)):
        save_run(tmp_path / loss / str(seed), data="d", knn=knn, seed=seed, loss={"_target_": f"x.{loss}"})
    assert main([str(tmp_path), "--sort", "knn_top1"]) == main([str(tmp_path)]) == 0
    by_metric, by_name = capsys.readouterr().out.split("y: test split")[1:]
    assert by_metric.index("| good") < by_metric.index("| bad  | 52.00 ± 2.83 (2)")
    assert by_name.index("| bad") < by_name.index("| good")
    assert main([str(tmp_path), "--format", "csv"]) == 0
    bad, good = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (bad["dataset"], bad["runs"], bad["loss._target_"], good["runs"]) == ("y", "bad", "x.Bad", "good")
    assert (float(bad["knn_top1"]), float(bad["knn_top1_std"]), bad["knn_top1_n"]) == (52, 2.8284, "2")
    assert (good["knn_top1_std"], good["knn_top1_n"]) == ("", "1")
    assert main([str(tmp_path), "--format", "latex"]) == 0
    latex = capsys.readouterr().out
    assert r"bad & 52.00 $\pm$ 2.83 (2)" in latex
    assert r"good & 60.00 (1) & 61.00 (1) \\" in latex  # a single seed is not the best
    assert "textbf" not in latex
    assert r"knn\_top1" in latex
    assert latex.count(r"\label{tab:y}") == latex.count(r"\toprule") == 1
    (caption,) = re.findall(r"\\caption\{(.*)\}", latex)
    assert len(caption) < 120
    assert main([str(tmp_path), "--sort", "nope"]) == 2
    assert "no run has nope, known are knn_top1, linear_top1: try knn_top1" in capsys.readouterr().err


ESCAPE, TITLE = "\x1b[31mred", "\x1b]0;owned\x07"


@pytest.mark.parametrize("words", [[], ["--format=csv"], ["--format=latex"]])
def test_names_of_strangers_send_nothing_to_the_terminal(words, tmp_path, capsys):
    for name in (TITLE, "again"):  # the second is left out, and named
        save_run(tmp_path / name, data="d", knn=1.0, device=ESCAPE, loss={"_target_": f"x.{ESCAPE}", "k": "\n| forged"})
    write_finished(
        tmp_path / "c", config={"dataset": {"_target_": "x.y", "name": ESCAPE}}, environment={"data": "e"},
        test={"linear_top1": 1.0, f"{TITLE}\n": 1.0},
    )  # fmt: skip
    assert main([*words, str(tmp_path)]) == 0
    said = "".join(capsys.readouterr())
    assert all(letter.isprintable() for letter in said.replace("\n", ""))
    assert "forged" not in {line.strip("| ") for line in said.splitlines()}


def test_text_shows_what_a_terminal_would_obey():
    assert printable("a\x1b\n\t\u202eb é ±") == r"a\x1b\n\t\u202eb é ±"
    assert printable(os.fsdecode(b"\xff.png")) == r"\xff.png"
    assert printable("\ud800") == r"\ud800"  # JSON may hold one
