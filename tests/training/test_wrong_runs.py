"""A run that goes wrong says so: absurd gradients, an encoder that got worse, a kNN of another epoch."""

import contextlib
import copy
import math
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from contrastive import DebiasedNeg, NTXent, SupCon
from contrastive.errors import ConfigError
from contrastive.experiment.build import build
from contrastive.experiment.summary import finished
from contrastive.text import pack_bits
from contrastive.training.precision import make_convolutions_safe
from contrastive.training.step import StepOutput
from contrastive.training.step_log import StepLog
from tests.helpers import TINY


@pytest.mark.parametrize("loss", [NTXent(), DebiasedNeg(), SupCon()])
def test_one_embedding_of_length_zero_bounds_the_gradient(loss):
    z = torch.randn(8, 2, 4, generator=torch.Generator().manual_seed(0))
    z[3, 1] = 0
    z.requires_grad_()
    loss(z, torch.arange(8) % 3).backward()
    assert z.grad is not None
    assert 0 < z.grad.abs().max() < 1e7


@pytest.fixture
def experiment(composed):
    return build(composed(*TINY, "precision=bf16"))


def step_log(experiment, path=None, record: dict[str, object] | None = None) -> StepLog:
    """At the beginning of the first epoch."""
    log, run = StepLog(every=100), SimpleNamespace(path=path, fail=(record or {}).update)
    parts = {"step": experiment.step, "loader": experiment.loader, "run": run}
    log.training = SimpleNamespace(**parts, epoch=0, batch=0, ends_epoch=False)
    log.on_epoch_start(log.training)
    return log


def after(log: StepLog, *grad_norms: float) -> StepLog:
    """The log after steps with these gradient norms."""
    for norm in grad_norms:
        log.training.batch += 1
        output = StepOutput(torch.tensor(1.0), torch.tensor(norm), SimpleNamespace(outputs={}), None)
        log.on_step(log.training, output)
    return log


@pytest.mark.parametrize(
    ("before", "grad_norms", "batch"),  # the norms at the last log line and since; the batch at fault, 0 for none
    [
        *(([], [1.0, 2.0, 0.5, absurd, 1.0], 4) for absurd in (2e15, math.inf, math.nan)),
        ([], [3.0, 3.0, 2.7e6], 0), ([], [3.0, 3.0, 3.3e6], 3),  # a million times the usual one, or a million
        ([], [0.01, 0.01, 0.9e6], 0), ([], [0.01, 0.01, 1.1e6], 3),
        ([3.0], [2e15], 2),  # alone between two lines
        ([], [1e9, 3e9, 5e8, 2e12], 0), ([], [1e-9, 1e-9, 1e3], 0), ([], [1e7], 0),  # large ones that are usual
    ],
)  # fmt: skip
@pytest.mark.parametrize("new_epoch", [False, True])
def test_an_absurd_gradient_stops_the_run(experiment, tmp_path, before, grad_norms, batch, new_epoch):
    record: dict[str, object] = {"batch": 0}
    log = step_log(experiment, tmp_path, record)
    if before:
        after(log, *before).check()
        log._means()
    if new_epoch:
        log.training.epoch, log.training.batch = 1, 0
        log.on_epoch_start(log.training)
    after(log, *grad_norms)
    refused = pytest.raises(ConfigError, match=r"gradient became .* try a lower")
    with refused if batch else contextlib.nullcontext():
        log.check()
    assert record["batch"] == batch - bool(before and new_epoch)


def test_a_resume_inside_an_epoch_knows_the_steps_before_but_not_as_its_own_speed(experiment):
    before, resumed = after(step_log(experiment), *[3.0] * 9), step_log(experiment)
    before.check()
    resumed.load(before.state())
    assert resumed.usual == 3.0
    time.sleep(0.05)
    metrics = after(resumed, 1.0)._means()
    assert metrics["time/views_per_s"] <= experiment.loader.views_per_step(2) / 0.05
    assert (metrics["train/loss"], metrics["train/grad_norm"]) == (1.0, pytest.approx(2.8))


def conv_gradients(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """The gradient of the weights in bf16, after much memory that was freed with NaN in it."""
    junk = [torch.full((256, 64), math.nan, dtype=dtype) for dtype in [torch.float32, torch.bfloat16] * 90]
    del junk
    conv.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = conv(x).float().square().mean()
    value.backward()
    assert conv.weight.grad is not None
    return conv.weight.grad


def test_a_map_of_one_pixel_has_sound_gradients_in_bf16():
    torch.manual_seed(0)
    conv = nn.Conv2d(32, 64, 3, 2, 1, bias=False)
    x = torch.randn(256, 32, 1, 1).contiguous(memory_format=torch.channels_last)
    conv(x).square().mean().backward()
    assert conv.weight.grad is not None
    expected = conv.weight.grad.clone()
    safe = copy.deepcopy(nn.Sequential(conv))
    make_convolutions_safe(safe)
    assert list(safe.state_dict()) == list(nn.Sequential(conv).state_dict())
    for _ in range(30):
        torch.testing.assert_close(conv_gradients(safe[0], x), expected)


def test_convolutions_of_a_run_in_bf16_are_safe(experiment):
    kinds = {type(layer).__name__ for layer in experiment.step.encoder.modules() if isinstance(layer, nn.Conv2d)}
    assert kinds == {"SafeConv2d"}


def test_an_encoder_that_got_worse_is_said_where_the_test_images_tell(tmp_path):
    def said(name, n_before, n_after, n=160):
        bits = {
            key: {name: pack_bits(np.arange(n) < m)}
            for key, m in (("untrained_correct", n_before), ("correct", n_after))
        }
        figures = {key: {name: 100 * m / n} for key, m in (("untrained", n_before), ("test", n_after))}
        return finished(tmp_path, {**figures, **bits, "audit": {}})

    assert "training made the encoder worse in knn_top1 (40.00, untrained 50.00): try" in said("knn_top1", 80, 64)
    one_image = said("linear_top1", 147, 146)
    assert "made the encoder worse" not in one_image
    assert "not told from untrained by 160 test images: linear_top1" in one_image
    assert "linear_top1 91.88 91.25 85.8 to 94.7" in " ".join(one_image.split())
    assert "untrained by" not in said("linear_top1", 100, 146)


@pytest.mark.parametrize(("n", "share"), [(19, "95.00 % of the test images are of one class, 7: to guess"), (10, "")])
def test_the_share_of_a_class_that_most_images_have_is_said(tmp_path, experiment, n, share):
    label = torch.tensor([-1, *[7] * n, *[3] * (20 - n)])
    majority = replace(experiment.data, test=replace(experiment.data.test, label=label)).majority
    result = {"test": {"knn_top1": 95.0}, "untrained": {}, "audit": {}, **majority}
    assert share in finished(tmp_path, result)
    assert ("test images are" in finished(tmp_path, result)) == bool(share)


class RandomLoss(NTXent):
    """Draws when it is made, as a loss with initial parameters does."""

    def __init__(self, *, temperature: float = 0.5) -> None:
        super().__init__(temperature=temperature)
        torch.rand(3)


def test_draws_of_a_loss_leave_the_weights_of_a_seed_alone(composed, experiment):
    other = build(replace(composed(*TINY, "precision=bf16"), loss={"_target_": f"{__name__}.RandomLoss"}))
    for a, b in zip(experiment.step.encoder.parameters(), other.step.encoder.parameters(), strict=True):
        assert torch.equal(a, b)
