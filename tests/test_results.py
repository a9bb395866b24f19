"""What is committed under docs/results follows from its records."""

import json
import re
from statistics import mean

import pytest

from contrastive.tables.page import check_folder
from contrastive.tables.spec import key_of, read_table
from tests.helpers import ROOT

RESULTS = ROOT / "docs/results"


def test_every_committed_table_is_what_its_record_gives():
    checked, wrong = check_folder(RESULTS)
    assert checked >= 3
    assert not wrong


def test_results_page_lists_every_committed_table():
    listed = re.search(r"^RESULTS = (.*?)\n\n", (ROOT / "Makefile").read_text(), re.DOTALL | re.MULTILINE)
    names = re.findall(r"\b(?!addprefix|addsuffix|docs|results|json)[a-z]\w+", listed[1])
    assert sorted(names) == sorted(path.stem for path in RESULTS.glob("*.json") if not path.stem.startswith("bench"))


@pytest.mark.parametrize(("search", "tuned", "n_rows"), [
    ("digits_search", "digits_tuned", 9), ("digits_search", "digits_long", 2), ("debiased_search", "debiased_tuned", 3)
])  # fmt: skip
def test_the_tuned_rows_are_the_best_points_of_the_search(search, tuned, n_rows):
    best: dict[str, tuple[float, dict[str, str]]] = {}
    for row in json.loads((RESULTS / f"{search}.json").read_text())["rows"]:
        words = {key_of(word): word.partition("=")[2] for word in row["overrides"]}
        figure = mean(run["val"]["knn_top1"] for run in row["runs"])
        if figure > best.get(words["loss"], (0.0, {}))[0]:
            best[words["loss"]] = figure, words
    rows = [row for row in read_table(ROOT / f"configs/table/{tuned}.yaml").rows if "tuned" in row.name]
    assert len({row.name for row in rows}) == n_rows
    for row in rows:
        words = {key_of(word): word.partition("=")[2] for word in row.words}
        _, chosen = best[words["loss"]]
        assert float(words["optimizer.lr"]) == float(chosen["optimizer.lr"])
        assert float(words["temperature"]) == float(chosen["temperature"])
