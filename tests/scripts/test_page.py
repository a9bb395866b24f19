"""A table's page says what was run, shows ours beside the published figures, and is the same in every format."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from tables.claims import claims_grid, judge_claims
from tables.page import page, table_csv, table_latex, table_record, write_pages
from tables.spec import Row, Table, folder_name
from tables.sweeps import read_sweeps

from contrastive.report.grid import escape
from contrastive.report.record import Claim
from tests.helpers import write_finished
from tests.report.test_judging import record as of_two_rows

ENVIRONMENT = {
    "commit": "0123456789abcdef", "dirty": False, "data": "d" * 64, "device": "CPU X",
    "precision": "fp32", "threads": 1, "python": "3.11", "torch": "2.15",
}  # fmt: skip
CONFIG = {
    "dataset": {"_target_": "a.b.digits", "root": "/data", "size": 8},
    "encoder": {"_target_": "a.ResNet", "width": 2, "stem": None},
    "optimizer": {"_target_": "torch.optim.Adam", "lr": 0.1},
    "epochs": 3, "batch_size": 64, "n_views": 2,
}  # fmt: skip
PROTOCOL = {"knn": "cosine", "bias_audit": "audit", "linear": "L-BFGS", "online_probe": "Adam"}
ROWS = (
    Row(name="A, b", overrides=("loss=x",), published={"knn_top1": "74.3 ± 0.2"}, source="Table 1"),
    Row(name="C", overrides=("loss=x",)),
    Row(name="Quoted", published={"knn_top1": "22.7"}),
)


def table(**values: Any) -> Table:
    plain = {
        "name": "t", "title": "Title", "note": "Note.", "preset": "paper", "extra": (), "seeds": (0, 1),
        "metrics": {"knn_top1": "kNN"}, "rows": ROWS,
    }  # fmt: skip
    return Table(**{**plain, **values})


def write_run(base: Path, row: Row, result: dict[str, Any], *, seed: int = 0, **config: Any) -> None:
    time = {"seconds": 90, "finished": "2026-01-02T03:04:05+00:00"}
    path = base / folder_name(row.name) / f"seed={seed}"
    write_finished(path, config=CONFIG | config, environment=ENVIRONMENT, protocol=PROTOCOL, time=time, **result)


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    for seed, value in ((0, 70.0), (1, 72.0)):
        write_run(tmp_path, ROWS[0], {"test": {"knn_top1": value}}, seed=seed)
    return table_record(table(), tmp_path)


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


def test_ours_stand_beside_the_published_with_the_difference(record):
    rows = cells(page(record))
    assert rows[0] == ["method", "kNN", "published kNN", "difference", "source", "minutes"]
    assert rows[2] == ["A, b", "71.00 ± 1.41 (2)", "74.3 ± 0.2", "-3.30", "Table 1", "1.5"]
    assert rows[3] == ["C", "-", "", "", "", ""]
    assert rows[4] == ["Quoted", "", "22.7", "", "", ""]


def test_the_page_states_what_was_run(record, tmp_path):
    text = page(record)
    for part in (
        "| dataset | digits size=8 |\n", "| encoder | ResNet width=2 |\n", "| epochs | 3 |\n", "| batch_size | 64 |\n",
        "2 runs on 2026-01-02", "3.0 minutes of training and evaluation, without starts", "- knn: cosine",
        "Not run, or broken down: C. Means and claims are of the others.",
        "CPU X (1 thread, fp32), Python 3.11, torch 2.15, commit 0123456789ab",
    ):  # fmt: skip
        assert part in text
    assert not any(word in text for word in ("/data", "L-BFGS", "noise_frac"))
    write_run(tmp_path, ROWS[1], {"test": {"knn_top1": 60.0}}, noise_frac=0.3)
    assert "| noise_frac | none, 0.3 |\n" in page(table_record(table(), tmp_path))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"extra": ("epochs=3", "device=cpu")}, "| changed in every row | epochs=3 |"),
        ({"preset": "small"}, "(small preset, not the published setting)"),
    ],
)
def test_another_setting_is_not_compared_with_the_paper(record, tmp_path, values, said):
    text = page(table_record(table(**values), tmp_path))
    assert said in text and "74.3" in text
    assert "difference" not in text


def test_figures_and_claims_that_were_selected_on_test_say_so(tmp_path):
    metrics = {"online_probe_best_test_top1": "online probe", "audit.reported.accuracy": "reported"}
    claims = tuple(Claim(better="A, b", worse="C", metric=metric, gap=0.0, source="us") for metric in metrics)
    for row, read_out in ((ROWS[0], "online_probe_best_test"), (ROWS[1], "classifier")):
        reported = {"read_out": read_out, "metric": "top1", "accuracy": 5.0}
        write_run(tmp_path, row, {"test": {"online_probe_best_test_top1": 9}, "audit": {"reported": reported}})
    text = page(found := table_record(table(metrics=metrics, claims=claims), tmp_path))
    assert "online probe (best test epoch, as published)" in text
    assert "online_probe_best_test, top1 (best test epoch, as published)" in text
    assert [line[1:3] for line in cells(text)[2:4]] == [
        ["9.00 (1)", "5.00 (1), best test epoch"],
        ["9.00 (1)", "5.00 (1)"],
    ]
    assert "- online_probe: Adam" in text and "- bias_audit: audit" in text
    _, first, second = claims_grid(found, judge_claims(found)).cells
    assert (first[3], second[3]) == ("online probe (best test epoch)", "reported (A, b: best test epoch)")


def test_chosen_evaluators_get_columns(tmp_path):
    write_run(tmp_path, ROWS[0], {"test": {"knn_top1": 1.0, "mine": 2.0}})
    text = page(table_record(table(extra=("evaluator=[knn,mine]",)), tmp_path))
    assert cells(text)[0][:3] == ["method", "kNN", "mine"]


def test_csv_and_latex_hold_the_same_figures(record):
    first, _, quoted = csv.DictReader(io.StringIO(table_csv(record)))
    assert (first["knn_top1"], first["knn_top1_std"], first["knn_top1_n"]) == ("71.0000", "1.4142", "2")
    assert (first["published knn_top1"], first["source"], first["overrides"]) == ("74.3 ± 0.2", "Table 1", "loss=x")
    assert (quoted["method"], quoted["knn_top1"], quoted["published knn_top1"]) == ("Quoted", "", "22.7")
    latex = table_latex(record)
    assert r"A, b & 71.00 $\pm$ 1.41 (2) & 74.3 $\pm$ 0.2 & $-$3.30 \\" in latex
    assert re.findall(r"\\begin\{(\w+)\}", latex) == re.findall(r"\\end\{(\w+)\}", latex)[::-1]  # each is closed
    assert escape("a & b_c 5 %") == r"a \& b\_c 5 \%"  # what would end a cell


def test_a_table_without_runs_can_be_written(tmp_path):
    assert "| runs | none is finished |" in write_pages(table_record(table(), tmp_path), tmp_path / "t")


def test_a_sweep_needs_three_numbers():
    rows = [
        {"name": f"A, {point}", "point": point, "runs": [{"test": {"knn": x + s}}, {"test": {"knn": x + s + 2.0}}]}
        for s in (0, 10) for x in (0.1, 0.2, 0.3) for point in [f"tau {x}, lr {s}"]
    ]  # fmt: skip
    entries = read_sweeps({"rows": rows, "metrics": {"knn": "kNN"}})
    assert {entry["setting"] for entry in entries} == {"tau"}  # lr has two values
    assert [(e["x"], e["at"], e["mean"], e["n"]) for e in entries][:2] == [(0.1, "lr 0", 1.1, 2), (0.2, "lr 0", 1.2, 2)]
    assert read_sweeps({"rows": rows[:2], "metrics": {"knn": "kNN"}}) == []


def grid(one: dict[str, Any]) -> list[list[str]]:
    return claims_grid(one, judge_claims(one)).cells


def test_a_line_names_what_both_rows_share_once_and_has_the_published_effect():
    head, line = grid(of_two_rows([10.0, 50.0, 90.0], [9.0, 49.1, 89.0], gap=0.5))
    assert head == [
        "claim", "verdict", "effect [95 % interval]", "metric", "n", "over", "p (Holm)", "gap", "published", "source",
    ]  # fmt: skip
    assert line[:2] == ["A > B (x)", "better"]
    assert line[2].startswith("+0.97 [+0.82, +1.11]")
    assert (line[3], line[7:]) == ("kNN", ["0.5", "+2.50", "paper"])


def test_of_another_setting_the_published_effect_says_so():
    small = {**of_two_rows([10.0, 50.0], [9.0, 49.1]), "preset": "small"}
    assert "published (other setting)" in grid(small)[0]
    assert "gap" not in grid(small)[0]
