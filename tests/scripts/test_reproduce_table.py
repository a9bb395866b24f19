"""`make reproduce-table` as its user meets it."""

import contextlib
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tables import engine

from contrastive.config import CONFIGS
from contrastive.distributed.hardware import reproducibly
from tests import forked

pytestmark = pytest.mark.slow
WORDS = ["device=cpu", "evaluator=[knn]"]


def reproduce(*words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """The command in this process; its runs are processes."""
    forked.start_server()
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(cwd)
        patch.setenv("OMP_NUM_THREADS", "1")
        code = engine.main(list(words))
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def test_an_unknown_table_or_word_is_one_sentence(tmp_path):
    done = reproduce("none", cwd=tmp_path)
    assert done.returncode == 2
    assert ", biased_digits, " in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory) -> Path:
    """The folder in which the smoke preset of the digits was run."""
    folder = tmp_path_factory.mktemp("reproduced")
    done = reproduce("digits", "--preset", "smoke", *WORDS, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


RESULTS = "outputs/table/digits-smoke-*/*/seed=0/result.json"


@pytest.mark.smoke
def test_a_table_has_its_runs_and_pages_that_are_verified(reproduced):
    assert len(list(reproduced.glob(RESULTS))) == 3
    (page,) = reproduced.glob("outputs/table/digits-smoke-*.md")
    assert "| epochs | 1 |\n" in page.read_text()
    rows = json.loads(page.with_suffix(".json").read_text())["rows"]
    assert all(set(reproducibly(WORDS)) <= set(row["overrides"]) for row in rows)
    assert "<h2>Embedded digits</h2>" in page.with_suffix(".html").read_text()
    assert "smoke preset, not the published setting" in page.read_text()
    assert engine.main(["--verify", str(page.parent)]) == 0


def test_a_run_on_record_is_trained_again_and_compared_to_the_bit(reproduced, tmp_path):
    (record,) = reproduced.glob("outputs/table/digits-smoke-*.json")
    same = reproduce("--retrain", str(record), cwd=tmp_path)
    assert (same.returncode, "the same weights, to the last bit" in same.stdout) == (0, True), same.stderr
    other = json.loads(record.read_text())
    other["rows"][0]["runs"][0]["weights"] = "0" * 64
    (tmp_path / "other.json").write_text(json.dumps(other))
    done = reproduce("--retrain", "other.json", "threads=1", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "not the same weights, to the last bit\n  knn_top1: " in done.stdout


def test_what_is_not_done_is_run_again_where_it_would_end_and_other_settings_are_refused(reproduced, tmp_path):
    shutil.copytree(reproduced, tmp_path, dirs_exist_ok=True)
    results = sorted(tmp_path.glob(RESULTS))
    times = [path.stat().st_mtime_ns for path in results]
    results[1].unlink()  # as if killed before its end
    short = reproduce("digits", "--preset", "smoke", "--seconds", "20", *WORDS, cwd=tmp_path)
    assert short.returncode == 2
    assert "error: 1 run would not have ended in --seconds 20: try the same command again" in short.stderr
    assert runs_of_rows(tmp_path) == [0, 1, 1] and not results[1].exists()
    again = reproduce("digits", "--preset", "smoke", "--seconds", "900", *WORDS, cwd=tmp_path)
    assert (again.returncode, "2 of 3 runs are done" in again.stdout) == (0, True), again.stderr
    assert [path.stat().st_mtime_ns == at for path, at in zip(results, times, strict=True)] == [True, False, True]
    config = results[0].with_name("config.yaml")
    config.write_text(config.read_text().replace("epochs: 1", "epochs: 2"))  # as if the table's YAML had changed
    other = reproduce("digits", "--preset", "smoke", *WORDS, cwd=tmp_path)
    assert other.returncode == 1
    holds = "holds a run with other settings, data or code of yours: try removing it"
    assert f"{results[0].parent.relative_to(tmp_path)} {holds}" in other.stderr
    assert runs_of_rows(tmp_path) == [0, 1, 1]


def runs_of_rows(folder: Path) -> list[int]:
    """How many runs each row of the record has, the fewest first."""
    (record,) = folder.glob("outputs/table/digits-smoke-*.json")
    return sorted(len(row["runs"]) for row in json.loads(record.read_text())["rows"])


def test_tables_are_listed_with_what_is_missing(tmp_path):
    (tmp_path / "mine/table").mkdir(parents=True)
    shutil.copy(CONFIGS / "table/digits.yaml", tmp_path / "mine/table/own.yaml")
    listed = reproduce("--config-dir", "mine", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "| digits " in listed.stdout
    assert "| own " in listed.stdout
    assert "put cifar-10-python.tar.gz into" in listed.stdout


def test_losses_of_a_study_lie_in_the_folder_that_its_plan_names(tmp_path):
    done = reproduce("why_sigmoid", "--preset", "smoke", *WORDS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("outputs/table/why_sigmoid-smoke-*/*/seed=0/result.json"))) == 4


def test_a_failed_row_is_named_with_its_log_and_the_others_run(tmp_path):
    words = ["--preset", "smoke", "--jobs", "-1", *WORDS, "loss.drop_false_negatives=no"]
    done = reproduce("digits", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("failed: ") == 3
    assert "must be bool, got no" in done.stdout
    log = Path(done.stderr.split("see ")[1].split()[0])
    assert "try loss.drop_false_negatives=false" in (tmp_path / log).read_text()
    assert runs_of_rows(tmp_path) == [0, 0, 0]


def test_missing_data_is_an_error_only_when_strict(tmp_path):
    words = ["biased_mnist", f"data_root={tmp_path}/none", "device=cpu", "epochs=1"]
    (tmp_path / "none").write_text("a file, so that nothing can be downloaded into it")
    for flags, code in (([], 0), (["--strict"], 2)):
        done = reproduce(*words, *flags, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert (
            f"data missing: put MNIST/raw with its four files (train-images-idx3-ubyte and so on) into {tmp_path}/none"
            in done.stderr
        )
