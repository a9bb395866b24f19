"""Settings of a run, types of the arguments of components, and overrides that nothing reads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from torch import Tensor

from contrastive.config.settings import Settings, unused_overrides
from contrastive.config.targets import check_types
from contrastive.errors import ConfigError
from contrastive.files import TYPED, misfit
from tests.helpers import ROOT


def test_settings_are_those_that_their_own_config_yaml_gives(composed):
    settings = composed("dataset=digits", "threads=2")
    assert Settings(**settings.to_dict()) == settings
    assert settings.to_dict()["loss"]["push"] == 1  # what is not typed is written, too


def test_settings_of_evaluators_not_chosen_are_dropped(composed):
    assert list(composed("evaluator=[linear]").evaluator) == ["linear"]  # the digits' recipe holds evaluator.knn.k
    assert list(composed().evaluator) == ["knn", "linear", "few_shot", "classifier", "bias_audit"]
    assert composed("evaluator=[]").evaluator == {}


def test_overrides_that_nothing_reads_are_named():
    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        words = ["loss=nt_xent", "tau_plus=0.3", "temperature=0.2", "evaluator=[linear]", "evaluator.knn.k=3"]
        assert unused_overrides(compose("train", words), words) == ["tau_plus", "evaluator.knn.k"]
        words = ["loss=debiased_neg", "tau_plus=0.3", "evaluator.knn.k=3"]
        assert unused_overrides(compose("train", words), words) == []


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (True, bool, True), (1, bool, False), (True, int, False), (3, float, True), (True, float, False),
        ("x", str, True), (None, int | None, True), ([1, 2.5], tuple[float, ...], True),
        ((1, 2), tuple[float, float], True), ([1, 2, 3], tuple[float, float], False), ([1], Sequence[int], True),
        ([1.5], list[int], False), ("x", float | Tensor, False), ("x", Path, True), ("x", Any, True),
        (2**62, int, True), (10**20, int, False),  # larger than those of torch
    ],
)  # fmt: skip
def test_types_by_hand(value, hint, expected):
    assert (misfit(value, hint, TYPED) is None) is expected


@pytest.mark.parametrize("line", ["undefined", "def f(:"])
def test_a_module_of_ones_own_that_breaks_is_named_with_its_line(tmp_path, monkeypatch, line):
    (tmp_path / "breaks.py").write_text(f"x = 1\n{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"Error: .*: try to mend .*/breaks\.py, line 2$"):
        check_types({"_target_": "breaks.Mine"}, "loss")


def sized(size: int = None) -> None:  # type: ignore[assignment]  # noqa: RUF013
    """Annotated as many people do."""


def test_the_default_fits_whatever_the_annotation_says():
    check_types({"_target_": f"{__name__}.sized", "size": None}, "dataset")
    with pytest.raises(ConfigError, match=r"dataset\.size must be int, got many: try dataset\.size=null"):
        check_types({"_target_": f"{__name__}.sized", "size": "many"}, "dataset")
