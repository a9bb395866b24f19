"""What is committed under studies/ follows from its records."""

import json
import re
import runpy
import shutil
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from statistics import mean
from typing import Any

import pytest
from tables.claims import judge_claims
from tables.kept import check_tables, reword, study_records, table_of
from tables.page import write_pages
from tables.spec import STUDIES, read_table, table_paths

from contrastive.config.identity import key_of
from contrastive.errors import ConfigError
from contrastive.study.record import read_compared
from contrastive.study.render.files import RECORD, check_folder

LOSS_OF = {"debiased_positive": "nt_xent", "dcl_cifar10": "debiased_neg"}  # the recipes whose loss rows may leave out
RECORDS = study_records()


def test_every_committed_table_is_what_its_record_gives():
    (n_tables, wrong), (n_compared, broken) = check_tables([STUDIES]), check_folder(STUDIES, unsealed=True)
    assert n_tables + n_compared == len(RECORDS)
    assert min(n_tables, n_compared) > 3
    assert not wrong + broken


def test_a_figure_that_was_changed_is_found(tmp_path):
    record = table_of(RECORDS["supervised"])
    write_pages(record, tmp_path / "t")
    (tmp_path / "other.json").write_text("[1, 2]")
    assert check_tables([tmp_path]) == (1, [])
    stored = json.loads((tmp_path / "t.json").read_text())
    stored["rows"][0]["runs"][0]["test"]["linear_top1"] += 1
    stored["rows"][1]["runs"][0]["test"]["linear_top1"] += 1
    (tmp_path / "t.json").write_text(json.dumps(stored))
    assert check_tables([tmp_path])[1]


def test_every_archived_record_has_one_row_in_the_page_of_the_archive():
    rows = re.findall(r'<a id="(\w+)"', (STUDIES / "archive/README.md").read_text())
    assert {name for name, path in RECORDS.items() if path.parent.name == "archive"} <= set(rows)
    assert len(rows) == len(set(rows)) and not any((STUDIES / name).exists() for name in rows)


@pytest.mark.parametrize("damaged", [b"", RECORDS["gain"].read_bytes()[:-100], b"x" * 100])
def test_a_damaged_record_of_the_archive_is_refused_in_a_sentence(tmp_path, damaged):
    (tmp_path / "gain.json.xz").write_bytes(damaged)
    with pytest.raises(ConfigError, match="try another copy"):
        read_compared(tmp_path / "gain.json.xz")


