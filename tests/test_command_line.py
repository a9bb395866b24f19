"""The program as its user meets it: whole processes, killed processes, wrong words."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from contrastive.__main__ import COMMANDS, main
from contrastive.cli.train import flags_first
from tests import forked
from tests.helpers import (
    ONE_THREAD,
    ROOT,
    TINY,
    fresh_program,
    logged_lines,
    module,
    program,
    restore_sigint,
    saved_weights,
    wait_for,
)

QUICK = [*TINY, "epochs=1"]
BARE = [word for word in TINY if not word.startswith("evaluator.")]


def test_flags_may_stand_between_overrides():
    words = ["loss=mine", "--config-dir", "mine", "epochs=1", "-m", "--cfg", "job", "seed=0,1"]
    assert flags_first(words) == ["--config-dir", "mine", "-m", "--cfg", "job", "loss=mine", "epochs=1", "seed=0,1"]


def test_the_one_command_lists_the_others(capsys):
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {name} " in said for name in COMMANDS)
    assert main(["tran"]) == 2
    assert capsys.readouterr().err == "error: there is no command tran: try contrastive --help\n"


@pytest.mark.slow
def test_one_run_prints_what_happened_and_what_to_type_next(tmp_path):
    done = fresh_program("loss=debiased_pos", "tau_plus=0.1", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in ("knn_top1", "linear_top1", "few_shot_top1", "untrained", "tensorboard --logdir"):
        assert text in done.stdout
    assert "epoch 1/1" in done.stdout
    assert "views/s" in done.stdout
    (result,) = tmp_path.glob("outputs/digits/debiased_pos/*/seed=0/result.json")
    assert json.loads(result.read_text())["test"]
    assert not list(tmp_path.rglob("*.log"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["epocs=3"], "there is no setting epocs", marks=pytest.mark.smoke),
        (["loss=unknown"], "debiased_neg"),
        (["loss.tau_pluss=3", "loss=debiased_neg"], "loss.tau_pluss"),
        (["temperature=0"], "try temperature=0.5"),
        (["los=nt_xent"], "there is no setting los"),
        (["epochs="], "epochs must be a whole number, got nothing"),
        (["epochs"], "epochs is not KEY=VALUE"),
        (["loss="], "known are bias_balanced"),
        (["encoder.width=wide"], "encoder.width must be a whole number, got wide: try encoder.width=64"),
        (["loss=null"], "these words make no configuration"),
        (["dataset=image_folder", "dataset.root=/no/such/folder", "dataset.size=32"], "/no/such/folder"),
        (["dataset=image_folder"], "dataset.root=PATH"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path, words, said):
    done = program(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "python train.py" in done.stderr or "try " in done.stderr
    assert not list(tmp_path.rglob("seed=*"))


@pytest.mark.slow
def test_help_and_the_composed_configuration(tmp_path):
    done = program("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "debiased_pos" in done.stdout
    assert "image_folder" in done.stdout
    shown = program("dataset=cifar10", "--cfg", "job", cwd=tmp_path)
    assert "batch_size: 512" in shown.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_help_can_be_piped_into_a_program_that_ends_early(tmp_path):
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), "--help"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 1


@pytest.mark.slow
def test_resume_after_ctrl_c_is_bit_exact(tmp_path):
    words = [*BARE, "epochs=8", "log_every=2", "evaluator=[knn]"]
    whole = program(*words, f"hydra.run.dir={tmp_path}/whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    path = tmp_path / "stopped"
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *words, f"hydra.run.dir={path}"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
        preexec_fn=restore_sigint,
    )
    wait_for(path / "checkpoints/last.pt", process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "same command again" in said.splitlines()[-1]
    assert not (path / "result.json").exists()
    again = program(*words, f"hydra.run.dir={path}", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "resuming after epoch" in again.stdout
    assert logged_lines(path) == logged_lines(tmp_path / "whole")
    expected, got = saved_weights(tmp_path / "whole"), saved_weights(path)
    assert all(torch.equal(got[key], expected[key]) for key in expected)
    assert not list(path.rglob("*.part"))


@pytest.mark.smoke
def test_a_sweep_ends_with_a_table(tmp_path):
    words = ["-m", "loss=nt_xent,debiased_neg", "seed=0,1", *QUICK]
    done = program(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 5
    assert all("(2)" in row and "±" in row for row in rows[2:4])
    assert rows[4].startswith("| untrained")
    assert len(list(tmp_path.glob("outputs/digits/*/*/seed=*/result.json"))) == 4


@pytest.mark.slow
def test_a_sweep_names_failures_and_does_nothing_twice(tmp_path):
    words = ["-m", "hydra/launcher=basic", "loss=nt_xent,debiased_pos", "tau_plus=0.1,0.001", *QUICK]
    for n_done in (0, 3):
        done = program(*words, cwd=tmp_path)
        assert done.returncode != 0
        assert done.stdout.count("done already") == n_done
        assert "tau_plus * batch_size must be at least 0.5" in done.stdout
        assert "Traceback" not in done.stderr.split("Error executing job")[0]
        assert len(list(tmp_path.glob("outputs/digits/*/*/seed=*/result.json"))) == 3
    assert len(list(tmp_path.glob("outputs/digits/*/*tau_plus=0.001*/seed=*/result.json"))) == 1


@pytest.mark.slow
def test_a_users_loss_needs_one_file_and_one_yaml(tmp_path):
    (tmp_path / "mine/loss").mkdir(parents=True)
    (tmp_path / "mine/my_loss.py").write_text(
        "from torch.nn.functional import softplus\n"
        "from contrastive import SelfSupervisedLoss, other_image\n"
        "class MyLoss(SelfSupervisedLoss):\n"
        "    def per_anchor(self, pairs):\n"
        "        return softplus(pairs.log_sum_exp(other_image) - pairs.positive_logits[:, 0])\n"
    )
    (tmp_path / "mine/loss/my_loss.yaml").write_text(
        "_target_: my_loss.MyLoss\ntemperature: ${temperature}\naggregation: loss_combination\n"
        "drop_false_negatives: false\n"
    )
    done = program("--config-dir", "mine", "loss=my_loss", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    theirs = program("loss=nt_xent", *QUICK, cwd=tmp_path)
    assert theirs.returncode == 0
    runs = [path.parent for path in sorted(tmp_path.glob("outputs/digits/*/*/*/result.json"))]
    first, second = (logged_lines(run) for run in runs)
    assert first == second
    (mine,) = (run for run in runs if "my_loss" in run.parts)
    assert "try --config-dir with the folder of the module" in module("verify", str(mine), cwd=tmp_path).stderr
    verified = module("verify", "--config-dir", "mine", str(mine), cwd=tmp_path)
    assert " 0 failed" in verified.stdout, verified.stderr
    path = tmp_path / "mine/my_loss.py"
    path.write_text(path.read_text().replace("pairs.positive_logits", "2 * pairs.positive_logits"))
    path = path.rename(tmp_path / "my_loss.py")  # a module of the current folder, made importable by the user
    changed = program(
        "--config-dir", "mine", "loss=my_loss", *QUICK, cwd=tmp_path, env={**ONE_THREAD, "PYTHONPATH": str(tmp_path)}
    )
    assert "made by other code" in changed.stdout


@pytest.mark.slow
def test_plain_accumulation_is_refused_with_the_reason(tmp_path):
    done = program("accumulate_grad_batches=4", cwd=tmp_path)
    assert done.returncode == 2
    assert "another loss" in done.stderr
    assert "grad_cache_chunk=128" in done.stderr


@pytest.mark.slow
def test_the_imagenet100_recipe_on_a_small_folder(tmp_path):
    rng = np.random.default_rng(0)
    for split, n in (("train", 12), ("test", 3)):
        for name in ("n01440764", "n02077923", "n03954731"):
            folder = tmp_path / split / name
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = rng.integers(0, 256, (rng.integers(40, 70), rng.integers(40, 70), 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.JPEG")
    words = [
        "experiment=imagenet100",
        f"dataset.root={tmp_path}",
        f"data_root={tmp_path}",
        "dataset.size=48",
        "device=cpu",
        "augmentation.ops.crop.size=32",
        "augmentation.ops.blur.kernel_size=5",
        "encoder.width=2",
        "batch_size=12",
        "epochs=2",
        "resident=false",
        "evaluator.linear.max_iter=5",
    ]
    done = program(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("cache/*.images"))) == 2
    assert "epochs of 3 batches" in done.stdout
    (config,) = tmp_path.glob("outputs/image_folder*/nt_xent/*/seed=0/config.yaml")
    assert "stem: large" in config.read_text()


@pytest.mark.slow
def test_a_users_evaluator_needs_one_file_and_one_yaml(tmp_path):
    (tmp_path / "mine/evaluator").mkdir(parents=True)
    (tmp_path / "my_rank.py").write_text(
        "import torch\n"
        "from contrastive import Evaluator\n"
        "class Rank(Evaluator):\n"
        "    protocol = 'rank of the test features'\n"
        "    def __call__(self, features):\n"
        "        return {'': float(torch.linalg.matrix_rank(features.test.h))}\n"
    )
    (tmp_path / "mine/evaluator/my_rank.yaml").write_text("# @package evaluator.my_rank\n_target_: my_rank.Rank\n")
    env = {**ONE_THREAD, "PYTHONPATH": str(tmp_path)}
    words = ["--config-dir", "mine", "evaluator=[knn,my_rank]"]
    small = [*BARE, "epochs=1"]
    done = program(*words, *small, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("outputs/digits/nt_xent/*/seed=0")
    result = json.loads((path / "result.json").read_text())
    assert 1 <= result["test"]["my_rank"] <= 16
    assert result["protocol"]["my_rank"] == "rank of the test features"
    assert "my_rank" in done.stdout
    assert any("test/my_rank" in line for line in logged_lines(path))
    (tmp_path / "my_rank.py").rename(tmp_path / "mine/my_rank.py")
    later = module("evaluate", str(path), "--config-dir", "mine", "evaluator=my_rank", cwd=tmp_path)
    assert f"{result['test']['my_rank']:.2f}" in later.stdout, later.stderr
    (tmp_path / "mine/my_rank.py").rename(tmp_path / "my_rank.py")
    swept = program("-m", "hydra/launcher=basic", *words, *small, "seed=0,1", cwd=tmp_path, env=env)
    assert "my_rank" in swept.stdout.split("mean ± std")[1]
    table = forked.run(
        [str(ROOT / "scripts/reproduce_table.py"), "digits", "--seeds", "1", *words, *small], cwd=tmp_path, env=env
    )
    assert table.returncode == 0, table.stderr
    assert "my_rank" in next(line for line in table.stdout.splitlines() if line.startswith("| method"))
