"""One verdict over several data sets: the test whose rows are data sets, the folder, the record, and what is shown."""

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import initialize_config_dir
from scipy import stats

import contrastive
from contrastive.cli.verify import main
from contrastive.config.paths import CONFIGS
from contrastive.errors import ConfigError
from contrastive.study.compare.engine import contest_of, in_one_folder, run_each
from contrastive.study.compare.judge import judge_datasets
from contrastive.study.compare.plan import read_plan, read_plans
from contrastive.study.compare.progress import Lines, answer, base_of
from contrastive.study.compare.stages import Contest
from contrastive.study.compare.whole import faults
from contrastive.study.jobs import Run
from contrastive.study.render.datasets import command, notes, protocol_text
from contrastive.study.render.effects import effects, forest
from contrastive.study.render.files import check_folder
from contrastive.study.render.page import verdict_html
from contrastive.study.render.sentences import over_datasets, sentences
from tests.helpers import ROOT, module
from tests.study.processes import kill_at
from tests.study.test_compare_command import SMALL
from tests.study.test_compare_verdicts import KNOBS, Made

Record = dict[str, Any]
DATASETS = {"digits": (90.0, 70.0), "mnist": (85.0, 66.0), "cars": (60.0, 39.0)}  # what a and b are worth
WORDS = ["loss=a,b", "budget=2", "finalists=0", "seeds=3"]


def claim(effect: float | None, **changed: Any) -> dict[str, Any]:
    return {"name": "b", "against": "a", "effect": effect, "same": False, "verdict": "undecided", "gain": 0.0,
            "gain_against": 0.0, **changed}  # fmt: skip


def judged(*claims: dict[str, Any], looks: int = 1, words: str = "loss=a,b") -> dict[str, Any]:
    (found,) = judge_datasets([read_plan([words])] * len(claims), [[one] for one in claims], looks)
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


def test_two_data_sets_say_little():
    found = judged(claim(2.0), claim(3.0))
    assert found["verdict"] == "undecided"
    assert found["high"] - found["low"] > 12


@pytest.mark.parametrize("gain", [0.0, 0.2])
@pytest.mark.parametrize("lead", [0.0, 0.5, 1.0])
def test_as_many_data_sets_as_are_said_to_decide_do_so(gain, lead):
    few = judged(*(claim(x, gain=gain, gain_against=gain) for x in (0.6, -0.6, 0.6, -0.6, 0.6, -0.6)))
    spread = [0.6, -0.6] * (few["decide"] // 2 + 1)
    many = judged(*(claim(lead + x, gain=gain, gain_against=gain) for x in spread), looks=2)  # it is the next look
    assert many["verdict"] != "undecided"
    enough = judged(*(claim(x, gain=0.6, gain_against=0.5) for x in (0.6, -0.6, 0.6)))
    assert enough["decide"] is None


def test_what_the_one_behind_may_still_gain_counts():
    values = [2.0, 2.5, 1.5, 3.0, 2.0]
    assert judged(*map(claim, values))["verdict"] == "better"
    assert judged(*(claim(value, gain_against=2.0) for value in values))["verdict"] == "undecided"


def test_a_failure_on_one_data_set_is_one_over_all_and_the_same_runs_are_the_same():
    failed = judged(claim(1.0), claim(2.0), claim(None, verdict="failed", broke="a"))
    assert (failed["verdict"], failed["failed"], failed["broke"], failed["low"]) == ("failed", 1, ["a"], None)
    assert over_datasets(failed, read_plan(["loss=a,b"]), "kNN") == "b: failed, a failed on 1 of 3 data sets"
    assert judged(claim(0.0, same=True), claim(0.0, same=True))["verdict"] == "equal"
    assert judged(claim(0.5), claim(0.5))["verdict"] == "undecided"


def test_a_list_of_data_sets_is_a_plan_for_each():
    plans = read_plans(["loss=nt_xent,supcon", "dataset=digits,mnist", "epochs=2", "hours=4"])
    assert [plan.common for plan in plans] == [("epochs=2", "dataset=digits"), ("epochs=2", "dataset=mnist")]
    assert {plan.hours for plan in plans} == {2.0}
    assert [own.name for own in plans[0].contestants] == ["nt_xent", "supcon"]
    one = ["loss=nt_xent,supcon", "dataset=digits"]
    assert read_plans(one) == [read_plan(one)]
    with pytest.raises(ConfigError, match="dataset=digits is there twice"):
        read_plans(["loss=nt_xent,supcon", "dataset=digits,digits"])
    with pytest.raises(
        ConfigError, match="one contestant alone is tuned on one data set at a time: try dataset=digits"
    ):
        read_plans(["loss=nt_xent", "dataset=digits,mnist"])


@pytest.mark.slow
def test_a_further_data_set_goes_on_in_the_same_folder_and_another_plan_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def folder(*words: str, own: Sequence[Path] = ()) -> Path:
        plans = read_plans(["loss=nt_xent,supcon", *words])
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return base_of(in_one_folder([contest_of(plan, own) for plan in plans]))

    two = folder("dataset=digits,biased_digits")
    assert two.name.startswith("datasets-nt_xent+supcon-")
    assert two == folder("dataset=biased_digits,digits,mnist")
    assert two == folder("dataset=digits,biased_digits", "seeds=5", "margin=2")
    assert two != folder("dataset=digits,biased_digits", "epochs=2")
    assert two != folder("dataset=digits,biased_digits", "budget=4")
    mine, found = tmp_path / "mine", []
    for name, text in (("loss", "alpha: 0.5"), ("loss", "alpha: 0.7"), ("dataset", "size: 8")):
        (mine / name).mkdir(parents=True, exist_ok=True)
        (mine / name / "own.yaml").write_text(text)
        found.append(folder("dataset=digits,biased_digits", own=[mine]))
    assert found[0] != found[1] == found[2], (
        "an edit of one's own loss is another comparison, a further data set is not"
    )
    with pytest.raises(ConfigError, match=r"on one dataset, got digits and mnist: try dataset=digits,mnist"):
        folder("rows={a: 'loss=nt_xent dataset=mnist'}")


def contests_below(folder: Path, *names: str, words: list[str] = WORDS) -> list[Contest]:
    plans = read_plans([*words, f"dataset={','.join(names)}"])
    knobs = {own.name: KNOBS for own in plans[0].contestants}
    return [
        Contest(plan=plan, knobs=knobs, base=folder / "all" / name, dataset=name)
        for plan, name in zip(plans, names, strict=True)
    ]


def made_of(lines: Lines) -> Made:
    return Made(lines.contest, dict(zip("ab", DATASETS[lines.contest.dataset], strict=True)))


def outcome(folder: Path, *names: str, launching: Callable[[Lines], Any] = made_of) -> tuple[Record, str]:
    """The record of a comparison with made-up runs, and what it says at its end."""
    contests = contests_below(folder, *names)
    done = run_each(contests, launching, [Lines(contest, f"{contest.dataset}, ") for contest in contests])
    said = answer([own.contest for own in done])
    return json.loads((folder / "all.json").read_text()), said


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Record, str]:
    folder = tmp_path_factory.mktemp("datasets")
    return folder, *outcome(folder, *DATASETS)


