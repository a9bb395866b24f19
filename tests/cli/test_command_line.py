"""The program as its user meets it: whole processes, wrong words, sweeps, components of one's own."""

import json
import re
import subprocess
import sys

import pytest

from contrastive.__main__ import COMMANDS, main
from contrastive.cli.train import flags_first
from tests import forked
from tests.helpers import BARE, ONE_THREAD, ROOT, TINY, logged_lines, module, program, python, write_files

QUICK = [*TINY, "epochs=1"]


def test_flags_may_stand_between_overrides():
    words = ["loss=mine", "--config-dir", "mine", "epochs=1", "-m", "--cfg", "job", "seed=0,1"]
    assert flags_first(words) == ["--config-dir", "mine", "-m", "--cfg", "job", "loss=mine", "epochs=1", "seed=0,1"]


def test_the_one_command_lists_the_others(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in COMMANDS)
    assert main(["tran"]) == 2
    assert capsys.readouterr().err == "error: there is no command tran: try contrastive train\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "missing"),
    [([str(ROOT / "train.py")], "lazy_loader"), ([str(ROOT / "train.py")], "hydra"),
     (["-m", "contrastive", "runs"], "lazy_loader"), (["-m", "contrastive", "evaluate"], "hydra")],
)  # fmt: skip
def test_a_python_without_the_packages_is_told_what_to_type(tmp_path, words, missing):
    (tmp_path / "sitecustomize.py").write_text(f"import sys; sys.modules['{missing}'] = None")
    done = python(*words, cwd=tmp_path, env={**ONE_THREAD, "PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr == f"error: this Python lacks {missing}: try . .venv/bin/activate, or make setup\n"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "train"])
def test_every_command_explains_itself_and_refuses_in_one_sentence(name, capsys):
    assert main([name, "--help"]) == 0
    assert "    python -m contrastive" in (said := capsys.readouterr().out) or said.startswith("usage: python -m")
    assert main([name, "--nothing"]) == 2
    assert re.fullmatch(r"error: [^\n]+: try python -m contrastive[^\n]+ --help\n", capsys.readouterr().err)


@pytest.mark.slow
def test_what_only_shows_writes_nothing(tmp_path):
    done = program("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "debiased_pos" in done.stdout
    assert "image_folder" in done.stdout
    assert "batch_size: 512" in program("dataset=cifar10", "--cfg", "job", cwd=tmp_path).stdout
    dry = program(*QUICK, "dry_run=true", cwd=tmp_path)
    assert "1 epoch of 5 steps" in dry.stdout, dry.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize("words", ["train.py --help", "-m contrastive report studies/biased_digits/record.json"])
def test_a_command_can_be_piped_into_a_program_that_ends_early(words):
    command = f"{sys.executable} {words} | true"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, env=ONE_THREAD)
    assert done.stderr == ""


@pytest.mark.slow
def test_a_sweep_ends_with_a_table(tmp_path):
    words = ["-m", "loss=nt_xent,debiased_neg", "seed=0,1", 'data_root="data/${seed}"', *QUICK]
    done = program(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert all("(2)" in row and "±" in row for row in rows[2:4])
    assert len(list(tmp_path.glob("outputs/digits*/*/*/seed=*/result.json"))) == 4


@pytest.mark.slow
def test_a_sweep_names_failures_and_does_nothing_twice(tmp_path):
    words = ["-m", "hydra/launcher=basic", "loss=nt_xent,debiased_pos", "tau_plus=0.1,0.001", *QUICK]
    for n_done in (0, 3):
        done = program(*words, cwd=tmp_path)
        assert done.returncode != 0
        assert done.stdout.count("done already") == n_done
        assert "try batch_size=" in done.stdout
        assert "Traceback" not in done.stderr.split("Error executing job")[0]
        assert len(list(tmp_path.glob("outputs/digits*/*/*/seed=*/result.json"))) == 3
    assert len(list(tmp_path.glob("outputs/digits*/*/*tau_plus=0.001*/seed=*/result.json"))) == 1


PARTS = """
import torch
from torch.nn.functional import softplus
from contrastive import Evaluator, SelfSupervisedLoss, other_image
class MyLoss(SelfSupervisedLoss):
    def per_anchor(self, pairs):
        return softplus(pairs.log_sum_exp(other_image) - pairs.positive_logits[:, 0])
class Rank(Evaluator):
    protocol = 'rank of the test features'
    def __call__(self, features):
        return {'': float(torch.linalg.matrix_rank(features.test.h))}
"""


@pytest.mark.slow
def test_every_command_knows_components_of_ones_own(tmp_path):
    """A loss and an evaluator, one file and one YAML each: evaluate, a sweep and a table read them, too."""
    yaml = "_target_: my_parts.MyLoss\ntemperature: ${temperature}\naggregation: loss_combination\n"
    write_files(tmp_path, {
        "mine/my_parts.py": PARTS,
        "mine/evaluator/rank.yaml": "# @package evaluator.rank\n_target_: my_parts.Rank\n",
        "mine/loss/my_loss.yaml": yaml + "drop_false_negatives: false\n",
    })  # fmt: skip
    words, mine = ["--config-dir", "mine", *BARE, "epochs=1", "evaluator=[knn,rank]"], tmp_path / "mine-run"
    done = program(*words, "loss=my_loss", f"hydra.run.dir={mine}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert program(*words, "loss=nt_xent", "hydra.run.dir=theirs", cwd=tmp_path).returncode == 0
    theirs = [{k: v for k, v in line.items() if k != "train/chance"} for line in logged_lines(tmp_path / "theirs")]
    assert logged_lines(mine) == theirs  # only a loss of the package says what it is by chance
    result = json.loads((mine / "result.json").read_text())
    assert 1 <= result["test"]["rank"] <= 16
    assert result["protocol"]["rank"] == "rank of the test features"
    later = module("evaluate", str(mine), "--config-dir", "mine", "evaluator=rank", cwd=tmp_path)
    assert f"{result['test']['rank']:.2f}" in later.stdout and "rank as recorded" in later.stdout, later.stderr
    swept = program("-m", "hydra/launcher=basic", *words, "seed=0,1", cwd=tmp_path)
    told = module("report", "outputs", "--metric", "rank", cwd=tmp_path)
    assert "mean ± std" in swept.stdout and "| rank" in told.stdout, told.stderr
    table = [str(ROOT / "scripts/reproduce_table.py"), "digits", "--seeds", "1", *words]
    reproduced = forked.run(table, cwd=tmp_path, env=ONE_THREAD)
    assert reproduced.returncode == 0, reproduced.stderr
    assert "rank" in next(line for line in reproduced.stdout.splitlines() if line.startswith("| method"))
    twice = PARTS.replace("pairs.positive_logits", "2 * pairs.positive_logits")
    (tmp_path / "mine/my_parts.py").write_text(twice)
    changed = program(*words, "loss=my_loss", f"hydra.run.dir={mine}", cwd=tmp_path)
    assert "changed since it was made: code;" in changed.stdout
