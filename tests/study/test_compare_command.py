"""contrastive compare as a user runs it: from words to a page, killed in between, from Python and through Hydra."""

import json
import re
from pathlib import Path

import pytest

import contrastive
from contrastive.distributed.hardware import reproducibly
from contrastive.study.render.files import check_folder
from tests.helpers import CONTIGUOUS, module, program, write_image_folder
from tests.study.processes import kill_at

SMALL = [
    "dataset=digits", "dataset.size=8", "encoder=resnet18_narrow", "encoder.width=8", "batch_size=256", "epochs=1",
    "device=cpu", CONTIGUOUS, "evaluator=[knn]",
]  # fmt: skip
WORDS = ["loss=nt_xent,debiased_pos", *SMALL, "budget=3", "seeds=3"]
OF_A_METHOD = "outputs/compare/*/*/*"  # a comparison, a search, a method


def record_below(folder: Path) -> dict:
    (file,) = folder.glob("outputs/compare/*.json")
    content: dict = json.loads(file.read_text())
    return content


def judged(record: dict) -> tuple:
    return record["comparison"]["judged"], record["comparison"]["searches"] and [
        [(point["point"], point["values"]) for search in own for point in search["points"]]
        for own in record["comparison"]["searches"].values()
    ]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A comparison, and what it printed."""
    folder = tmp_path_factory.mktemp("compared")
    done = module("compare", *WORDS, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.mark.smoke
@pytest.mark.slow
def test_a_small_question_is_answered(tmp_path):
    done = module("compare", "loss=nt_xent,debiased_pos", *SMALL, "budget=1", "seeds=3", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 runs at most: nothing is searched, 3 final seeds\n" in done.stdout
    assert "debiased_pos with these settings: " in done.stdout
    assert not list(tmp_path.rglob("point=*")), "a run whose figure is not read"
    assert check_folder(tmp_path / "outputs/compare") == (1, [])


@pytest.mark.slow
def test_a_question_is_answered_by_one_command(compared):
    folder, said = compared
    assert "nt_xent against debiased_pos on digits, judged by knn_top1" in said
    assert "26 runs at most: 3 points" in said
    assert "with 80 % power (359 test images, 50 % accuracy, until a run tells, the spread of our records)" in said
    assert "\ndebiased_pos: " in said
    assert re.search(r"\ndebiased_pos - nt_xent +\S*[-o|]", said), "no forest"
    suffixes = sorted(path.suffix for path in folder.glob("outputs/compare/*.*"))
    assert suffixes == [".csv", ".csv", ".html", ".json", ".md", ".tex"]
    record = record_below(folder)
    assert set(reproducibly(SMALL)) <= set(record["comparison"]["plan"]["common"])
    assert check_folder(folder / "outputs/compare") == (1, [])
    for path in folder.rglob("point=*/seed=*/result.json"):
        result = json.loads(path.read_text())
        assert result["test"] == {}, "a search run holds a figure of test images"
        assert "knn_top1" in result["val"]
    assert [row["name"] for row in record["rows"]] == [
        "nt_xent", "debiased_pos", "nt_xent as it comes", "debiased_pos as it comes",
    ]  # fmt: skip
    page = next(folder.glob("outputs/compare/*.html")).read_text()
    assert "Figures against each setting" in page
    assert "contrastive compare loss=nt_xent,debiased_pos " in page


@pytest.mark.slow
def test_killed_between_and_in_batches_of_a_model_it_proposes_the_same(tmp_path):
    """One contestant, too: a tuned run."""
    words = ["loss=nt_xent", *SMALL, "budget=11", "seeds=3"]
    (whole := tmp_path / "whole").mkdir()
    done = module("compare", *words, cwd=whole)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nt_xent: chosen " in done.stdout
    (tmp_path / "parts").mkdir()
    for stage in ("point=06/seed=1000/config.yaml", "point=09/seed=1000/result.json"):
        kill_at(f"{OF_A_METHOD}/{stage}", tmp_path / "parts", *words)
    done = module("compare", *words, cwd=tmp_path / "parts")
    assert done.returncode == 0, done.stdout + done.stderr
    assert judged(record_below(tmp_path / "parts")) == judged(record_below(whole))
    (search,) = record_below(whole)["comparison"]["searches"]["nt_xent"]
    assert len(search["points"]) == 11
    assert not list(whole.rglob("point=*/*/checkpoints")), "nothing goes on from a search run that is done"
    assert check_folder(whole / "outputs/compare") == (1, [])


@pytest.mark.slow
def test_hydra_and_python_give_the_same_verdict(compared, tmp_path, monkeypatch):
    numbers = ["hydra.sweeper.budget=3", "hydra.sweeper.seeds=3"]
    done = program("-m", "hydra/sweeper=compare", "loss=nt_xent,debiased_pos", *SMALL, *numbers, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No path found" not in done.stdout, "what TensorBoard logs of the files it reads"
    assert judged(record_below(tmp_path)) == judged(record_below(compared[0]))
    monkeypatch.chdir(compared[0])
    found = contrastive.compare(*SMALL, loss=["nt_xent", "debiased_pos"], budget=3, seeds=3)
    assert found.claims == record_below(compared[0])["comparison"]["judged"]
    assert 6 <= len(found.frame) <= 12  # chosen defaults are the same runs
    assert found.path.is_dir()
    assert "debiased_pos: " in repr(found)


@pytest.mark.slow
def test_a_dry_run_says_what_it_would_take_and_no_run_begins_that_would_not_end(tmp_path):
    done = module("compare", *WORDS, "dry_run=true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "26 to go at most on " in done.stdout
    assert not (tmp_path / "outputs").exists()
    done = module("compare", *WORDS, "--seconds", "20", cwd=tmp_path)
    assert done.returncode == 2
    assert "runs would not have ended in --seconds 20: try the same command again" in done.stderr
    assert not list(tmp_path.rglob("checkpoints"))


def test_a_word_that_hydra_refuses_is_one_sentence_before_anything_runs(tmp_path):
    done = module("compare", "loss=nt_xent,supcon", "epcohs=3", cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "did you mean epochs?" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_point_that_a_loss_refuses_is_the_worst_and_the_search_ends(tmp_path):
    """Debiased positives refuse a tau_plus below 1/(2B): the third point of this draw, whatever is tried again."""
    small = [word for word in SMALL if not word.startswith("batch_size")]
    words = ["loss=debiased_pos,nt_xent", *small, "batch_size=32", "budget=4", "seeds=3"]
    done = module("compare", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "debiased_pos: 1 of 4 points failed (with tau_plus=0.00931 and batch_size=32" in done.stdout
    assert "trying again" not in done.stdout
    assert check_folder(tmp_path / "outputs/compare") == (1, [])


@pytest.mark.slow
def test_images_without_labels_are_refused_before_a_run(tmp_path):
    (write_image_folder(tmp_path / "insects") / "train/ant").rename(tmp_path / "images")
    words = ["dataset=image_folder", "dataset.root=images", "dataset.size=8", "dataset.cache=cache", "epochs=1"]
    done = module("compare", "loss=nt_xent", *SMALL[2:4], *words, "batch_size=8", "budget=2", "seeds=3", cwd=tmp_path)
    assert done.returncode == 2
    assert "nt_xent cannot be trained: knn needs labels, and these images have none: try" in done.stderr
    assert not list(tmp_path.rglob("result.json"))
