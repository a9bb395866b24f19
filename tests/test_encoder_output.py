"""An encoder that cannot be used is refused before data is loaded."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.components import check_encoder_output, image_size
from contrastive.experiment.make import make
from tests.helpers import TINY


class Flattened(nn.Module):
    """An encoder for images of one size, whose dim may be stated wrongly or not at all."""

    def __init__(self, *, size: int = 8, dim: int | None = 5, n_outputs: int = 5) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(3 * size * size, n_outputs), nn.BatchNorm1d(n_outputs))
        if dim is not None:
            self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def test_an_encoder_that_ships_is_accepted_and_unchanged():
    encoder = make("encoder/resnet18_narrow")
    state = {key: value.clone() for key, value in encoder.state_dict().items()}
    for training in (True, False):
        encoder.train(training)
        check_encoder_output(encoder, 16)
        assert all(module.training == training for module in encoder.modules())
    assert all(torch.equal(value, state[key]) for key, value in encoder.state_dict().items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": None}, "needs an int attribute dim.*try encoder=resnet18"),
        ({"dim": 7}, r"returns \(2, 5\) for 2 images instead of \(N, dim\) = \(2, 7\).*try encoder=resnet18"),
        ({"size": 9}, r"fails on images of shape \(2, 3, 8, 8\).*try encoder.image_size=8 .*another dataset.size"),
    ],
)
def test_a_broken_encoder_is_refused_in_one_sentence(options, message):
    encoder = Flattened(**options)
    with pytest.raises(ConfigError, match=message) as refusal:
        check_encoder_output(encoder, 8)
    assert "\n" not in str(refusal.value)
    assert encoder.training


def test_encoder_of_one_size_where_the_size_is_unknown():
    check_encoder_output(Flattened(size=8), None)


def test_the_size_is_known_for_datasets_that_state_it():
    assert image_size({"_target_": "contrastive.dataset.digits.digits", "size": 16}) == 16
    assert image_size({"_target_": "contrastive.dataset.cifar.cifar10"}) is None
    assert image_size({"_target_": "contrastive.dataset.image_folder.image_folder", "size": None}) is None
    assert image_size({"_target_": "mine.FakeData", "size": 50_000}) is None  # its number of images


def test_the_program_refuses_it_before_data_is_loaded(composed, monkeypatch):
    def loaded(dataset: object) -> None:
        raise AssertionError("the data was loaded")

    monkeypatch.setattr("contrastive.experiment.build.load_data", loaded)
    settings = replace(composed(*TINY), encoder={"_target_": f"{__name__}.Flattened", "dim": 7})
    with pytest.raises(ConfigError, match="instead of"):
        build(settings)