@pytest.mark.parametrize(
    ("name", "keys", "value", "place"),
    [
        ("supervised", ["claims"], None, "claims"),
        ("supervised", ["rows", 0, "runs"], 3, "rows[0].runs"),
        ("fair_search_long", ["comparison", "failed"], 3, "comparison.failed"),
        ("over_datasets", ["datasets"], {"digits": {}}, "datasets.digits.claims"),
    ],
)
def test_a_record_is_of_its_type(tmp_path, name, keys, value, place):
    record = read_compared(RECORDS[name])
    *path, last = keys
    reduce(getitem, path, record)[last] = value
    (tmp_path / "t.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=re.escape(f"t.json is damaged or of an older version ({place}): try ")):
        read_compared(tmp_path / "t.json")


def test_a_study_has_a_page_and_a_record_or_plan_of_its_name():
    tables = table_paths()
    for folder in (path for path in STUDIES.iterdir() if path.is_dir() and path.name != "archive"):
        assert (folder / "README.md").exists(), folder
        if folder.name in RECORDS:
            record = read_compared(RECORDS[folder.name])
            part = next(iter(record.get("datasets", {"": record}).values()))
            is_sealed = bool(part.get("comparison", {}).get("sealed"))  # its name ends in the hash of what it is of
            assert is_sealed or record["table"] == folder.name
        if (folder / "plan.yaml").exists():
            assert tables[folder.name] == folder / "plan.yaml"


KNN, BOTH = ["knn_top1"], ["knn_top1", "linear_top1"]
SEARCHED = {"temperature", "optimizer.lr", "tau_plus"}  # and options of the loss


def words(row) -> dict[str, str]:
    return {key_of(word): word.partition("=")[2] for word in row["overrides"]}


def read_rows(table: str) -> list[dict[str, Any]]:
    return [row for row in read_compared(RECORDS[table])["rows"] if row["runs"]]


def point(row) -> tuple[tuple[str, float], ...]:
    """What a search chooses; the same however a number is written."""
    of_loss = {key: value for key, value in words(row).items() if key in SEARCHED or key.startswith("loss.")}
    return tuple(sorted((key, float(value)) for key, value in of_loss.items()))


@pytest.mark.parametrize(("search", "tuned", "metrics", "n_rows"), [
    ("debiased_search", "debiased_tuned", KNN, 3), ("objectives_cifar10_search", "objectives_cifar10", BOTH, 38),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_the_tuned_rows_are_the_best_points_of_the_search(search, tuned, metrics, n_rows):
    """By the mean over runs of the mean of the metrics."""
    figures: dict[Any, dict[Any, float]] = {}
    for row in read_rows(search):
        method = words(row)["loss"], "loss.push" in words(row)
        figures.setdefault(method, {})[point(row)] = mean(run["val"][m] for run in row["runs"] for m in metrics)
    rows = read_rows(tuned)
    rows = [row for row in rows if "tuned" in row["name"]] or rows
    assert len({row["name"] for row in rows}) == n_rows
    for row in rows:
        found = figures[words(row)["loss"], "loss.push" in words(row)]
        chosen = tuple(pair for pair in point(row) if any(pair[0] == key for key, _ in next(iter(found))))
        assert found[chosen] == max(found.values()), row["name"]


def debiased_negatives_and_nt_xent() -> Iterator[tuple[dict[str, Any], str, str]]:
    """(record, row, row) that differ in the loss alone, or have each the best point of its search; tau_plus 0 is
    NT-Xent."""
    own = SEARCHED | {"loss"}
    whole = [record for path in RECORDS.values() if (record := read_compared(path)) is not None]
    for record in (part for one in whole for part in one.get("datasets", {"": one}).values()):
        if "knn_top1" not in record["metrics"]:
            continue
        contestants = record.get("comparison", {}).get("plan", {}).get("contestants", [])
        searched = {one["name"]: words({"overrides": one["words"]}) | one["ranges"] for one in contestants}
        typed = [(row, searched.get(row["name"], {}) | words(row)) for row in record["rows"] if row["runs"]]
        named = [(row, {"loss": LOSS_OF.get(own.get("experiment"), "")} | own) for row, own in typed]
        rows = [(row, own) for row, own in named if own["loss"] in ("nt_xent", "debiased_neg")]
        for debiased, changed in rows:
            for plain, kept in rows:
                is_plain = kept["loss"] == "nt_xent" or float(kept.get("tau_plus", "1")) == 0
                others = [{key: value for key, value in one.items() if key not in own} for one in (changed, kept)]
                states = [re.search("tuned|as it comes", row["name"]) is None for row in (debiased, plain)]
                same = others[0] == others[1] and states[0] == states[1]
                if is_plain and same and changed["loss"] == "debiased_neg" and float(changed.get("tau_plus", "1")) > 0:
                    yield record, debiased["name"], plain["name"]


def test_the_table_of_lightlys_own_loop_is_that_of_both_records():
    page, whole = STUDIES / "peer_loop/README.md", json.loads((STUDIES / "peer_loop/lightly.json").read_text())
    (ours,) = read_rows("peer_loop")
    loops = {
        "lightly's own loop": [[*run["knn_top1"].values()] for run in whole["runs"]],
        "our program": [run["curves"]["test/knn_top1"]["value"] for run in ours["runs"]],
    }
    for name, curves in loops.items():
        means = [f"{mean(values):.1f}" for values in zip(*curves, strict=True)]
        row = [name, *means, ", ".join(f"{curve[-1]:.1f}" for curve in curves)]
        assert f"| {' | '.join(row)} |" in page.read_text()


@pytest.mark.parametrize("script", ["widths/forecast.py", "over_datasets/progress.py"])
def test_tables_of_a_study_are_those_that_its_script_makes(script):
    pytest.importorskip("scipy", reason="an extra: try pip install '.[report]'")
    rows = runpy.run_path(str(STUDIES / script))["table"]()
    assert rows and all(row in (STUDIES / script).with_name("README.md").read_text() for row in rows)


@pytest.mark.slow
def test_the_count_of_comparisons_of_debiased_negatives():
    """README: 62 intervals, three above 0, four below; runs in two tables count once."""
    verdicts = {}
    for record, better, worse in debiased_negatives_and_nt_xent():
        claim = {"better": better, "worse": worse, "metric": "knn_top1", "gap": 0.0, "source": ""}
        (judged,) = judge_claims({**record, "claims": [claim]})
        if judged["low"] is not None:
            runs = {row["name"]: sorted(run["test"]["knn_top1"] for run in row["runs"]) for row in record["rows"]}
            verdicts[str([runs[better], runs[worse]])] = (judged["low"] > 0) - (judged["high"] < 0)
    signs = [*verdicts.values()]
    assert (len(signs), signs.count(1), signs.count(-1)) == (62, 3, 4)


@pytest.mark.parametrize("path", sorted(STUDIES.glob(f"*/{RECORD}*")), ids=lambda path: path.parent.name)
def test_committed_tables_say_what_their_yaml_says(path):
    if (record := table_of(path)) is None:  # a comparison, which is made from typed words
        return
    table = read_table(table_paths()[record["table"]], preset=record["preset"], extra=tuple(record["extra"]))
    said = {"note": table.note, "claims": list(table.claims)}
    assert {key: record[key] for key in said} == said, "try python scripts/reproduce_table.py --reword studies"


def test_words_of_a_committed_table_are_taken_from_its_yaml(tmp_path):
    path = shutil.copytree(STUDIES / "biased_digits", tmp_path / "biased_digits") / "record.json"
    before = json.loads(path.read_text())
    path.write_text(json.dumps({**before, "note": "Old.", "claims": before["claims"][1:]}))
    assert reword([tmp_path]) == 0
    assert json.loads(path.read_text()) == before
    assert check_tables([tmp_path]) == (1, [])
