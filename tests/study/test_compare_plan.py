"""The words of contrastive compare: contestants, what they share, and what the protocol sets itself."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra import initialize_config_dir

from contrastive.config import CONFIGS
from contrastive.errors import ConfigError
from contrastive.study import jobs
from contrastive.study.compare.contest import Contest, Method, known_runs
from contrastive.study.compare.engine import contest_of
from contrastive.study.compare.outcome import plan_of
from contrastive.study.compare.plan import Plan, read_plan
from contrastive.study.compare.progress import announcement
from contrastive.study.compare.space import read_knob
from tests.helpers import write_files


def composed_contest(*words: str, folders: Sequence[Path] = ()) -> Contest:
    """The contest of the plan that the words make, each contestant composed."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return contest_of(read_plan(list(words)), folders)


def test_comma_lists_make_the_contestants():
    plan = read_plan(["loss=nt_xent,debiased_pos", "dataset=digits", "temperature=interval(0.05,1)", "budget=8"])
    assert [(own.name, own.words) for own in plan.contestants] == [
        ("nt_xent", ("loss=nt_xent",)), ("debiased_pos", ("loss=debiased_pos",)),
    ]  # fmt: skip
    assert (plan.common, plan.ranges, plan.budget) == (("dataset=digits",), {"temperature": "interval(0.05,1)"}, 8)
    assert [own.name for own in read_plan(["loss=nt_xent,supcon", "encoder.width=8,16"]).contestants] == [
        "nt_xent encoder.width=8", "nt_xent encoder.width=16", "supcon encoder.width=8", "supcon encoder.width=16",
    ]  # fmt: skip
    kept = read_plan(["loss=nt_xent,supcon", "evaluator=[knn,linear]", "optimizer.betas=[0.9,0.99]"])
    assert kept.common == ("evaluator=[knn,linear]", "optimizer.betas=[0.9,0.99]")
    lists = read_plan(["optimizer.betas=[0.9,0.99],[0.5,0.9]"])
    assert [own.words for own in lists.contestants] == [("optimizer.betas=[0.9,0.99]",), ("optimizer.betas=[0.5,0.9]",)]


def test_rows_name_other_contestants_also_beside_one_loss():
    rows = "rows={pushed: 'loss=nt_xent loss.push=2', again: 'loss=nt_xent loss.push=1'}"
    plan = read_plan(["loss=nt_xent,sigmoid", rows])
    assert [own.name for own in plan.contestants] == ["nt_xent", "sigmoid", "pushed", "again"]
    assert plan.contestants[2].words == ("loss=nt_xent", "loss.push=2")
    assert [own.name for own in read_plan(["loss=nt_xent", rows]).contestants] == ["nt_xent", "pushed", "again"]
    of_all = read_plan(["loss=nt_xent", "rows={a: temperature=0.1, b: temperature=0.5}"])
    assert [own.name for own in of_all.contestants] == ["a", "b"] and "loss=nt_xent" in of_all.common


def test_a_row_may_have_ranges_of_its_own_and_what_it_fixes_is_not_searched():
    row = "rows={pushed: 'loss=nt_xent loss.push=tag(log,interval(0.25,8)) temperature=0.2'}"
    contest = composed_contest(row, "loss=debiased_pos,sigmoid", "temperature=interval(0.05,1)", "budget=8")
    pushed = contest.plan.contestants[-1]
    assert pushed.words == ("loss=nt_xent", "temperature=0.2")
    assert pushed.ranges == {"loss.push": "tag(log,interval(0.25,8))"}
    keys = {own.name: [knob.key for knob in own.knobs] for own in contest.methods}
    assert (keys["pushed"], keys["sigmoid"]) == (["optimizer.lr", "loss.push"], ["temperature", "optimizer.lr"])


@pytest.mark.parametrize(
    ("words", "name"), [(["loss=nt_xent", "epochs=3"], "nt_xent"), (["rows={a: loss=nt_xent}", "epochs=3"], "a"),
                        (["experiment=debiased_positive", "epochs=3"], "debiased_positive")]
)  # fmt: skip
def test_one_contestant_is_a_tuned_run(words, name):
    plan = read_plan(words)
    assert [own.name for own in plan.contestants] == [name]
    assert (plan.common, plan.opponents) == (("epochs=3",), [])


