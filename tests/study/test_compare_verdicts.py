"""The statistics of a comparison: the numbers of its design, recomputed, and verdicts of simulated contests."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import contrastive
from contrastive.errors import ConfigError
from contrastive.run.files import read_result, write_result
from contrastive.run.run import Run
from contrastive.study.compare.check import faults
from contrastive.study.compare.contest import due, remove_checkpoints
from contrastive.study.compare.outcome import comparison_record, number_of_looks
from contrastive.study.compare.plan import read_plan
from contrastive.study.compare.progress import Lines, conclude
from contrastive.study.compare.seal import seal
from contrastive.study.compare.search import first_points
from contrastive.study.compare.trial import Trial
from contrastive.study.render.comparison import condition, notes, protocol_text, sections
from contrastive.study.render.effects import alone_right, differences, forest
from contrastive.study.render.files import check_folder, write_pages
from contrastive.study.render.page import points_so_far, values_of, values_so_far
from contrastive.study.render.sentences import failed_points, of_its_search, sentence, sentences
from contrastive.text import unpack_bits
from tests.helpers import further
from tests.study.made_up import contest_of, outcome, run_all

TRIAL = Trial(minutes=2.0, memory="", is_finite=True, data={}, n_images=400, pair=())


def test_budgets_are_equal_and_the_first_point_is_the_default(tmp_path):
    words = ["tracker=[tensorboard,wandb]", "tracker.wandb.project=x"]
    contest, made = contest_of(tmp_path, *words, "budget=8", "seeds=3", a=70.0, b=69.0)
    run_all(contest, made)
    for run in made.started:
        tracked = [word for word in run.overrides if word.startswith("tracker")]
        assert tracked == (words if run.stage == "final" else ["tracker=[]"])
    for own in ("a", "b"):
        mine = [run for run in made.started if run.name.split(",")[0].removesuffix(" as it comes") == own]
        assert [sum(run.stage == stage for run in mine) for stage in ("search", "finalists", "final")] == [8, 4, 6]
        searched = [run for run in mine if run.stage != "final"]
        assert all("held_out=0" in run.overrides and "evaluator=[knn]" in run.overrides for run in searched)
        assert not any(word.startswith("temperature") for word in searched[0].overrides)
    seeds = {run.overrides[-1] for run in made.started if run.stage == "final"}
    assert seeds == {"seed=1100", "seed=1101", "seed=1102"}
    assert len({run.path for run in made.started}) == len(made.started)


def test_each_search_has_seeds_points_and_held_out_images_of_its_own(tmp_path):
    contest, _ = contest_of(tmp_path, "budget=4", "seeds=3", "searches=2", a=70.0)
    first, second = ([set(run.overrides) for run in due(contest) if f"search={i}/" in str(run.path)] for i in (1, 2))
    assert all({"held_out=0", "seed=1000"} <= words for words in first)
    assert all({"held_out=1", "seed=2000"} <= words for words in second)
    assert first[1] - {"held_out=0", "seed=1000"} != second[1] - {"held_out=1", "seed=2000"}


def test_what_is_due_follows_from_the_disk_alone_and_nothing_is_repeated(tmp_path):
    """Not from the order in which runs end, nor from kills between batches; with points that a model proposes."""
    whole = outcome(tmp_path / "whole", "budget=12", "seeds=3", a=70.0)
    contest, made = contest_of(tmp_path / "parts", "budget=12", "seeds=3", a=70.0)
    while runs := due(contest):
        made([runs[-1]])  # one at a time, the last first
    assert len({run.path for run in made.started}) == len(made.started)
    parts = comparison_record(contest)
    assert parts["comparison"]["searches"] == whole["comparison"]["searches"]
    figures = [[run["test"] for row in record["rows"] for run in row["runs"]] for record in (parts, whole)]
    assert figures[0] == figures[1]


def test_rows_state_the_chosen_settings_and_no_runs_twice(tmp_path):
    rows = "rows={a: 'loss=x', b: 'loss=x loss.push=interval(1,2)'}"
    contest, made = contest_of(tmp_path, rows, "budget=4", "seeds=3", a=70.0, b=70.0)
    assert run_all(contest, made) == []
    assert {run.path.parts[-3] for run in made.started if run.path.parts[-2] == "default"} == {"a"}, "they share it"
    assert sum(map(contest.n_runs, contest.methods)) >= len(made.started)
    record = comparison_record(contest)
    assert [row["name"] for row in record["rows"]] == ["a", "b", "a as it comes"]
    chosen = [record["comparison"]["searches"][own][0]["chosen"] for own in ("a", "b")]
    words = [[f"{key}={value}" for key, value in point.items()] for point in chosen]
    assert [row["overrides"] for row in record["rows"]] == [["loss=x", *words[0]], ["loss=x", *words[1]], ["loss=x"]]
    unsearched = outcome(tmp_path / "unsearched", "budget=1", "seeds=3", a=70.0, b=70.0)
    assert [row["name"] for row in unsearched["rows"]] == ["a", "b"]
    assert "Settings chosen" in "".join(sections(record))
    assert "Settings chosen" not in "".join(sections(unsearched))


@pytest.mark.parametrize("words", [["budget=6"], *further(["budget=12"])])
def test_the_point_that_two_more_seeds_confirm_is_chosen(tmp_path, words):
    """The finalists are best by the model's mean, and without a model by their first run."""
    record = outcome(tmp_path, *words, "seeds=3", a=70.0, b=70.0)
    for own in ("a", "b"):
        (search,) = record["comparison"]["searches"][own]
        last = [point for point in search["points"] if len(point["values"]) == 3]
        assert len(last) == 2
        best = max(np.mean(point["values"]) for point in last)
        assert best == pytest.approx(np.mean(next(p["values"] for p in last if p["point"] == search["chosen"])))
        if words != ["budget=12"]:
            firsts = sorted((point["values"][0] for point in search["points"]), reverse=True)
            assert sorted((point["values"][0] for point in last), reverse=True) == firsts[:2]
    assert faults(record) == []


