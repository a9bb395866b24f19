"""The examples in the docstrings of losses print what they say."""

import doctest
import importlib

import pytest

from tests.helpers import ROOT

LOSSES = sorted((ROOT / "contrastive/loss").glob("[a-z]*.py"))


@pytest.mark.parametrize("path", [path for path in LOSSES if path.stem != "base"], ids=lambda path: path.stem)
def test_the_example_of_a_loss_prints_what_it_says(path):
    failed, tried = doctest.testmod(importlib.import_module(f"contrastive.loss.{path.stem}"))
    assert failed == 0
    assert tried >= 3
