"""What was left out of the record of a comparison, or changed in it, is found: by the engine, and by verify."""

import copy
from pathlib import Path
from typing import Any

import pytest

from contrastive.cli.verify import main
from contrastive.study.compare.check import faults
from contrastive.study.compare.outcome import comparison_record
from contrastive.study.render.comparison import minutes_of_search, sections
from contrastive.study.render.files import write_pages
from tests.study.made_up import contest_of, run_all

Record = dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """The record of a comparison of two searches whose runs are made up; one point of a broke down."""
    contest, runs = contest_of(tmp_path_factory.mktemp("whole"), "budget=6", "seeds=3", "searches=2", a=70.0, b=68.0)
    runs.refused = {"a, search 1, point 2"}
    assert run_all(contest, runs) == []
    return comparison_record(contest)


def row(record: Record, name: str = "b") -> Any:
    return next(row for row in record["rows"] if row["name"] == name)


def runs(record: Record) -> Any:
    return row(record)["runs"]


def search(record: Record, name: str = "b") -> Any:
    return record["comparison"]["searches"][name][0]


def finalist(record: Record) -> Any:
    return next(point for point in search(record)["points"] if len(point["values"]) == 3)


def no_images(record: Record) -> None:
    for run in runs(record):
        run["correct"].clear()
        run["test"]["knn_top1"] += 5


def other_data_of_a_seed(record: Record) -> None:
    for run in (run for own in record["rows"] for run in own["runs"] if run["seed"] == 1101):
        run["data"] = "0" * 16


def another_machine(record: Record) -> None:
    record["environments"].append({**record["environments"][0], "processor": "cpu (oneDNN AVX2)"})
    runs(record)[0]["environment"] = len(record["environments"]) - 1


def a_failed_run_without_a_reason(record: Record) -> None:
    del runs(record)[2]
    record["comparison"]["failed"]["b"] = 1


SEEDS = "b: the seeds of its final runs are"
CHANGES = {
    "a search": (lambda r: r["comparison"]["searches"]["b"].pop(), "b is not whole"),
    "a contestant": (lambda r: r["rows"].remove(row(r)), "b is not whole"),
    "the defaults": (lambda r: r["rows"].remove(row(r, "a as it comes")), "a as it comes is not whole"),
    "a stranger": (lambda r: r["rows"].append({**row(r), "name": "c"}), "c is no contestant"),
    "a run": (lambda r: runs(r).pop(), SEEDS),
    "a run twice": (lambda r: runs(r).append(runs(r)[0]), SEEDS),
    "a seed": (lambda r: runs(r)[0].update(seed=1199), SEEDS),
    "a failed run": (a_failed_run_without_a_reason, "b: 1 failed runs are counted, there are reasons for 0"),
    "equal weights": (lambda r: runs(r)[1].update(weights=runs(r)[0]["weights"]), "b: two of its runs have the same"),
    "a figure": (lambda r: runs(r)[2]["test"].update(knn_top1=1.0), "figures of 1 final runs are not those of their"),
    "images": (no_images, "6 of 18 final runs do not tell their images"),
    "data": (lambda r: runs(r)[1].update(data="0" * 16), "b, seed 1101: other data than another run has"),
    "data of a seed": (other_data_of_a_seed, "a, seed 1101: other data than another run has"),
    "a machine": (another_machine, "b, seed 1100: made on another kind of machine than its pair"),
    "settings": (lambda r: runs(r)[1]["point"].update(temperature=0.123), "b, seed 1101: other settings than were"),
    "no settings": (lambda r: runs(r)[1]["point"].clear(), "b, seed 1101: other settings than were chosen"),
    "the choice": (lambda r: search(r).update(chosen=search(r)["points"][3]["point"]), "b, search 1: the chosen"),
    "a point": (lambda r: search(r)["points"][3]["point"].update(temperature="0.1"), "b, search 1: points are missing"),
    "the budget": (lambda r: r["comparison"]["plan"].update(budget=3), "a, search 1: points are missing"),
    "a finalist": (lambda r: search(r)["points"].remove(finalist(r)), "b, search 1: points are missing"),
    "its seeds": (lambda r: finalist(r).update(values=finalist(r)["values"][:1]), "b, search 1: the finalists are not"),
    "a value": (lambda r: search(r)["points"][3]["values"].__setitem__(0, 1.0), "figures of 1 points are not those"),
    "images of a point": (lambda r: search(r)["points"][3].update(correct=None), "1 of 23 points do not tell their"),
    "a failure": (lambda r: search(r, "a")["points"][1].update(values=[99.0]), "1 of 24 points do not tell their"),
    "the seal": (lambda r: r["comparison"].update(sealed={}), "hashes of code, settings and data are missing"),
    "the code": (lambda r: r["comparison"]["sealed"]["made_of"].update(package="2"), "its plan, code or settings are"),
    "the metric": (lambda r: r["comparison"]["plan"].update(metric="linear_top1"), "its plan, code or settings are"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_left_out_of_a_record_or_changed_in_it_is_found(made: Record, change: str) -> None:
    assert faults(made) == []
    alter, said = CHANGES[change]
    changed = copy.deepcopy(made)
    alter(changed)
    for run in (run for own in changed["rows"] for run in own["runs"]):
        run["test"].setdefault("linear_top1", run["test"]["knn_top1"])
    assert any(fault.startswith(said) for fault in faults(changed)), faults(changed)


def test_data_that_follow_from_the_settings_or_the_seed_are_no_fault(made: Record) -> None:
    drawn = copy.deepcopy(made)
    for run in (run for own in drawn["rows"] for run in own["runs"]):
        run["settings"]["dataset"], run["data"] = f"biased_digits data_seed={run['seed']}", f"{run['seed']:016}"
    assert faults(drawn) == []


def test_a_record_without_hashes_is_taken_where_that_is_asked(made: Record, tmp_path: Path, capsys) -> None:
    record = copy.deepcopy(made)
    record["comparison"]["sealed"] = {}
    write_pages(record, tmp_path / "t")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith("hashes of code, settings and data are missing: try --unsealed\n")
    assert main([str(tmp_path), "--unsealed"]) == 0


def test_the_page_counts_the_runs_of_the_search_and_names_folders_of_ones_own(made: Record) -> None:
    from contrastive.report.facts import runs_and_minutes

    searched = 2 * 2 * (6 + 4)
    final = sum(len(row["runs"]) for row in made["rows"])
    said = runs_and_minutes(made, minutes_of_search(made))
    assert said.startswith(f"{searched + final} runs, {searched} of them in the search,")
    record = {**made, "comparison": {**made["comparison"], "folders": ["mine"]}}
    assert sections(record)[-1].endswith(" --config-dir mine`")