@pytest.mark.usefixtures("no_library")
def test_one_contestant_alone_has_a_page_and_no_verdict(tmp_path):
    contest, made = contest_of(tmp_path, "budget=8", "seeds=3", a=70.0)
    assert run_all(contest, made) == []
    said = conclude(contest)
    record = comparison_record(contest)
    chosen = [f"{key}={value}" for key, value in record["comparison"]["searches"]["a"][0]["chosen"].items()]
    assert f"a: chosen {' '.join(chosen)}\n" in said
    means = [np.mean([run["test"]["knn_top1"] for run in row["runs"]]) for row in record["rows"]]
    assert f"\nknn_top1 of 3 final seeds: a {means[0]:.2f} ± " in said and f", a as it comes {means[1]:.2f} ± " in said
    typed = next(line for line in said.splitlines() if line.startswith("to train ")).split("train.py ")[1]
    assert set(typed.split()) >= {*chosen}
    assert record["comparison"]["judged"] == sentences(record) == forest(record) == []
    assert not list(tmp_path.glob("*-effects.csv"))
    assert "| against" not in contest.base.with_name(f"{contest.base.name}.md").read_text()
    assert check_folder(tmp_path) == (1, [])
    assert "<html" in contest.base.with_name(f"{contest.base.name}.html").read_text()


def test_checkpoints_of_a_search_are_removed_when_its_runs_are_done(tmp_path):
    contest, made = contest_of(tmp_path, "budget=4", "seeds=3", a=70.0, b=70.0)
    made.away = {"a, point 2"}

    def launch(runs: list[Run]) -> dict[Run, str]:
        for run in runs:
            (run.path / "checkpoints").mkdir(parents=True, exist_ok=True)
            (run.path / "checkpoints/last.pt").touch()
        return made(runs)

    launch(due(contest))
    remove_checkpoints(contest)
    left = {path.parent.parent.parent.name for path in tmp_path.rglob("last.pt")}
    assert left == {"point=02"}, "it is not done, and goes on from there"
    made.away = set()
    run_all(contest, launch)
    assert {path.parent.parent.parent.name for path in tmp_path.rglob("last.pt")} <= {"final", "default"}
    assert list(tmp_path.rglob("final/*/checkpoints/last.pt"))


def test_a_point_that_cannot_be_trained_is_the_worst_and_is_not_tried_again(tmp_path):
    contest, made = contest_of(tmp_path, "budget=4", "seeds=3", a=70.0, b=68.0)
    made.refused = {"a, point 2", "b, point"}
    run_all(contest, made)
    assert due(contest) == []
    record = comparison_record(contest)
    (search,) = record["comparison"]["searches"]["a"]
    assert search["points"][1]["values"] == [None]
    assert failed_points(record, "a") == "a: 1 of 4 points failed (loss not finite)"
    assert sentences(record)[0].endswith("; b: 4 of 4 points failed (loss not finite); " + failed_points(record, "a"))