@pytest.mark.slow
def test_the_budget_follows_from_the_contestant_with_most_knobs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    both = composed_contest("loss=nt_xent,debiased_pos")
    assert (both.plan.budget, composed_contest("loss=nt_xent").plan.budget) == (32, 24)
    fixed = composed_contest("loss=nt_xent,supcon", "temperature=0.2", "optimizer.lr=0.001").plan
    assert fixed.budget == 1, "there is nothing to search"
    assert composed_contest("loss=nt_xent,debiased_pos", "budget=32").base == both.base
    assert both.methods[1].defaults == {"temperature": 0.5, "optimizer.lr": 0.003, "tau_plus": 0.1}


def test_numbers_of_a_loss_that_are_not_searched_are_announced():
    contest = composed_contest("loss=triplet,nt_xent,debiased_pos", "tau_plus=0.1", "loss.push=interval(1,8)")
    said = {line.split(":")[0].strip(): line for line in announcement(contest).splitlines()}
    own = {one.name: one for one in contest.methods}
    assert own["nt_xent"].left_alone == {}, "all its numbers have ranges"
    assert "not searched: " in said["debiased_pos"]
    assert "tau_plus=0.1" in said["debiased_pos"]
    assert "loss.margin" in str(own["triplet"].knobs)
    assert "loss.margin" not in own["triplet"].left_alone


@pytest.mark.parametrize(
    "words",
    [
        ["loss=nt_xent,sigmoid", "searches=5", "temperature=interval(0.05, 1)", "margin=0.7", "metric=linear_top1"],
        ["loss=nt_xent,supcon", "encoder.width=8,16", "dataset.name='a $x (b)'"],
        ["experiment=debiased_positive", "epochs=3"],
        ["loss=nt_xent,sigmoid", "rows={a: 'loss=dhel', '1': 'loss=nt_xent loss.push=tag(log,interval(1,8))'}"],
    ],
)
def test_a_plan_survives_its_command_and_its_record(words):
    plan = read_plan(words)
    assert read_plan(shlex.split(plan.command())[2:]) == plan
    assert plan_of({"comparison": {"plan": asdict(plan)}}) == plan


@pytest.mark.slow
def test_more_seeds_and_searches_go_on_in_one_folder():
    def folder(*more: str) -> str:
        return composed_contest("loss=nt_xent,sigmoid", *more).base.name

    first = folder("epochs=3")
    assert first.startswith("digits-nt_xent+sigmoid-")
    same = ["seeds=16", "searches=5", "margin=2", "data_root=x", "threads=1", "epochs=5", "epochs=3"]
    assert folder(*same) == first
    others = ["budget=8", "metric=linear_top1", "epochs=4", "temperature=interval(0.1,1)"]
    assert len({first, *(folder("epochs=3", other) for other in others)}) == 5
    assert folder("dataset=image_folder", "dataset.root=birds") != folder("dataset=image_folder", "dataset.root=cars")


@pytest.mark.slow
def test_an_edited_loss_range_or_helper_is_another_comparison(tmp_path, monkeypatch):
    """Runs of a loss as it was before an edit are not runs of it. What a helper imports in a function counts, too."""
    code = "from helper import scale\n\nclass Edited:\n    def __init__(self, gamma): pass\n"
    files = {
        "loss/edited.yaml": "_target_: edited.Edited\ngamma: 1.0\n",
        "search/loss/edited.yaml": "loss.gamma: interval(0, 2)\n",
        "edited.py": code,
        "helper.py": "def scale():\n    from far.deep import SCALE\n    return SCALE\n",
        "far/deep.py": "SCALE = 1\n",
    }
    monkeypatch.syspath_prepend(tmp_path)

    def folder(**edited: str) -> str:
        return composed_contest("loss=nt_xent,edited", folders=[write_files(tmp_path, files | edited)]).base.name

    first = folder()
    assert folder(**{"edited.py": code.replace("pass", "self.x = 1")}) != first
    assert folder(**{"search/loss/edited.yaml": "loss.gamma: interval(0, 5)\n"}) != first
    assert folder(**{"far/deep.py": "SCALE = -1\n"}) != first


