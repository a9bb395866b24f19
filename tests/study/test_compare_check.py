"""verify --table finds what was left out of the record of a comparison, or changed in it."""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tables.kept import study_records

from contrastive.cli.verify import main
from contrastive.study.compare.check import faults as faults_of
from contrastive.study.compare.outcome import comparison_record, judged_again
from contrastive.study.record import read_compared
from contrastive.study.render.files import write_pages
from tests.study.made_up import contest_of, run_all

Record = dict[str, Any]
faults = partial(faults_of, unsealed=True)  # what is made up here has no hashes of code
SEARCHED = study_records()["push_searched"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """The record of a comparison of one search whose runs are made up; one point of a broke down."""
    contest, runs = contest_of(tmp_path_factory.mktemp("whole"), "budget=6", "seeds=3", a=70.0, b=68.0)
    runs.refused = {"a, point 2"}
    assert run_all(contest, runs) == []
    return comparison_record(contest)


def test_data_that_follow_from_the_settings_or_the_seed_are_no_fault(made: Record) -> None:
    drawn = copy.deepcopy(made)
    for run in (run for own in drawn["rows"] for run in own["runs"]):
        run["settings"]["dataset"], run["data"] = f"biased_digits data_seed={run['seed']}", f"{run['seed']:016}"
    assert faults(drawn) == faults(made) == []


@pytest.fixture(scope="module")
def searched() -> Record:
    """A committed record of five searches."""
    content: Record = read_compared(SEARCHED) or {}
    return content


def row(record: Record, name: str) -> Record:
    found: Record = next(row for row in record["rows"] if row["name"] == name)
    return found


def two_searches_are_left_out(record: Record) -> None:
    for searches in record["comparison"]["searches"].values():
        del searches[3:]
    for own in record["rows"]:
        own["runs"] = [run for run in own["runs"] if run["seed"] < 4000]


def another_choice(record: Record) -> None:
    (search, *_) = record["comparison"]["searches"]["nt_xent"]
    search["chosen"] = search["points"][0]["point"]


def a_run_is_left_out(record: Record) -> None:
    del row(record, "sigmoid")["runs"][4]


def a_contestant_is_left_out(record: Record) -> None:
    record["rows"].remove(row(record, "sigmoid"))


def other_data(record: Record) -> None:
    row(record, "sigmoid")["runs"][4]["data"] = "0" * 16


def other_data_of_a_seed(record: Record) -> None:
    for run in (run for own in record["rows"] for run in own["runs"] if run["seed"] == 1101):
        run["data"] = "0" * 16


def another_machine(record: Record) -> None:
    record["environments"].append({**record["environments"][0], "device": "H100"})
    row(record, "sigmoid")["runs"][0]["environment"] = len(record["environments"]) - 1


def images_of_one_are_left_out(record: Record) -> None:
    for run in row(record, "sigmoid")["runs"]:
        del run["correct"]["knn_top1"]
        run["test"]["knn_top1"] += 5


def defaults_are_left_out(record: Record) -> None:
    record["rows"] = [own for own in record["rows"] if not own["name"].endswith("as it comes")]


def a_figure(record: Record) -> None:
    row(record, "sigmoid")["runs"][4]["test"]["knn_top1"] += 1


def a_run_twice(record: Record) -> None:
    row(record, "sigmoid")["runs"].append(row(record, "sigmoid")["runs"][4])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (two_searches_are_left_out, "push is not whole"),
        (another_choice, "nt_xent, search 1: the chosen settings are not its best"),
        (a_run_is_left_out, "sigmoid: the seeds of its final runs are"),
        (a_contestant_is_left_out, "sigmoid is not whole"),
        (other_data, "sigmoid, seed 2101: other data than another run has"),
        (other_data_of_a_seed, "push, seed 1101: other data than another run has"),
        (another_machine, "sigmoid, seed 1100: made on another kind of machine"),
        (images_of_one_are_left_out, "15 of 69 final runs do not tell their images"),
        (defaults_are_left_out, "push as it comes is not whole"),
        (a_figure, "figures of 1 final runs are not those of their images"),
        (a_run_twice, "sigmoid: the seeds of its final runs are"),
    ],
)
def test_what_is_left_out_of_a_committed_record_is_found(searched: Record, change: Callable, said: str) -> None:
    assert faults(searched) == []
    changed = copy.deepcopy(searched)
    change(changed)
    assert any(fault.startswith(said) for fault in faults(changed)), faults(changed)