@pytest.mark.parametrize(
    ("words", "refused", "said"),
    [
        (["seeds=4"], "final, b, seed 1102", "b: failed, b failed in 1 of 4 final runs"),
        (["seeds=3"], "b, point", "b: failed, b has no point that could be trained"),
        *further((["seeds=3", "searches=5"], "a, search 3, point", "b: failed, a failed in 3 of 15 final runs")),
    ],
)
def test_a_final_run_that_fails_or_a_search_without_a_point_is_never_dropped(tmp_path, words, refused, said):
    contest, made = contest_of(tmp_path, "budget=4", *words, a=70.0, b=60.0)
    made.refused = {refused}
    run_all(contest, made)
    (claim,) = comparison_record(contest)["comparison"]["judged"]
    assert claim["verdict"] == "failed"
    assert sentence(claim, contest.plan, "kNN") == said


def test_python_tells_of_contestants_whose_training_breaks_down(tmp_path, monkeypatch):
    contest, made = contest_of(tmp_path, "budget=1", "seeds=3", a=70.0, b=69.0)
    made.refused = {"final"}
    assert run_all(contest, made) == []
    monkeypatch.setattr("contrastive.study.compare.api.run_comparison", lambda *_, **__: ([contest], []))
    monkeypatch.setattr("contrastive.study.compare.progress.page", lambda record: "")  # it takes seconds
    found = contrastive.compare("loss=a,b")
    assert [claim["verdict"] for claim in found.claims] == ["failed"]
    assert found.frame.empty


def test_one_contestant_without_the_metric_is_an_error(tmp_path):
    """Not a contestant whose figure is 0."""
    contest, made = contest_of(tmp_path, "budget=1", "seeds=3", a=70.0, b=69.0)

    def without(runs: list[Run]) -> dict[Run, str]:
        made(runs)
        for run in runs:
            if run.row == "b":
                write_result(run.path, {**read_result(run.path), "test": {}})
        return {}

    with pytest.raises(ConfigError, match="final, b, seed 1100 has no knn_top1, it has none: try another metric"):
        run_all(contest, without)


def test_a_run_that_stays_undone_is_tried_three_times_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive.study.compare.engine.PAUSE", 0)
    contest, made = contest_of(tmp_path, "budget=4", "seeds=3", a=70.0, b=68.0)
    made.away = {"a, point 2"}
    assert run_all(contest, made) == ["not done: search, a, point 2: its data were away"]
    assert [str(run) for run in made.started].count("search, a, point 2") == 3
    assert not list(tmp_path.rglob("failure.json"))


def test_a_finalist_is_none_when_a_better_point_is_mended(tmp_path):
    contest, made = contest_of(tmp_path, "budget=8", "seeds=3", a=70.0, b=69.0)
    draws = first_points(contest.methods[0].knobs, contest.plan.budget, draw=0)
    best = min(range(1, len(draws)), key=lambda i: abs(float(draws[i]["temperature"]) - 0.5))
    made.refused = {f"a, point {best + 1}"}
    assert run_all(contest, made) == []
    assert faults(comparison_record(contest)) == []
    made.refused = set()
    for file in list(tmp_path.rglob("failure.json")):
        shutil.rmtree(file.parent)
    for run in made.started:
        if run.row == "a" and run.stage == "final" and len(run.overrides) > 2:  # at the point that was chosen before
            shutil.rmtree(run.path)
    assert run_all(contest, made) == []
    points = comparison_record(contest)["comparison"]["searches"]["a"][0]["points"]
    assert [len(point["values"]) for point in points].count(3) == 2 and len(points[best]["values"]) == 3
    assert faults(comparison_record(contest)) == []


def test_a_contestant_without_knobs_stands_beside_one_that_is_searched(tmp_path):
    contest, made = contest_of(tmp_path, "budget=8", "seeds=3", a=70.0, b=69.0)
    contest = replace(contest, methods=[replace(contest.methods[0], knobs=[]), contest.methods[1]])
    assert run_all(contest, made) == []
    record = comparison_record(contest)
    assert [len(record["comparison"]["searches"][name][0]["points"]) for name in "ab"] == [1, 8]
    assert faults(record) == []
    assert "a Gaussian process over the points of all its searches" in protocol_text(record)
    assert "Nothing was searched of a." in protocol_text(record)
    assert "only b was tuned, with 8 points" in sentences(record)[0]