@pytest.mark.slow
def test_a_comparison_over_data_sets_is_shown_in_all_forms(whole):
    folder, record, said = whole
    (over,) = record["judged"]
    assert (over["verdict"], over["ahead"], over["n"]) == ("worse", 0, 3)
    assert over["effect"] == pytest.approx(np.mean(over["each"]), abs=1e-3)
    assert sentences(record)[0].startswith("b: ") and sentences(record)[0].endswith(" over 3 data sets, ahead on 0")
    assert sentences(record)[0] in said
    lines = forest(record)
    places = [*DATASETS, "all 3 data sets"]
    assert [line.split("  ")[0] for line in lines[:4]] == [f"b - a, {place}" for place in places]
    assert lines[-1] in said
    assert [row[2] for row in effects(record)] == ["data set", *places]
    assert read_plans(command(record).split()[2:])[2].common == ("dataset=cars",)
    assert "rows are data sets" in protocol_text(record) and "The same was done on each." in protocol_text(record)
    assert check_folder(folder) == (1, [])
    assert check_folder(folder / "all") == (3, [])
    assert len((folder / "all-effects.csv").read_text().splitlines()) == 5
    assert r"\label{tab:all-effects}" in (folder / "all.tex").read_text()
    page = (folder / "all.html").read_text()
    headings = ("over 3 data sets", "on digits", "on mnist", "on cars")
    order = [page.index(f"<h2>a against b {heading}</h2>") for heading in headings]
    assert order == sorted(order)


