"""scikit-learn's digits."""

import sys

import pytest
import torch

from contrastive.dataset.digits import digits
from contrastive.dataset.splits import fingerprint
from contrastive.errors import ConfigError


def test_digits_have_fixed_stratified_splits():
    data = digits()
    assert len(data.pretrain) + len(data.test) == 1797
    assert data.pretrain.image.shape[1:] == (3, 16, 16)
    assert data.pretrain.image.dtype == torch.uint8
    assert len(data.probe_train) + len(data.probe_val) == len(data.pretrain)
    for label in (data.test.label, data.probe_val.label):
        counts = torch.bincount(label, minlength=10)
        assert counts.max() - counts.min() <= 2
    small = digits(size=8)
    assert fingerprint(data) == fingerprint(digits(size=16)) != fingerprint(small)
    test_images = {image.numpy().tobytes() for image in small.test.image}
    leaked = sum(image.numpy().tobytes() in test_images for image in small.pretrain.image)
    assert leaked <= 2  # the dataset itself holds two identical images twice


def test_digits_that_cannot_be_loaded_are_refused(monkeypatch):
    with pytest.raises(ConfigError, match=r"dataset\.size=16"):
        digits(size=7)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ConfigError, match="pip install scikit-learn"):
        digits()