@pytest.mark.slow
def test_a_page_has_a_forest_and_the_numbers(tmp_path):
    record = outcome(tmp_path, "searches=3", "budget=4", "seeds=3", a=70.0, b=58.0)
    (claim,) = record["comparison"]["judged"]
    line, axis = forest(record)
    bar = line.removeprefix("b - a  ")[:41]
    assert (bar.index("|"), line.split()[-1]) == (20, "worse")
    assert bar.index("o") == pytest.approx(20 + 20 * claim["effect"] / abs(claim["low"]), abs=1)
    assert axis.split() == [f"{claim['low']:.1f}", "0", f"{-claim['low']:+.1f}"]
    assert len(differences(record, claim)) == 3
    assert np.mean(differences(record, claim)) == pytest.approx(claim["effect"], abs=0.01)
    (tmp_path / "pages").mkdir()
    write_pages(record, tmp_path / "pages/t")
    head, numbers = (tmp_path / "pages/t-effects.csv").read_text().splitlines()
    assert dict(zip(head.split(","), numbers.split(","), strict=False))["low"] == f"{claim['low']:.4f}"
    assert "-knn-top1-effects}" in (tmp_path / "pages/t.tex").read_text()


def test_images_that_only_one_is_right_about_are_counted(tmp_path):
    record = outcome(tmp_path, "budget=2", "seeds=3", a=70.0, b=58.0)
    (claim,) = record["comparison"]["judged"]
    assert (claim["verdict"], claim["n"], claim["over"]) == ("worse", 3, "seeds, images")
    right = {row["name"]: np.stack([unpack_bits(run["correct"]["knn_top1"]) for run in row["runs"]])
             for row in record["rows"]}  # fmt: skip
    only = [right["b"] & ~right["a"], right["a"] & ~right["b"]]
    (said,) = alone_right(record)
    about = [f"{images.sum(1).mean():.1f}" for images in only]
    assert f"b alone is right about {about[0]} and a alone about {about[1]}, the mean of 3 seeds" in said
    every = [images.all(0).sum() for images in only]
    assert said.endswith(f"in every seed they alone are right about {every[0]} and {every[1]}")
    for row in record["rows"]:
        for run in row["runs"]:
            run["correct"] = {}
    assert alone_right(record) == []


@pytest.mark.usefixtures("no_library")
def test_a_page_shows_how_far_a_search_is_until_it_shows_the_verdict(tmp_path, capsys):
    contest, made = contest_of(tmp_path, "budget=4", "seeds=3", "searches=2", a=70.0, b=70.0)
    made.refused = {"a, search 1, point 2"}
    lines = Lines(contest, trials=dict.fromkeys("ab", TRIAL))
    page, runs = contest.base.with_name(f"{contest.base.name}.html"), due(contest)
    lines.begin(runs)
    assert "search: 16 runs; about " in page.read_text()
    assert page.read_text().count("<td>0 of 8</td>") == 2
    made(runs)
    lines.end(16, 16, runs[-1], None)
    assert "search: 16 runs, 16 done; about " in page.read_text()
    assert "<td>8 of 8, 1 failed</td>" in page.read_text()
    assert capsys.readouterr().out.count(f"  best so far in {page}\n") == 1
    assert run_all(contest, made) == []
    conclude(contest)
    assert "Best so far by points" in page.read_text()
    assert "refresh" not in page.read_text()
    assert values_of(comparison_record(contest)) == values_so_far(contest), "the disk and the record tell the same"


def test_the_best_so_far_has_a_gap_where_a_point_failed():
    points = points_so_far({"a": [[60.0, None, 59.0, 61.0], [None, 58.0]]})
    assert [point["best"] for point in points] == [60.0, None, 60.0, 61.0, None, 58.0]
    assert [(point["search"], point["point"]) for point in points[3:]] == [(1, 4), (2, 1), (2, 2)]


def test_a_terminal_has_one_line_that_is_rewritten_and_keeps_failures(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)  # without its packages there is no page
    contest, made = contest_of(tmp_path, "budget=2", "seeds=3", a=70.0, b=70.0)
    lines = Lines(contest, trials=dict.fromkeys("ab", TRIAL), n_parallel=2, is_live=True)
    run, *others = due(contest)
    lines.begin([run, *others])
    assert capsys.readouterr().out == "\r\x1b[2Ksearch: 4 runs; about 24 min 00 s to go in all"
    made([run])
    lines.end(1, 4, run, None)
    lines.end(2, 4, others[0], "its data were away")
    lines.clear()
    first, last = capsys.readouterr().out.split("\n")
    assert first.startswith("\r\x1b[2Ksearch: 4 runs, 1 done; about 2")
    assert first.endswith(f"\r\x1b[2K[2/4] {others[0]}: FAILED, see {others[0].log}: its data were away")
    assert last.startswith("\r\x1b[2Ksearch: 4 runs, 2 done; ")
    assert last.endswith("\r\x1b[2K")