@pytest.fixture
def no_html(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages take seconds."""
    monkeypatch.setattr("contrastive.study.render.page.page", lambda records: "")


@pytest.mark.usefixtures("no_html")
def test_killed_on_the_second_data_set_it_goes_on_and_repeats_nothing(whole, tmp_path):
    started: list[Run] = []

    def launching(lines: Lines) -> Callable[[list[Run]], dict[Run, str]]:
        made = made_of(lines)

        def launch(runs: list[Run]) -> dict[Run, str]:
            if lines.contest.dataset == "mnist" and len([run for run in started if "mnist" in run.path.parts]) < 2:
                started.extend(runs[:1])
                made(runs[:1])
                raise KeyboardInterrupt
            started.extend(runs)
            return made(runs)

        return launch

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            outcome(tmp_path, *DATASETS, launching=launching)
    record, _ = outcome(tmp_path, *DATASETS, launching=launching)
    assert len({run.path for run in started}) == len(started)
    assert record["judged"] == whole[1]["judged"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_html")
def test_a_further_data_set_is_another_look_and_one_that_is_left_out_is_named(whole, tmp_path):
    record, _ = outcome(tmp_path, "digits", "cars")
    assert (record["looks"], notes(record)) == (1, [])
    every, _ = outcome(tmp_path, *DATASETS)
    assert every["looks"] == 2
    assert every["judged"][0]["low"] < whole[1]["judged"][0]["low"], "the level is shared"
    for name in DATASETS:
        (tmp_path / "all" / name / "plan.json").write_text("{}")
    fewer, _ = outcome(tmp_path, "digits", "cars")
    assert notes(fewer) == ["not in this verdict, though it lies in the same folder: mnist"]


@pytest.mark.slow
def test_a_notebook_shows_the_sentences_a_forest_and_the_effects(whole):
    _, record, _ = whole
    for own, said in ((record, "over 3 data sets, ahead on 0"), (record["datasets"]["cars"], "than a by kNN")):
        shown = verdict_html(own)
        assert said in shown
        assert "<svg" in shown and "<table" in shown and "<script" not in shown and "<html" not in shown
    assert "b alone is right about" in shown


@pytest.mark.slow
def test_real_runs_on_two_data_sets_go_on_after_a_kill(tmp_path, monkeypatch):
    """The command, killed on the second data set; then from Python, which repeats nothing."""
    numbers = ["budget=1", "finalists=0", "seeds=3"]
    (mine := tmp_path / "mine/dataset").mkdir(parents=True)
    digits = (ROOT / "configs/dataset/digits.yaml").read_text()
    (mine / "rare_digits.yaml").write_text(digits.replace("imbalance: null", "imbalance: 10"))
    words = ["loss=nt_xent,debiased_pos", "dataset=digits,rare_digits", *SMALL[1:], *numbers, "--config-dir", "mine"]
    kill_at("outputs/compare/*/rare_digits*/*/nt_xent/default/seed=1101/config.yaml", tmp_path, *words)
    done = module("compare", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " data sets find a difference of " in done.stdout or "over 2 data sets" in done.stdout
    assert "rare_digits, final: " in done.stdout and "\ndigits, final: " not in done.stdout
    assert check_folder(tmp_path / "outputs/compare") == (1, [])
    monkeypatch.chdir(tmp_path)
    settings = {"loss": ["nt_xent", "debiased_pos"], "dataset": ["digits", "rare_digits"]}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    found = contrastive.compare(*SMALL[1:], *numbers, config_dir="mine", **settings)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")} == before
    assert (found.claims, len(found.frame)) == (found.record["judged"], 12)
    assert list(found.record["datasets"]) == ["digits", "rare_digits"]
    assert "<svg" in found._repr_html_()


def a_data_set_is_left_out(record: Record) -> None:
    del record["datasets"]["mnist"]


def a_run_is_left_out(record: Record) -> None:
    del record["datasets"]["mnist"]["rows"][0]["runs"][1]


def the_verdict_of_one_is_changed(record: Record) -> None:
    record["datasets"]["mnist"]["comparison"]["judged"][0]["effect"] += 1


def the_verdict_over_all_is_changed(record: Record) -> None:
    record["judged"][0]["verdict"] = "better"


def one_stands_for_another(record: Record) -> None:
    record["datasets"]["mnist"] = record["datasets"]["digits"]


def another_margin_on_one(record: Record) -> None:
    record["datasets"]["mnist"]["comparison"]["plan"]["margin"] = 2.0


def more_epochs_on_one(record: Record) -> None:
    record["datasets"]["mnist"]["comparison"]["plan"]["common"].append("epochs=200")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (a_data_set_is_left_out, "it is of 2 data sets, which its title contradicts"),
        (a_run_is_left_out, "mnist: a: the seeds of its final runs are"),
        (the_verdict_of_one_is_changed, "mnist: the verdicts are not those of its runs"),
        (the_verdict_over_all_is_changed, "the verdicts over data sets are not those of the data sets"),
        (one_stands_for_another, "mnist: its runs are of another data set"),
        (another_margin_on_one, "mnist: another plan than on the others"),
        (more_epochs_on_one, "mnist: another plan than on the others"),
    ],
)
def test_verify_finds_what_was_changed(whole, tmp_path, capsys, change, said):
    folder, record, _ = whole
    assert faults(record) == []
    changed = copy.deepcopy(record)
    change(changed)
    (tmp_path / "all.md").write_text((folder / "all.md").read_text())
    (tmp_path / "all.json").write_text(json.dumps(changed))
    assert main(["--table", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err


def test_a_damaged_record_is_one_sentence(whole, tmp_path):
    record = copy.deepcopy(whole[1])
    record["datasets"]["mnist"]["rows"] = 3
    (tmp_path / "all.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match=r"all\.json is damaged or of an older version \(rows\)"):
        check_folder(tmp_path)
