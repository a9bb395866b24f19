"""Values of components are compared with the annotations of their constructors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from contrastive.config.targets import check_types
from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.files import TYPED, misfit


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("loss.drop_false_negatives=no", "must be bool, got no: try loss.drop_false_negatives=false"),
        ("encoder.width=2.5", "encoder.width must be int, got 2.5: try encoder.width=64"),
        ("augmentation.ops.crop.scale=0.2", r"must be tuple\[float, float\], got 0\.2: try .*scale=\[0\.08,1\.0\]"),
        ("head.hidden_dim=wide", r"head.hidden_dim must be int \| None, got wide: try head.hidden_dim=null"),
    ],
)
def test_a_value_of_another_type_is_refused_in_one_sentence(composed, word, message):
    with pytest.raises(ConfigError, match=message):
        build(composed(word))


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