def test_other_code_of_the_package_is_another_comparison(monkeypatch):
    first = composed_contest("loss=nt_xent,sigmoid").base.name
    monkeypatch.setattr("contrastive.study.compare.seal.package_hash", lambda: "another")
    assert composed_contest("loss=nt_xent,sigmoid").base.name != first


def test_a_recipe_names_the_dataset_and_the_search_reads_as_the_final_does():
    contest = composed_contest("loss=nt_xent,supcon", "experiment=debiased_positive", "evaluator.knn.k=5")
    assert contest.dataset == "cifar10"
    own = contest.methods[0]
    (first, *_), (final, *_) = known_runs(contest, own), contest.final(own, 0, {})
    assert "evaluator.knn.k=5" in first.overrides
    assert "evaluator.knn.k=5" in final.overrides


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "nothing is compared"),
        ("budget=0", "try budget=auto"),
        ("budjet=1", "did you mean budget? try budget=1"),
        ("seed_s=3", "did you mean seeds? try seeds=3"),
        ("seed=1", "try seeds=8"),
        ("held_out=0", "is set by the comparison"),
        ("seeds=2", "seeds must be a number of at least 3"),
        ("budget=x", "budget must be a number"),
        ("margin=0", "try margin=1"),
        ("metric=knn", "try metric=linear_top1"),
        ("rows=x", "rows names contestants"),
        ("loss=nt_xent,nt_xent", "nt_xent and nt_xent would have one folder"),
        ("budget=1 searches=5", "try searches=1"),
        ("epochs", "epochs is not KEY=VALUE"),
        ("'rows={push<1: loss=nt_xent, push>1: loss=supcon}'", "would have one folder"),
        ("'rows={A: loss=nt_xent, a: loss=supcon}'", "A and a would have one folder"),
        ("dataset=digits,cifar10", "try dataset=cifar10,digits for all of them"),
        (
            "dataset=image_folder "
            "'rows={a: loss=nt_xent dataset.root=/a/im, b: loss=nt_xent dataset.root=/b/im}'",
            "one dataset, got /a/im and /b/im: try one at a time",
        ),
        ("evaluator=[linear]", "none gives knn_top1: try 'evaluator=[knn,linear]'"),
        ("loss.psuh=interval(1,8)", "psuh: did"),
        ("temprature=interval(0.05,1)", "temprature: did"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_before_anything_runs(words, said):
    has_contestants = not words or "rows={" in words or "loss=" in words
    with pytest.raises(ConfigError, match="try ") as raised:
        composed_contest(*([] if has_contestants else ["loss=nt_xent,supcon"]), *shlex.split(words))
    assert said in str(raised.value)


KNOBS = [read_knob("temperature", "interval(0,1)")]


def n_runs(plan: Plan, knobs: dict) -> int:
    methods = [Method(name=own.name, words=own.words, knobs=knobs[own.name]) for own in plan.contestants]
    return sum(map(Contest(plan=plan, methods=methods, base=Path("x")).n_runs, methods))


def test_opponents_and_the_number_of_runs():
    plan = read_plan(["loss=a,b,c", "budget=8", "seeds=3", "searches=5"])
    assert plan.opponents == [("b", "a"), ("c", "a")]
    assert n_runs(plan, {"a": KNOBS, "b": KNOBS, "c": ()}) == 2 * (5 * (8 + 4 + 3) + 3) + (5 * (1 + 2 + 3) + 3)
    assert n_runs(read_plan(["loss=a,b", "budget=1", "seeds=8"]), {"a": KNOBS, "b": KNOBS}) == 2 * 8


def test_no_run_begins_that_would_not_end(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: now[0]))
    time_left = jobs.TimeLeft(seconds=600, minutes={"short": 5.0, "long": 10.0, "new": None}.get)
    assert [time_left.fits(name) for name in ("long", "short", "new")] == [False, True, True]
    now[0] += 599  # 30 seconds of start and 330 of work are more than what is left
    assert [time_left.fits(name) for name in ("short", "new")] == [False, True]
    now[0] += 2
    assert not time_left.fits("new")
    assert time_left.left == ["long", "short", "new"]
    with pytest.raises(ConfigError, match=r"3 runs would not have ended in --seconds 600: try the same command again"):
        time_left.check()
    assert jobs.TimeLeft(seconds=math.inf, minutes=None).fits("long"), "nothing is read for it"
