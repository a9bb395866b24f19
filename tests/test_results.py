"""What is committed under docs/results follows from its records."""

import json
from statistics import mean

import pytest

from contrastive.report.committed import check_folder
from contrastive.report.rows import key_of
from contrastive.report.table import read_table
from tests.helpers import ROOT

RESULTS = ROOT / "docs/results"


def test_every_committed_table_is_what_its_record_gives():
    checked, wrong = check_folder(RESULTS)
    assert checked >= 3
    assert not wrong


@pytest.mark.parametrize(("search", "tuned", "per_row"), [
    ("digits_search", "digits_tuned", 3), ("debiased_search", "debiased_tuned", 1)
])  # fmt: skip
def test_the_tuned_rows_are_the_best_points_of_the_search(search, tuned, per_row):
    best: dict[str, tuple[float, dict[str, str]]] = {}
    for row in json.loads((RESULTS / f"{search}.json").read_text())["rows"]:
        words = {key_of(word): word.partition("=")[2] for word in row["overrides"]}
        figure = mean(run["val"]["knn_top1"] for run in row["runs"])
        if figure > best.get(words["loss"], (0.0, {}))[0]:
            best[words["loss"]] = figure, words
    rows = [row for row in read_table(ROOT / f"configs/table/{tuned}.yaml").rows if "tuned" in row.name]
    assert len({row.name for row in rows}) == len(best) * per_row == 3 * per_row
    for row in rows:
        words = {key_of(word): word.partition("=")[2] for word in row.words}
        _, chosen = best[words["loss"]]
        assert float(words["optimizer.lr"]) == float(chosen["optimizer.lr"])
        assert float(words["temperature"]) == float(chosen["temperature"])
