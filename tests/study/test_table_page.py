"""A table's page says what was run, shows ours beside the published figures, and can be recomputed from its JSON."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from contrastive.study.collect import table_record
from contrastive.study.record import Claim
from contrastive.study.render.claims import claims_grid
from contrastive.study.render.files import check_folder, table_csv, table_latex, write_pages
from contrastive.study.render.latex import escape
from contrastive.study.render.markdown import page, protocol
from contrastive.study.spec import Row, Table, folder_name
from tests.helpers import write_finished

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
PROTOCOL = {"knn": "cosine", "bias_audit": "audit", "linear": "L-BFGS", "sgd_probe": "SGD"}


def row(name: str, **values: Any) -> Row:
    return Row(**{"name": name, "overrides": ("loss=x",), "published": {}, "source": "", "minutes": None, **values})


def table(**values: Any) -> Table:
    rows = (
        row("A, b", published={"knn_top1": "74.3 ± 0.2"}, source="Table 1"),
        row("C"),
        row("Quoted", overrides=(), published={"knn_top1": "22.7"}),
    )
    plain = {
        "name": "t", "title": "Title", "note": "Note.", "preset": "paper", "extra": (), "seeds": (0, 1),
        "metrics": {"knn_top1": "kNN"}, "rows": rows,
    }  # fmt: skip
    return Table(**{**plain, **values})


def write_run(base: Path, row: Row, result: dict[str, Any], *, seed: int = 0) -> None:
    time = {"seconds": 90, "finished": "2026-01-02T03:04:05+00:00"}
    path = base / folder_name(row.name) / f"seed={seed}"
    write_finished(path, config=CONFIG, environment=ENVIRONMENT, protocol=PROTOCOL, time=time, **result)


@pytest.fixture
def record(tmp_path: Path) -> dict[str, Any]:
    spec = table()
    for seed, value in ((0, 70.0), (1, 72.0)):
        write_run(tmp_path, spec.rows[0], {"test": {"knn_top1": value}}, seed=seed)
    return table_record(spec, tmp_path)


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


def test_ours_stand_beside_the_published_with_the_difference(record):
    rows = cells(page(record))
    assert rows[0] == ["method", "kNN", "published kNN", "difference", "source", "minutes"]
    assert rows[2] == ["A, b", "71.00 ± 1.41 (2)", "74.3 ± 0.2", "-3.30", "Table 1", "1.5"]
    assert rows[3] == ["C", "-", "", "", "", ""]
    assert rows[4] == ["Quoted", "", "22.7", "", "", ""]


def test_the_page_states_what_was_run(record):
    text = page(record)
    for part in (
        "| dataset | digits size=8 |\n", "| encoder | ResNet width=2 |\n", "| epochs | 3 |\n", "| batch_size | 64 |\n",
        "2 runs on 2026-01-02", "3.0 minutes in all",
        "CPU X (1 thread, fp32), Python 3.11, torch 2.15, commit 0123456789ab",
    ):  # fmt: skip
        assert part in text
    assert "/data" not in text
    assert "- knn: cosine" in text
    assert "L-BFGS" not in text


def test_the_page_states_false_positives(record, tmp_path):
    assert "noise_frac" not in page(record)
    result = {"test": {"knn_top1": 60.0}, "time": {"seconds": 90}, "protocol": PROTOCOL}
    write_finished(tmp_path / "c/seed=0", config={**CONFIG, "noise_frac": 0.3}, environment=ENVIRONMENT, **result)
    assert "| noise_frac | none, 0.3 |\n" in page(table_record(table(), tmp_path))


def test_another_setting_is_not_compared_with_the_paper(tmp_path):
    for name, values in (("changed", {"extra": ("epochs=3", "device=cpu")}), ("small", {"preset": "small"})):
        spec = table(**values)
        write_run(tmp_path / name, spec.rows[0], {"test": {"knn_top1": 70.0}})
        text = page(table_record(spec, tmp_path / name))
        assert "difference" not in text
        assert "74.3" in text
    assert "(small preset, not the published setting)" in text
    assert "| changed in every row | epochs=3 |" in page(table_record(table(extra=("epochs=3",)), tmp_path))


def test_a_figure_selected_on_test_says_so(tmp_path):
    spec = table(metrics={"sgd_probe_best_test_top1": "SGD probe", "audit.reported.accuracy": "reported"})
    reported = {"read_out": "online_probe_best_test", "metric": "top1", "accuracy": 5.0}
    write_run(tmp_path, spec.rows[0], {"test": {"sgd_probe_best_test_top1": 9}, "audit": {"reported": reported}})
    text = page(table_record(spec, tmp_path))
    assert "SGD probe (best test epoch, as published)" in text
    assert "online_probe_best_test, top1 (best test epoch, as published)" in text
    assert cells(text)[2][1:3] == ["9.00 (1)", "5.00 (1), best test epoch"]
    assert "- sgd_probe: SGD" in text
    assert "- bias_audit: audit" in text


def test_a_claim_says_which_of_its_rows_was_selected_on_test(tmp_path):
    a, c, _ = table().rows
    claims = [
        Claim(better=a.name, worse=c.name, metric=metric, gap=0.0, source="us")
        for metric in ("audit.reported.accuracy", "sgd_probe_best_test_top1")
    ]
    spec = table(metrics={claim["metric"]: claim["metric"] for claim in claims}, claims=tuple(claims))
    for row, read_out in ((a, "online_probe_best_test"), (c, "classifier")):
        reported = {"read_out": read_out, "metric": "top1", "accuracy": 5.0}
        write_run(tmp_path, row, {"audit": {"reported": reported}})
    _, first, second = claims_grid(table_record(spec, tmp_path))
    assert first[3] == "audit.reported.accuracy (A, b: best test epoch)"
    assert second[3] == "sgd_probe_best_test_top1 (best test epoch)"


def test_a_figure_by_class_comes_from_class_audit_and_its_probe():
    known = {"linear": "a regression", "class_audit": "by class", "bias_audit": "by bias", "knn": "neighbors"}
    found = protocol({"protocols": [known]}, "audit.by_class.linear.worst_top1")
    assert found == [("linear", "a regression"), ("class_audit", "by class")]


def test_chosen_evaluators_get_columns(tmp_path):
    spec = table(extra=("evaluator=[knn,mine]",))
    write_run(tmp_path, spec.rows[0], {"test": {"knn_top1": 1.0, "mine": 2.0}})
    assert cells(page(table_record(spec, tmp_path)))[0][:3] == ["method", "kNN", "mine"]


def test_csv_json_and_latex_hold_the_same_figures(record):
    first, _, quoted = csv.DictReader(io.StringIO(table_csv(record)))
    assert (first["knn_top1"], first["knn_top1_std"], first["knn_top1_n"]) == ("71.0000", "1.4142", "2")
    assert (first["published knn_top1"], first["source"], first["overrides"]) == ("74.3 ± 0.2", "Table 1", "loss=x")
    assert (quoted["runs"], quoted["knn_top1"], quoted["published knn_top1"]) == ("Quoted", "", "22.7")
    latex = table_latex(record)
    assert r"A, b & 71.00 $\pm$ 1.41 (2) & 74.3 $\pm$ 0.2 & $-$3.30 \\" in latex
    assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == 1
    assert re.findall(r"\\begin\{(\w+)\}", latex) == re.findall(r"\\end\{(\w+)\}", latex)[::-1]  # each is closed
    assert escape("a & b_c 5 %") == r"a \& b\_c 5 \%"  # what would end a cell


def test_a_table_without_runs_can_be_written(tmp_path):
    assert "| runs | none is finished |" in write_pages(table_record(table(), tmp_path), tmp_path / "t")


def test_a_committed_table_is_recomputed_from_its_json(record, tmp_path):
    folder = tmp_path / "results"
    write_pages(record, folder / "t")
    assert check_folder(folder) == (1, [])
    text = (folder / "t.md").read_text()
    (folder / "t.md").write_text(f"# More\n\n{text}\nWords around it.\n")
    (folder / "other.json").write_text("[1, 2]")
    assert check_folder(folder) == (1, [])
    (folder / "t.md").write_text(text.replace("71.00", "76.00"))
    checked, (wrong,) = check_folder(folder)
    assert checked == 1
    assert "t.md is not what t.json gives" in wrong
    write_pages(record, folder / "t")
    stored = json.loads((folder / "t.json").read_text())
    stored["rows"][0]["runs"][0]["test"]["knn_top1"] = 99
    (folder / "t.json").write_text(json.dumps(stored))
    assert len(check_folder(folder)[1]) == 1
