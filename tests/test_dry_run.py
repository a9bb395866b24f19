"""The estimate of a dry run."""

import re

import pytest

from contrastive.experiment.build import build
from contrastive.experiment.dry_run import estimate
from contrastive.text import clock
from tests.helpers import TINY, program

QUICK = [*TINY, "epochs=1", "batch_size=64"]


def test_the_estimate_grows_with_the_run(composed):
    settings = composed(
        *(word for word in QUICK if "few_shot" not in word),
        "epochs=2000",
        "evaluator=[knn,linear,rankme]",
        "evaluator.knn.every=3",
    )
    text = estimate(build(settings))
    assert "2000 epochs of 22 steps" in text
    assert re.search(r"at most 668 knn of [\d.]+ s, 2 linear of [\d.]+ s, 2 rankme of", text)
    assert re.search(r"peak memory +\d+\.\d\d GiB", text)


def test_seconds_are_printed_in_the_fitting_unit():
    assert [clock(s) for s in (4.06, 187, 7510)] == ["4.1 s", "3 min 07 s", "2 h 05 min"]


@pytest.mark.slow
def test_a_dry_run_writes_nothing(tmp_path):
    done = program(*QUICK, "dry_run=true", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"training +[\d.]+ s +1 epochs of 22 steps", done.stdout)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
