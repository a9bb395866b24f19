"""The first 20 losses of the main recipes, so that no change moves them unseen."""

import json

import pytest
import torch

from tests.golden_curves import FILE, RECIPES, STEPS, curve

# Rounding differs between releases of torch (2.11 to 2.15), memory formats and processors, and grows from step to step:
# with other kernels (oneDNN off, other formats) the curves moved by at most 2e-4. Two seeds differ by 1e-2 and more.
TOLERANCE = 2e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_the_first_losses_are_the_recorded_ones(composed, name):
    expected = json.loads(FILE.read_text())["curves"][name]
    actual = curve(composed(*RECIPES[name]))
    assert len(actual) == len(expected) == STEPS
    assert actual[0] == pytest.approx(expected[0], rel=1e-5)  # nothing has grown yet
    assert torch.tensor(actual) == pytest.approx(torch.tensor(expected), rel=TOLERANCE)


@pytest.mark.slow
def test_another_learning_rate_is_seen(composed):
    expected = json.loads(FILE.read_text())["curves"]["nt_xent"]
    actual = curve(composed(*RECIPES["nt_xent"], "optimizer.lr=2e-3"))
    assert torch.tensor(actual) != pytest.approx(torch.tensor(expected), rel=TOLERANCE)
