"""The program as its user meets it: whole processes, killed processes, wrong words."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.conftest import ONE_THREAD, ROOT, TINY, program
from tests.test_run import lines, weights

QUICK = [*TINY, "epochs=1"]


def wait_for(path: Path, process: subprocess.Popen) -> None:
    """Until the file is there."""
    for _ in range(1200):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError(f"{path} never came")


def heed_ctrl_c() -> None:
    """Undo what a shell does to programs it starts in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_one_run_prints_what_happened_and_what_to_type_next(tmp_path):
    done = program("loss=debiased_pos", "tau_plus=0.1", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for said in (
        "kNN",
        "linear probe",
        "untrained",
        "few-shot",
        "tensorboard --logdir",
        "python train.py dataset=cifar10 loss=debiased_pos tau_plus=0.1",
    ):
        assert said in done.stdout
    assert "epoch" in done.stderr
    assert "views_per_s" in done.stderr
    (result,) = tmp_path.glob("outputs/digits/debiased_pos/*/seed=0/result.json")
    assert json.loads(result.read_text())["status"] == "done"
    assert not list(tmp_path.rglob("*.log"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["epocs=3"], "there is no setting epocs"),
        (["loss=unknown"], "debiased_neg"),
        (["loss.tau_pluss=3", "loss=debiased_neg"], "loss.tau_pluss"),
        (["temperature=0"], "try temperature=0.5"),
        (["los=nt_xent"], "there is no setting los"),
        (["epochs="], "epochs"),
        (["loss=null"], "a group needs one of its options"),
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


def test_help_and_the_composed_configuration(tmp_path):
    done = program("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "debiased_pos" in done.stdout
    assert "image_folder" in done.stdout
    shown = program("dataset=cifar10", "--cfg", "job", cwd=tmp_path)
    assert "batch_size: 512" in shown.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path, how):
    words = [*TINY, "epochs=12", "log_every=2"]
    whole = program(*words, f"hydra.run.dir={tmp_path}/whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    path = tmp_path / "stopped"
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *words, f"hydra.run.dir={path}"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=ONE_THREAD,
        preexec_fn=heed_ctrl_c,
    )
    wait_for(path / "checkpoints/last.pt", process)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    assert how == signal.SIGKILL or "same command again" in said.splitlines()[-1]
    assert not (path / "result.json").exists()
    again = program(*words, f"hydra.run.dir={path}", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "resuming after epoch" in again.stdout
    assert lines(path) == lines(tmp_path / "whole")
    expected, got = weights(tmp_path / "whole"), weights(path)
    assert all(torch.equal(got[key], expected[key]) for key in expected)
    assert not list(path.rglob("*.part"))


def test_a_sweep_ends_with_a_table_and_tells_of_failures(tmp_path):
    words = ["-m", "loss=nt_xent,debiased_neg", "seed=0,1", *QUICK]
    done = program(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 4
    assert all("(2)" in row and "±" in row for row in rows[2:])
    assert len(list(tmp_path.glob("outputs/digits/*/*/seed=*/result.json"))) == 4

    failing = program("-m", "loss=nt_xent,debiased_pos", *QUICK, "tau_plus=0.1,0.001", cwd=tmp_path)
    assert failing.returncode != 0
    assert "done already" not in failing.stdout  # another tau_plus, another name
    assert "tau_plus * batch_size must be at least 0.5" in failing.stdout
    assert "Traceback" not in failing.stderr.split("Error executing job")[0]
    assert len(list(tmp_path.glob("outputs/digits/*/*tau_plus*/seed=*/result.json"))) == 3

    again = program(*words, cwd=tmp_path)
    assert again.stdout.count("done already") == 4


def test_a_loss_of_ones_own_is_one_file_and_one_yaml(tmp_path):
    (tmp_path / "mine/loss").mkdir(parents=True)
    (tmp_path / "my_loss.py").write_text(
        "from torch.nn.functional import softplus\n"
        "from contrastive.pairs.relations import other_image\n"
        "from contrastive.loss.base import SelfSupervisedLoss\n"
        "class MyLoss(SelfSupervisedLoss):\n"
        "    def per_anchor(self, pairs):\n"
        "        return softplus(pairs.log_sum_exp(other_image) - pairs.positive_logits[:, 0])\n"
    )
    (tmp_path / "mine/loss/my_loss.yaml").write_text(
        "_target_: my_loss.MyLoss\ntemperature: ${temperature}\naggregation: loss_combination\n"
        "drop_false_negatives: false\n"
    )
    done = program(
        "--config-dir", "mine", "loss=my_loss", *QUICK, cwd=tmp_path, env={**ONE_THREAD, "PYTHONPATH": str(tmp_path)}
    )
    assert done.returncode == 0, done.stderr
    theirs = program("loss=nt_xent", *QUICK, cwd=tmp_path)
    assert theirs.returncode == 0
    first, second = (lines(path.parent) for path in sorted(tmp_path.glob("outputs/digits/*/*/*/result.json")))
    assert first == second
    path = tmp_path / "my_loss.py"
    path.write_text(path.read_text().replace("pairs.positive_logits", "2 * pairs.positive_logits"))
    changed = program(
        "--config-dir", "mine", "loss=my_loss", *QUICK, cwd=tmp_path, env={**ONE_THREAD, "PYTHONPATH": str(tmp_path)}
    )
    assert "made by other code" in changed.stdout