def a_seed(record: Record) -> None:
    row(record, "b")["runs"][0]["seed"] = 1199


def a_finalist(record: Record) -> None:
    points = record["comparison"]["searches"]["b"][0]["points"]
    points.remove(next(point for point in points if len(point["values"]) == 3))


def a_finalists_seeds(record: Record) -> None:
    point = next(point for point in record["comparison"]["searches"]["b"][0]["points"] if len(point["values"]) == 3)
    del point["values"][1:]


def a_point(record: Record) -> None:
    record["comparison"]["searches"]["b"][0]["points"][3]["point"]["temperature"] = "0.123"


def a_searched_figure(record: Record) -> None:
    record["comparison"]["searches"]["b"][0]["points"][3]["values"][0] += 0.5


def settings_of_a_run(record: Record) -> None:
    row(record, "b")["runs"][1]["point"]["temperature"] = 0.123


def a_failed_point_is_no_failure(record: Record) -> None:
    record["comparison"]["searches"]["a"][0]["points"][1]["values"] = [99.0]


def failed_runs_without_a_reason(record: Record) -> None:
    del row(record, "b")["runs"][2]
    record["comparison"]["failed"]["b"] = 1


def weights_twice(record: Record) -> None:
    """A run that was copied to another seed."""
    first, second, *_ = row(record, "b")["runs"]
    second["weights"] = first["weights"]


def the_budget(record: Record) -> None:
    record["comparison"]["plan"]["budget"] = 3


@pytest.mark.parametrize(
    "change",
    [a_seed, a_finalist, a_finalists_seeds, a_point, a_searched_figure, settings_of_a_run,
     a_failed_point_is_no_failure, failed_runs_without_a_reason, weights_twice, the_budget],
)  # fmt: skip
def test_what_was_changed_in_a_record_is_found(made: Record, change: Callable) -> None:
    assert faults(made) == []
    changed = copy.deepcopy(made)
    change(changed)
    assert faults(changed)


def test_the_name_is_a_hash_of_plan_code_and_settings(made: Record, tmp_path: Path) -> None:
    record = copy.deepcopy(made)
    made_of = {"package": "1", "contestants": {"a": {"config": "2"}, "b": {"config": "3"}}}
    contest, _ = contest_of(tmp_path, "budget=6", "seeds=3", a=70.0, b=68.0)
    record["comparison"]["sealed"] = {}
    assert faults_of(record) == ["hashes of code, settings and data are missing"]
    record["comparison"]["sealed"] = {"made_of": made_of, "data": {}}
    record["table"] = f"digits-a+b-{contest.plan.digest(made_of)}-{contest.plan.metric}"
    assert faults_of(record) == []
    made_of["contestants"]["b"]["config"] = "4"
    assert faults(record) == ["its plan, code or settings are not those that its name has the hash of"]


def test_a_cherry_picked_record_does_not_pass(searched: Record, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """Also where its verdicts and its page were made again."""
    record = copy.deepcopy(searched)
    two_searches_are_left_out(record)
    record["comparison"]["judged"] = judged_again(record)
    write_pages(record, tmp_path / "t")
    assert main(["--table", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert "the record is not whole: push is not whole" in said.err
    assert "1 comparisons" in said.out


def test_a_record_without_hashes_is_taken_where_that_is_asked(searched: Record, tmp_path: Path, capsys) -> None:
    write_pages(searched, tmp_path / "t")
    assert main(["--table", str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith("hashes of code, settings and data are missing: try --unsealed\n")
    assert main(["--table", str(tmp_path), "--unsealed"]) == 0


def test_the_page_counts_the_runs_and_minutes_of_the_search(made: Record) -> None:
    from contrastive.report.facts import runs_and_minutes
    from contrastive.study.render.comparison import minutes_of_search

    searched = 6 + 4 + 6 + 4
    final = sum(len(row["runs"]) for row in made["rows"])
    assert runs_and_minutes(made, minutes_of_search(made)).startswith(
        f"{searched + final} runs, {searched} of them in the search,"
    )


def test_the_printed_command_has_the_folders_of_ones_own(made: Record) -> None:
    from contrastive.study.render.comparison import sections

    record = {**made, "comparison": {**made["comparison"], "folders": ["mine"]}}
    assert sections(record)[-1].endswith(" --config-dir mine`")
