"""What is committed under docs/results follows from its records."""

import json
import re
import runpy
import shutil
from dataclasses import asdict
from statistics import mean

import pytest

from contrastive.tables.page import check_folder, read_table_json
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
        words = {key_of(word): word.partition("=")[2] for word in row.overrides}
        _, chosen = best[words["loss"]]
        assert float(words["optimizer.lr"]) == float(chosen["optimizer.lr"])
        assert float(words["temperature"]) == float(chosen["temperature"])


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_committed_tables_say_what_their_yaml_says(path):
    record = read_table_json(path)
    if record is None:
        return
    described = [ROOT / "configs/table", *(ROOT / "examples").glob("*/table")]
    (yaml,) = (found for folder in described if (found := folder / f"{record['table']}.yaml").exists())
    table = read_table(yaml, preset=record["preset"], extra=tuple(record["extra"]))
    said = {"note": table.note, "claims": [asdict(claim) for claim in table.claims]}
    assert {key: record[key] for key in said} == said, "try python scripts/reword_tables.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["biased_digits", "biased_mnist"])
def test_rows_compose_to_the_precision_of_their_record(composed, name):
    """Their experiments train in float32, as the authors; the committed runs did not."""
    record = read_table_json(RESULTS / f"{name}.json")
    assert {environment["precision"] for environment in record["environments"]} == {"bf16"}  # what auto gave there
    rows = read_table(ROOT / f"configs/table/{name}.yaml", preset=record["preset"]).rows
    assert {composed(*row.overrides).precision for row in rows if row.overrides} == {"auto"}


def test_words_of_a_committed_table_are_taken_from_its_yaml(tmp_path):
    for suffix in (".json", ".md"):
        shutil.copy(RESULTS / f"biased_digits{suffix}", tmp_path)
    path = tmp_path / "biased_digits.json"
    before = json.loads(path.read_text())
    path.write_text(json.dumps({**before, "note": "Old.", "claims": before["claims"][1:]}))
    assert runpy.run_path(str(ROOT / "scripts/reword_tables.py"))["main"](tmp_path) == 0
    assert json.loads(path.read_text()) == before
    assert check_folder(tmp_path) == (1, [])
    assert (tmp_path / "biased_digits.md").read_text() == (RESULTS / "biased_digits.md").read_text()
