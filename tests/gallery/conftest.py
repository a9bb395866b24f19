"""Two small finished runs on biased digits."""

from pathlib import Path

import pytest

from contrastive.experiment.run import run_experiment
from contrastive.run.run import read_run
from tests.helpers import BARE, compose_settings

WORDS = [*BARE, "dataset=biased_digits", "epochs=2", "evaluator=[knn,bias_audit]", "evaluator.knn.every=1",
         "evaluator.bias_audit.max_iter=5"]  # fmt: skip


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The directories of two seeds on the same images."""
    folder = tmp_path_factory.mktemp("gallery")
    paths = [folder / "seed=0", folder / "seed=1"]
    for path in paths:
        words = [*WORDS, path.name, "dataset.data_seed=0"]
        run_experiment(compose_settings(*words), path, words)
    assert all(read_run(path).kind == "finished" for path in paths)
    return paths
