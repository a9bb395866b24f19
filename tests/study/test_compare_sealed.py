"""A comparison has one code, one data and one process; its runs fail for their own reasons alone."""

import json
import math
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch import Tensor

from contrastive import NTXent, Pairs
from contrastive.errors import ConfigError
from contrastive.experiment.run import run_experiment
from contrastive.files import file_hash
from contrastive.run.files import lock, read_failure, read_result
from contrastive.run.run import Run
from contrastive.study.compare import engine
from contrastive.study.compare.check import faults
from contrastive.study.compare.contest import Contest, due
from contrastive.study.compare.outcome import comparison_record
from contrastive.study.compare.seal import check_machine
from contrastive.study.compare.trial import Trial
from tests.helpers import TINY, compose_settings, further, module, write_files
from tests.study.made_up import contest_of, run_all
from tests.study.processes import comparing, until
from tests.study.test_compare_command import SMALL as OF_A_COMMAND

SMALL = [*OF_A_COMMAND, "encoder.width=4", "tracker=[]", "budget=1", "seeds=3"]
LOSS = '''"""NT-Xent that a helper scales."""
from torch import Tensor
from contrastive import NTXent, Pairs
from contrastive.errors import ConfigError
from my_scale import SCALE


class Scaled(NTXent):
    """NT-Xent times a number."""

    def per_anchor(self, pairs: Pairs) -> Tensor:
        return SCALE * super().per_anchor(pairs)
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder of --config-dir with a loss that imports a helper."""
    yaml = "_target_: scaled.Scaled\ntemperature: ${temperature}\n"
    files = {"loss/scaled.yaml": yaml, "scaled.py": LOSS, "my_scale.py": "SCALE = 1.0\n"}
    return write_files(tmp_path / "mine", files)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Contest:
    """A contest whose runs are made up, with a record beside it."""
    contest, made = contest_of(tmp_path_factory.mktemp("searched"), "budget=12", "seeds=3", a=70.0, b=69.0)
    assert run_all(contest, made) == []
    comparison_record(contest)
    return contest


@pytest.mark.slow
def test_an_edit_while_it_runs_stops_it_and_is_another_comparison_afterwards(tmp_path, mine):
    words = ["loss=nt_xent,scaled", *SMALL, "--config-dir", "mine", "--jobs", "1"]
    with comparing(tmp_path, *words) as process:
        until(lambda: list(tmp_path.rglob("seed=1100/config.yaml")), process, tmp_path)
        (mine / "my_scale.py").write_text("SCALE = -1.0\n")
        assert process.wait() == 2, (tmp_path / "said.txt").read_text()
    assert f"the code of contrastive itself or {tmp_path}/mine changed while" in (tmp_path / "said.txt").read_text()
    (plan,) = tmp_path.glob("outputs/compare/*/plan.json")
    assert not list(plan.parent.rglob("*.py"))
    again = module("compare", *words, "dry_run=true", cwd=tmp_path)  # the helper alone is another one now
    assert "6 runs at most: " in again.stdout
    assert f"runs in {plan.parent.relative_to(tmp_path)}\n" not in again.stdout
    (mine / "my_scale.py").write_text("SCALE = 1.0\n")
    done = module("compare", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    environments = [json.loads(file.read_text()) for file in tmp_path.rglob("scaled/*/*/environment.json")]
    sealed = json.loads(plan.read_text())
    assert environments[0]["modules"] == sealed["made_of"]["contestants"]["scaled"]["modules"]
    assert environments[0]["modules"].keys() == {"scaled", "my_scale"}
    assert all(one["modules"] == environments[0]["modules"] for one in environments) and len(environments) == 3
    assert set(sealed["data"].values()) == {one["data"] for one in environments}
    (record,) = tmp_path.glob("outputs/compare/*.json")
    assert json.loads(record.read_text())["comparison"]["sealed"]["made_of"] == sealed["made_of"]
    (page,) = tmp_path.glob("outputs/compare/*.md")
    assert "--config-dir mine`" in page.read_text()


@pytest.mark.parametrize("place", ["*/plan.json", "looks/digits-a+b-*.json", "*/search=1/a/points.json"])
@pytest.mark.parametrize("content", ["", "\0", "null", "{}", '[[1], "x"]', '{"made_of": 1, "data": {}}'])
def test_what_a_comparison_wrote_down_is_a_sentence_where_it_is_damaged(searched, place, content):
    file = next(searched.base.parent.glob(place))
    before = file.read_text()
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"json is damaged.*: try rm "):
        comparison_record(searched)
    file.write_text(before)


THERE, HERE = ("cpu", "fp32", "2"), ("cpu (oneDNN AVX2)", "fp32", "2")


@pytest.mark.parametrize(
    ("words", "away", "here", "said"),
    [
        (["budget=1"], "b, seed 1101", [THERE], None),
        (["budget=1"], "b, seed 1101", [HERE], "final, a, seed 1101 was trained .*a/default/seed=1101 and the same"),
        (["budget=1"], "no run", [HERE], None),
        (["budget=4"], "b, point 2", [HERE], r"final, a, seed 1100 and \d more were trained"),
        (["budget=1"], "b, seed 1101", [HERE, THERE], r"got fp32 on cpu and fp32 on cpu \(.*: try precision=fp32"),
    ],
)
def test_runs_that_lie_there_are_pairs_of_those_that_begin(tmp_path, monkeypatch, words, away, here, said):
    """A seed whose runs are all done may be of another machine."""
    monkeypatch.setattr(engine, "PAUSE", 0)
    contest, made = contest_of(tmp_path, *words, "seeds=3", a=70.0, b=69.0)
    made.away = {away}
    run_all(contest, made)
    with nullcontext() if said is None else pytest.raises(ConfigError, match=said):
        check_machine(contest, here)


def edited(run: Run, **changed: Any) -> None:
    file = run.path / "environment.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))


def of_replaced_weights(run: Run) -> None:
    file = run.path.parents[4] / "start.safetensors"
    file.write_bytes(b"first")
    config = yaml.safe_load((run.path / "config.yaml").read_text())
    config["encoder"] = {**config["encoder"], "weights": str(file)}
    (run.path / "config.yaml").write_text(yaml.safe_dump(config))
    edited(run, weights=file_hash(file))
    file.write_bytes(b"trained again")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (partial(edited, package="2"), "by other code than this comparison began with"),
        (partial(edited, package="1", earlier=[{"package": "2"}]), "by other code than this comparison began"),
        (partial(edited, modules={"my_loss": "2"}), "by other code than this comparison began with"),
        (partial(edited, overrides=["temperature=0.123"]), "with other settings than belong there now"),
        (of_replaced_weights, "from other weights or images of transfer than there are now"),
    ],
)
def test_a_run_that_was_made_otherwise_is_refused_before_any_other_begins(tmp_path, change, said):
    modules = {"contestants": {name: {"modules": {"my_loss": "1"}} for name in "ab"}}
    contest, made = contest_of(tmp_path, "budget=4", "seeds=3", made_of={"package": "1", **modules}, a=70.0, b=69.0)
    made(due(contest)[:3])
    change(made.started[1])
    with pytest.raises(ConfigError, match=f"search, a, point 2 was trained {said}.*: try rm -r .* and the") as refused:
        run_all(contest, made)
    assert len(made.started) == 3
    shutil.rmtree(re.search(r"rm -r (\S+)", str(refused.value))[1])
    assert run_all(contest, made) == []
    assert faults(comparison_record(contest)) == []


def test_runs_of_two_machines_are_no_pair(tmp_path):
    contest, made = contest_of(tmp_path, "budget=1", "seeds=3", a=70.0, b=69.0)
    assert run_all(contest, made) == []
    run = next(run for run in made.started if str(run) == "final, b, seed 1101")
    edited(run, processor="cpu (oneDNN AVX2)")
    said = rf"seed 1101 was trained on another kind of machine, .*: try rm -r {re.escape(str(run.path))} and the same"
    with pytest.raises(ConfigError, match=said):
        run_all(contest, made)


def test_data_that_change_stop_it_before_the_next_run(tmp_path, monkeypatch):
    contest, made = contest_of(tmp_path, "budget=1", "seeds=4", a=70.0, b=69.0)

    def run_here(runs: Sequence[Run], *, say: Callable[[int, int, Run, None], None], **_: object) -> dict[Run, str]:
        for i, run in enumerate(runs, start=1):
            made([run])
            if i == 4:
                environment = json.loads((run.path / "environment.json").read_text())
                (run.path / "environment.json").write_text(json.dumps({**environment, "data": "other"}))
            say(i, len(runs), run, None)
        return {}

    monkeypatch.setattr(engine, "run_here", run_here)
    trial = Trial(minutes=1.0, memory="", is_finite=True, data={}, n_images=400, pair=THERE)
    monkeypatch.setattr(engine, "try_contestants", lambda *_, **__: {"a": trial, "b": trial})
    monkeypatch.setattr(engine, "contest_of", lambda *_: contest)
    monkeypatch.setattr(engine, "check_code", lambda _: None)
    with pytest.raises(ConfigError, match=r"the data are other than those that .* began with: put them back, or try"):
        engine.run_comparison(["loss=nt_xent,supcon", "device=cpu"])
    assert len(made.started) == 4
    with pytest.raises(ConfigError, match=r"final, a, seed 1103 was trained on other data .*: try rm -r "):
        engine.run_comparison(["loss=nt_xent,supcon", "device=cpu"])
    assert len(made.started) == 4


def test_a_second_process_in_one_folder_is_answered_at_once(tmp_path):
    contest, _ = contest_of(tmp_path, "budget=1", "seeds=3", a=70.0, b=69.0)
    said = r"another process \(pid .* wait for it, then the same command shows what came out"
    with lock(contest.base), pytest.raises(ConfigError, match=said):
        engine.run_contests([contest], pytest.fail, pytest.fail)


@pytest.mark.slow
def test_a_bug_in_a_contestant_is_found_before_any_run(tmp_path, mine):
    (mine / "my_scale.py").write_text("class Broken:\n    def __mul__(self, x):\n        return 1 / nothing\n\n"
                                      "SCALE = Broken()\n")  # fmt: skip
    done = module("compare", "loss=nt_xent,scaled", *SMALL, "--config-dir", str(mine), cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "scaled cannot be trained: NameError: name 'nothing' is not defined" in done.stderr
    assert f"{mine}/my_scale.py, line 3, in __mul__" in done.stderr
    assert not list(tmp_path.rglob("config.yaml"))


class Broken(NTXent):
    """A loss that breaks as its temperature says."""

    def per_anchor(self, pairs: Pairs) -> Tensor:
        if pairs.temperature == 3:
            return pairs.positive_logits[:, 0] * math.nan
        raise (OSError("data are away") if pairs.temperature == 2 else ValueError("a bug"))


@pytest.mark.parametrize(
    ("temperature", "reason"), [(1, "ValueError: a bug"), (3, "loss not finite"), *further((2, None))]
)
def test_what_breaks_in_a_loss_is_its_own_failure_but_not_one_of_the_machine(tmp_path, temperature, reason):
    settings = compose_settings(*TINY)
    settings.loss = {"_target_": f"{__name__}.Broken", "temperature": temperature}
    with pytest.raises((OSError, ValueError, ConfigError)):
        run_experiment(settings, tmp_path / "run")
    assert (read_failure(tmp_path / "run"), read_result(tmp_path / "run")) == (reason, None)
