"""contrastive.runs: finished runs as a pandas table; and their curves, small enough to be committed."""

import copy
import json

import pytest

import contrastive
from contrastive import ConfigError
from contrastive.report import collect, curves
from contrastive.report.facts import best_rows
from contrastive.report.frame import read_frame
from tests.helpers import ROOT, write_finished
from tests.report.test_report_groups import BASE, FAIRKL


def test_a_line_for_each_run_with_settings_figures_and_path(tmp_path):
    for name, temperature in (("warm", 0.5), ("cold", 0.1)):
        config = copy.deepcopy(BASE)
        config["temperature"] = config["loss"]["temperature"] = temperature
        for seed in range(3):
            test, val = {"knn_top1": 50.0 + seed + 10 * temperature}, {"knn_top1": float(seed)}
            path, own = tmp_path / name / str(seed), config | {"seed": seed}
            write_finished(path, config=own, environment={}, test=test, val=val)
    table = contrastive.runs(tmp_path)
    names = ["dataset", "name", "loss", "seed", "loss.temperature", "temperature", "knn_top1", "val/knn_top1", "path"]
    assert list(table) == names
    assert len(table) == 6
    assert table.groupby("temperature")["knn_top1"].mean().to_dict() == {0.1: 52.0, 0.5: 56.0}
    assert table.groupby("name")["val/knn_top1"].std().tolist() == [1.0, 1.0]
    line = table[(table.temperature == 0.1) & (table.seed == 2)].iloc[0]
    assert (line.path, line.loss, line.dataset) == (str(tmp_path / "cold/2"), "nt_xent", "digits")


def test_components_are_options_and_what_a_run_lacks_is_missing(tmp_path):
    for name, regularizer, metric in (("a", None, "knn_top1"), ("b", FAIRKL, "rankme")):
        config = BASE | {"regularizer": regularizer}
        write_finished(tmp_path / name, config=config, environment={}, test={metric: 50.0})
    (tmp_path / "c").mkdir()
    (tmp_path / "c/result.json").write_text("{}")
    with pytest.warns(UserWarning, match="the run is not counted"):
        table = contrastive.runs(tmp_path)
    assert table["regularizer"].fillna("none").tolist() == ["none", "fairkl"]
    assert table["knn_top1"].isna().tolist() == [False, True]
    assert list(table)[-1] == "path"


def test_a_folder_without_runs_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="no finished run under"):
        contrastive.runs(tmp_path)
    with pytest.raises(ConfigError, match="is not a folder: try outputs"):
        contrastive.runs(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("metric", "rows", "best"),
    [
        ("alignment_uniformity_alignment", [("A", 1, 0.3, 3), ("B", 1, 0.1, 3)], "b"),  # which falls
        ("knn_top1", [("A", 1, 0.3, 3), ("B", 1, 0.1, 3)], "a"),
        ("knn_top1", [("A", 1, 50.0, 3), ("B", 1, 60.0, 3), ("C", 1, 70.0, 2), ("D", 40, 95.0, 3)], "b"),
    ],
)
def test_the_best_has_three_seeds_and_trained_no_longer(tmp_path, metric, rows, best):
    for loss, epochs, value, n_seeds in rows:
        for seed in range(n_seeds):
            config = {"loss": {"_target_": f"x.{loss}"}, "epochs": epochs, "seed": seed}
            write_finished(tmp_path / loss / str(seed), config=config, environment={}, test={metric: value})
    (section,) = read_frame([tmp_path]).sections.values()
    names = list(section.rows)
    assert [names[i].split()[0] for i in best_rows(section, metric, names)] == [best]


COMMITTED = ROOT / "studies/debiased_tuned/record.json"


def test_the_record_of_a_table_is_read_as_its_runs(tmp_path):
    record = json.loads(COMMITTED.read_text())
    write_finished(tmp_path, config={}, environment={}, test={"knn_top1": 50.0})
    table = contrastive.runs(COMMITTED, tmp_path)
    own = table[table["dataset"] == record["title"]]
    assert len(table) == len(own) + 1
    assert own["knn_top1"].tolist() == [run["test"]["knn_top1"] for row in record["rows"] for run in row["runs"]]
    assert own["name"].tolist() == [row["name"] for row in record["rows"] for _ in row["runs"]]
    assert set(own["loss"]) == {"nt_xent", "debiased_pos", "debiased_neg"}
    assert set(own["path"]) == {str(COMMITTED)}
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"other\.json holds no table"):
        contrastive.runs(tmp_path / "other.json")


def test_two_records_of_one_title_share_no_row(tmp_path):
    """As those of a table and of its preset."""
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        path.write_text((ROOT / "studies/supervised/record.json").read_text())
    frame = read_frame([*paths, paths[0]])
    assert len(frame.sections) == 2
    assert {len(part.rows[name]) for part in frame.sections.values() for name in part.rows} == {3}


def test_thinned_curves_keep_both_ends_and_four_digits():
    points = [(float(i), 1 / (i + 1)) for i in range(1000)]
    thinned = curves.thin(points)
    assert len(thinned["epoch"]) == len(set(thinned["epoch"])) == 20
    assert (thinned["epoch"][0], thinned["epoch"][-1]) == (0.0, 999.0)
    assert thinned["value"][-1] == 0.001
    assert curves.thin(points[:3])["epoch"] == [0.0, 1.0, 2.0]
    assert curves.thin(points[:1])["epoch"] == [0.0]


def test_the_record_holds_the_tables_metrics_and_the_diagnostics(tmp_path):
    point = {"test/knn_top1": 1.0, "test/knn_top5": 2.0, "audit/linear/top1": 3.0, "train/loss": 4.0, "time/x": 5.0}
    lines = [{"step": i, "epoch": i, **point} for i in range(2)]
    lines.append({"step": 2, "epoch": 2, "train/loss": float("nan")})  # which no chart could draw
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    names = collect.thinned_curves(tmp_path, ["audit.linear.top1"])
    assert set(names) == {"test/knn_top1", "audit/linear/top1", "train/loss"}
    assert names["train/loss"]["value"] == [4.0, 4.0]
    assert collect.logged_name("knn_top5") == "test/knn_top5"
    assert collect.thinned_curves(tmp_path / "none", ["knn_top1"]) == {}