def test_an_undecided_page_says_what_it_would_take(tmp_path):
    (claim,) = outcome(tmp_path, "seeds=3", "budget=2", a=70.0, b=69.5)["comparison"]["judged"]
    plan = read_plan(["loss=a,b", "seeds=3"])
    assert claim["verdict"] == "undecided"
    bare = read_plan(["loss=a,b", "seeds=3", "budget=1"])
    for decide, n, of, needed in (
        (None, 3, plan, "A larger budget or more test images"), (None, 3, bare, "More test images"),
        (18, 1, plan, "About 20 such searches"), (12, 16, bare, "About 20 seeds"),
    ):  # fmt: skip
        said = sentence({**claim, "decide": decide, "n": n}, of, "kNN")
        assert said.endswith(f". {needed} would be needed to decide for sure")
    assert sentence({**claim, "decide": 12, "n": 20}, bare, "kNN").endswith("nothing was searched")


def test_a_sentence_says_what_is_odd_of_a_search(tmp_path):
    """A chosen setting at an edge of its range, and a default that ended above what was chosen."""
    record = outcome(tmp_path, "seeds=3", "budget=4", a=70.0, b=70.0)
    for name, rate in (("a", "0.9"), ("b", "0.96")):
        record["comparison"]["searches"][name][0]["chosen"] = {"temperature": "0.5", "optimizer.lr": rate}
    for row in record["rows"]:
        for run in row["runs"]:
            run["test"]["knn_top1"] = 72.0 if row["name"] == "b as it comes" else 70.0
    assert of_its_search(record, "a") == []
    odd = [
        "b chose optimizer.lr=0.96, where the range of optimizer.lr ends (0 to 1)",
        "b as it comes ended 2.0 points above what its search chose",
    ]
    assert of_its_search(record, "b") == odd
    assert sentences(record)[0].endswith("; ".join(odd))
    searches = record["comparison"]["searches"]["b"]
    searches[:] = [{**searches[0], "chosen": {"temperature": value, "optimizer.lr": "0.5"}} for value in ("0.8", "0.2")]
    assert of_its_search(record, "b")[0] == "searches of b chose temperature far apart: 0.2, 0.8"


def test_a_page_says_what_its_intervals_hold_for(tmp_path):
    record = outcome(tmp_path, "seeds=3", "budget=4", a=70.0, b=70.0)
    assert condition(record).startswith("These searches are shallow (4 points for 2 settings, budget=auto takes 24):")
    record["comparison"]["plan"]["budget"] = 24
    assert "as deep as these (24 points for 2 settings)" in condition(record)
    assert condition(record) in protocol_text(record)
    record["comparison"]["reasons"] = {"x": "a loss that is not finite"}
    assert notes(record)[-1] == "failed: x: a loss that is not finite"
    assert "- failed: x" in "".join(sections(record))


def test_judgements_of_other_plans_metrics_margins_and_data_sets_share_the_level(tmp_path):
    def look(*words: str, dataset: str = "digits", names: Sequence[str] = (), keep: bool = True) -> int:
        plan = read_plan(["loss=a,b", *words])
        return number_of_looks(tmp_path / plan.folder(dataset, plan.digest({})), plan, names, keep=keep)

    linear = "metric=linear_top1"
    plans = [["seeds=3"], ["seeds=5"], ["seeds=5"], ["seeds=5", "margin=2"], ["seeds=5", linear], ["seeds=5", linear]]
    assert [look(*words) for words in plans] == [1, 2, 2, 3, 4, 4]
    assert [look("seeds=6", keep=False), look("searches=2", "seeds=6", keep=False)] == [5, 5]
    assert look(dataset="mnist") == 1
    assert [look(dataset="mnist", names=names) for names in (["mnist"], ["mnist", "digits"], ["mnist"])] == [2, 3, 2]


def test_other_versions_of_a_comparison_that_were_judged_are_told(tmp_path):
    """Those on other data are no versions."""
    for package, data, n in (("1", "digits", 1), ("2", "digits", 2), ("3", "mine", 1), ("1", "digits", 2)):
        contest, made = contest_of(tmp_path, "budget=1", "seeds=3", made_of={"package": package}, a=70.0, b=69.0)
        seal(contest, {"[{}, null]": data})
        assert run_all(contest, made) == []
        record = comparison_record(contest)
        assert (record["comparison"]["versions"], faults(record)) == (n, [])
        said = [*sentences(record), protocol_text(record)]
        assert sum(f"{n} comparisons of these methods on these data" in text for text in said) == (2 if n > 1 else 0)
