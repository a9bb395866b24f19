"""Recipes that datasets, experiments and tables compose."""

import lzma
import re

import pytest
from tables.kept import study_records
from tables.spec import config_dirs, read_table, table_paths

from contrastive.config.compose import importable, search_path
from contrastive.config.reference import first_line, option_files
from contrastive.experiment.build import build
from tests.helpers import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("path", table_paths().values(), ids=table_paths().keys())
def test_rows_of_the_smoke_presets_build(composed, path):
    table = read_table(path, preset="smoke")
    own = config_dirs(table)
    with importable(own):
        for row in table.rows:
            if row.overrides:
                build(composed(*row.overrides, "device=cpu", *search_path(own)))


@pytest.mark.slow
@pytest.mark.parametrize("experiment", sorted(path.stem for path in (ROOT / "configs/experiment").glob("*.yaml")))
def test_a_biased_dataset_keeps_the_loss_of_an_experiment(composed, experiment):
    own, biased = (composed(f"experiment={experiment}", *more).loss for more in ((), ("dataset=biased_digits",)))
    assert biased["_target_"] == own["_target_"]


def test_biased_dataset_brings_its_epochs_and_learning_rate(composed):
    settings = composed("experiment=bc_ce", "dataset=biased_digits")
    assert (settings.epochs, settings.optimizer["lr"], settings.schedule["milestones"]) == (60, 3e-3, [30, 50])
    assert (settings.batch_size, settings.regularizer["batch_size"]) == (64, 128)
    assert composed("experiment=bc_ce", "seed=7").dataset["data_seed"] == 7


def test_a_recipe_of_a_paper_that_is_in_no_record_is_called_untried():
    texts = [(lzma.open if path.suffix == ".xz" else open)(path, "rt").read() for path in study_records().values()]
    named = {name for text in texts for name in re.findall(r"experiment=(\w+)", text)}
    tried = {name.replace("hy_", "hong_yang_", 1) for name in named}  # their names when they ran
    for name, path in option_files("experiment").items():
        says = first_line(path)
        assert says.startswith("Untried: ") == (name not in tried) or "of no paper" in says, name
