"""One verdict over several data sets: the test whose rows are data sets, the folder, the record, and what is shown."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import contrastive
from contrastive.cli.verify import main
from contrastive.errors import ConfigError
from contrastive.study.compare.check import faults
from contrastive.study.compare.judge import judge_datasets
from contrastive.study.compare.plan import read_plan, read_plans
from contrastive.study.compare.progress import answer, base_of
from contrastive.study.render.comparison import command, notes
from contrastive.study.render.effects import effects
from contrastive.study.render.files import check_folder
from contrastive.study.render.page import verdict_html
from contrastive.study.render.sentences import sentence_over, sentences
from tests.helpers import ROOT, module
from tests.study.made_up import contest_of, run_all
from tests.study.processes import kill_at
from tests.study.test_compare_command import SMALL

Record = dict[str, Any]
DATASETS = {"digits": (90.0, 70.0), "mnist": (85.0, 66.0), "cars": (60.0, 39.0)}  # what a and b are worth


def claim(effect: float | None, **changed: Any) -> dict[str, Any]:
    same = {"same": False, "verdict": "undecided", "gain": 0.0, "gain_against": 0.0}
    return {"name": "b", "against": "a", "effect": effect, **same, **changed}


def judged(*claims: dict[str, Any], looks: int = 1, words: str = "loss=a,b") -> dict[str, Any]:
    (found,) = judge_datasets(read_plan([words]), [[one] for one in claims], looks)
    return found


def test_the_rows_are_data_sets():
    values = [1.0, 2.5, 0.5, 3.0, 1.5]
    found = judged(*map(claim, values))
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.955)
    assert (found["effect"], found["low"], found["high"]) == pytest.approx((1.7, low, high), abs=1e-4)
    assert (found["verdict"], found["ahead"], found["n"], found["each"]) == ("better", 5, 5, values)
    assert found["p"] == pytest.approx(stats.ttest_1samp(values, 0).pvalue * 0.05 / 0.045, abs=1e-4)
    assert found["better"] == pytest.approx(stats.t.sf(1, 4, 1.7, stats.sem(values)), abs=1e-4)
    assert judged(*map(claim, values), looks=2)["low"] < low
    assert judged(*map(claim, [0.1, -0.1, 0.2]))["verdict"] == "equal"


@pytest.mark.parametrize("lead", [0.0, 0.5, 1.0])
def test_as_many_data_sets_as_are_said_to_decide_do_so(lead):
    few = judged(*map(claim, (0.6, -0.6, 0.6, -0.6, 0.6, -0.6)))
    spread = [0.6, -0.6] * (few["decide"] // 2 + 1)
    assert judged(*(claim(lead + x) for x in spread), looks=2)["verdict"] != "undecided"  # it is the next look


def test_a_failure_on_one_data_set_is_one_over_all_and_the_same_runs_are_the_same():
    failed = judged(claim(1.0), claim(2.0), claim(None, verdict="failed", broke="a"))
    assert (failed["verdict"], failed["failed"], failed["broke"], failed["low"]) == ("failed", 1, ["a"], None)
    assert sentence_over(failed, read_plan(["loss=a,b"]), "kNN") == "b: failed, a failed on 1 of 3 data sets"
    assert judged(claim(0.0, same=True), claim(0.0, same=True))["verdict"] == "equal"
    assert judged(claim(0.5), claim(0.5))["verdict"] == "undecided"


def test_a_list_of_data_sets_is_a_plan_for_each():
    plans = read_plans(["loss=nt_xent,supcon", "dataset=digits,mnist", "epochs=2"])
    assert [plan.common for plan in plans] == [("epochs=2", "dataset=digits"), ("epochs=2", "dataset=mnist")]
    assert [own.name for own in plans[0].contestants] == ["nt_xent", "supcon"]
    one = ["loss=nt_xent,supcon", "dataset=digits"]
    assert read_plans(one) == [read_plan(one)]
    with pytest.raises(ConfigError, match="dataset=digits is there twice"):
        read_plans(["loss=nt_xent,supcon", "dataset=digits,digits"])
    with pytest.raises(ConfigError, match="one contestant alone is tuned on one data set at a time: try dataset=dig"):
        read_plans(["loss=nt_xent", "dataset=digits,mnist"])


def outcome(folder: Path, *names: str) -> tuple[Record, str]:
    """The record over data sets of comparisons with made-up runs, and what is said at the end."""
    contests = []
    for name in names:
        best = dict(zip("ab", DATASETS[name], strict=True))
        contest, made = contest_of(folder, "budget=2", "seeds=3", f"dataset={name}", dataset=name, **best)
        assert run_all(contest, made) == []
        contests.append(contest)
    said = answer(contests)
    base = base_of(contests)
    return json.loads(base.with_name(f"{base.name}.json").read_text()), said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record, str]:
    folder = tmp_path_factory.mktemp("datasets")
    return folder, *outcome(folder, *DATASETS)


def test_a_comparison_over_data_sets_is_said_and_shown_beside_that_on_each(whole):
    folder, record, said = whole
    (over,) = record["judged"]
    assert (over["verdict"], over["ahead"], over["n"]) == ("worse", 0, 3)
    assert over["effect"] == pytest.approx(np.mean(over["each"]), abs=1e-3)
    assert sentences(record)[0].startswith("b: ") and sentences(record)[0].endswith(" over 3 data sets, ahead on 0")
    assert sentences(record)[0] in said
    assert [row[2] for row in effects(record).cells] == ["data set", *DATASETS, "all 3 data sets"]
    assert read_plans(command(record).split()[2:])[2].common == ("dataset=cars",)
    assert check_folder(folder) == (4, [])
    (path,) = folder.glob("datasets-*.html")
    page = path.read_text()
    order = [page.index(f"<h2>a against b {heading}</h2>") for heading in ("over 3 data sets", "on digits", "on cars")]
    assert order == sorted(order)
    assert "over 3 data sets, ahead on 0" in verdict_html(record)


def test_a_further_data_set_is_another_look(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("contrastive.study.compare.progress.page", lambda record: "")  # it takes seconds
    record, _ = outcome(tmp_path, "digits", "cars")
    assert (record["looks"], notes(record)) == (1, [])
    every, _ = outcome(tmp_path, *DATASETS)
    assert (every["looks"], len(notes(every))) == (2, 1)
    assert every["judged"][0]["low"] < whole[1]["judged"][0]["low"], "the level is shared"


@pytest.mark.slow
def test_real_runs_on_two_data_sets_go_on_after_a_kill(tmp_path, monkeypatch):
    """The command, killed on the second data set; then from Python, which repeats nothing."""
    numbers = ["budget=1", "seeds=3"]
    (mine := tmp_path / "mine/dataset").mkdir(parents=True)
    digits = (ROOT / "configs/dataset/digits.yaml").read_text()
    (mine / "rare_digits.yaml").write_text(digits.replace("imbalance: null", "imbalance: 10"))
    words = ["loss=nt_xent,debiased_pos", "dataset=digits,rare_digits", *SMALL[1:], *numbers, "--config-dir", "mine"]
    kill_at("outputs/compare/rare_digits*/*/nt_xent/default/seed=1101/config.yaml", tmp_path, *words)
    done = module("compare", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " data sets find a difference of " in done.stdout or "over 2 data sets" in done.stdout
    assert check_folder(tmp_path / "outputs/compare") == (3, [])
    monkeypatch.chdir(tmp_path)
    settings = {"loss": ["nt_xent", "debiased_pos"], "dataset": ["digits", "rare_digits"]}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    found = contrastive.compare(*SMALL[1:], *numbers, config_dir="mine", **settings)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")} == before
    assert (found.claims, len(found.frame)) == (found.record["judged"], 12)
    assert list(found.record["datasets"]) == ["digits", "rare_digits"]
    assert "over 2 data sets" in found._repr_html_() or "of 2 data sets" in found._repr_html_()


def part(record: Record) -> Record:
    found: Record = record["datasets"]["mnist"]
    return found


OTHERS = "mnist: another data set or plan than its place says"
UNEQUAL = "the verdicts are not those of its runs"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: part(r)["rows"][0]["runs"].pop(), "mnist: a: the seeds of its final runs are"),
        (lambda r: part(r)["comparison"]["judged"][0].update(effect=1.0), UNEQUAL),
        (lambda r: r["judged"][0].update(verdict="better"), UNEQUAL),
        (lambda r: part(r)["comparison"]["judged"][0].pop("effect"), UNEQUAL),
        (lambda r: r["datasets"].update(mnist=r["datasets"]["digits"]), OTHERS),
        (lambda r: part(r)["comparison"]["plan"].update(margin=2.0), OTHERS),
        (lambda r: part(r)["comparison"]["plan"]["common"].append("epochs=200"), OTHERS),
    ],
)
def test_verify_finds_what_was_changed(whole, tmp_path, capsys, change, said):
    _, record, _ = whole
    assert faults(record) == []
    changed = copy.deepcopy(record)
    change(changed)
    (tmp_path / "all.json").write_text(json.dumps(changed))
    assert main([str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
