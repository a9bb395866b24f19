"""Fine-tuning and the access to images that it needs."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from contrastive.evaluator.base import FeatureSets, Scores
from contrastive.evaluator.fine_tune import FineTune
from contrastive.types import Data, Split
from tests.helpers import encoded

SHORT = {"epochs": 4, "min_steps": 30, "batch_size": 16, "flip": 0.0}


class Encoder(nn.Module):
    """A convolution that, untrained, sees nothing: its weights are almost zero."""

    def __init__(self) -> None:
        super().__init__()
        self.dim = 8
        self.conv, self.norm, self.dropout = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Dropout(0.1)
        nn.init.normal_(self.conv.weight, std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.norm(self.conv(x)).relu().mean((2, 3)))


def stripes(n: int, seed: int) -> Split:
    """Vertical and horizontal stripes under noise."""
    label = torch.arange(n) % 2
    wave = (torch.arange(8) % 4 < 2) * 80
    pattern = torch.stack([wave.expand(8, 8), wave[:, None].expand(8, 8)])[label][:, None]
    noise = torch.randint(0, 170, (n, 3, 8, 8), generator=torch.Generator().manual_seed(seed))
    return Split((pattern + noise).to(torch.uint8), label)


def normalize(x: Tensor) -> Tensor:
    return (x / 255 if x.dtype == torch.uint8 else x) - 0.5


def features_of(encoder: nn.Module, data: Data) -> FeatureSets:
    return encoded(encoder, data, normalize).feature_sets()


@pytest.fixture
def data() -> Data:
    return Data(
        pretrain=stripes(200, 0),
        probe_train=torch.arange(20, 200),
        probe_val_index=torch.arange(20),
        test=stripes(100, 1),
        classes=("vertical", "horizontal"),
        mean=(0.5, 0.5, 0.5),
        std=(1.0, 1.0, 1.0),
    )


@pytest.fixture
def encoder() -> nn.Module:
    torch.manual_seed(0)
    return Encoder()


def test_fine_tune_learns_and_leaves_the_encoder_alone(data, encoder):
    features = features_of(encoder, data)
    before, state = {key: value.clone() for key, value in encoder.state_dict().items()}, torch.get_rng_state()
    scores = FineTune(fractions=(0.02, 1.0), **SHORT)(features)
    assert scores.test["100pct_top1"] > 90
    assert set(scores.predictions) == {"2pct", "100pct"}
    assert set(scores.test) == {"2pct_top1", "100pct_top1"}  # of two classes no top5
    assert all(torch.equal(value, before[key]) for key, value in encoder.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(123)
    again = FineTune(fractions=(0.02, 1.0), **SHORT)(features)
    assert (again.test, again.val) == (scores.test, scores.val)


def test_fine_tune_selects_on_validation_only(data, encoder):
    def figures(**changes: Split) -> Scores:
        return FineTune(fractions=(1.0,), lr=(0.1, 1e-5), **SHORT)(features_of(encoder, replace(data, **changes)))

    other_test = figures(test=Split(data.test.image, 1 - data.test.label))
    assert other_test.val == figures().val
    assert other_test.test["100pct_top1"] < 10
    label = data.pretrain.label.clone()
    label[:20] = 1 - label[:20]  # lies on the validation images alone: they choose the worst rate
    assert figures(pretrain=Split(data.pretrain.image, label)).test["100pct_top1"] < figures().test["100pct_top1"]
