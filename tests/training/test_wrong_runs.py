"""A run that goes wrong says so: absurd gradients, an encoder that got worse, a kNN of another epoch."""

import copy
import math
import time
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from contrastive import DebiasedNeg, NTXent, SupCon, pretrain
from contrastive.bits import pack, unpack
from contrastive.errors import ConfigError
from contrastive.evaluator.probes import accuracies
from contrastive.experiment.build import build
from contrastive.experiment.summary import finished
from contrastive.training.precision import make_convolutions_safe
from contrastive.training.progress import Progress
from contrastive.training.step import StepOutput
from contrastive.training.window import Window
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


def stops(
    experiment, tmp_path, grad_norms: list[float], *, before: float | None = None, new_epoch: bool = False
) -> str:
    """What the run says after steps with these gradient norms; nothing if it goes on.

    Args:
        before: that of a step before the last log line. new_epoch: whether that line ended an epoch.
    """
    record: dict[str, object] = {}
    window = Window(experiment.step, experiment.loader, SimpleNamespace(path=tmp_path, fail=record.update))
    window.start_epoch(0)
    for norm in ([] if before is None else [before]) + grad_norms:
        output = StepOutput(torch.tensor(1.0), torch.tensor(norm), SimpleNamespace(outputs={}), None)
        window.add(output)
        if norm == before:
            window.check(1, output)
            window.close()
            if new_epoch:
                window.start_epoch(1)
    try:
        window.check(len(grad_norms), output)
    except ConfigError as error:
        assert record["batch"] in range(1, len(grad_norms) + 1)
        return str(error)
    return ""


@pytest.mark.parametrize("absurd", [2e15, math.inf, math.nan])
def test_an_absurd_gradient_stops_the_run_as_an_infinite_one(experiment, tmp_path, absurd):
    said = stops(experiment, tmp_path, [1.0, 2.0, 0.5, absurd, 1.0])
    assert "the gradient became" in said
    assert "batch 4" in said
    assert "try a lower optimizer.lr" in said


@pytest.mark.parametrize(("usual", "limit"), [(3.0, 3e6), (0.01, 1e6)])
def test_a_gradient_is_absurd_from_a_million_times_the_usual_one_on(experiment, tmp_path, usual, limit):
    assert stops(experiment, tmp_path, [usual, usual, 0.9 * limit]) == ""
    assert "batch 3" in stops(experiment, tmp_path, [usual, usual, 1.1 * limit])


def test_a_resume_inside_an_epoch_knows_the_usual_gradient(experiment):
    before, after = (Window(experiment.step, experiment.loader, SimpleNamespace()) for _ in range(2))
    for window in (before, after):
        window.start_epoch(0)
    output = StepOutput(torch.tensor(1.0), torch.tensor(3.0), SimpleNamespace(outputs={}), None)
    before.add(output)
    before.check(1, output)
    after.load(before.state())
    assert after.usual == 3.0


@pytest.mark.slow
def test_all_epochs_of_a_training_share_one_window(monkeypatch, tmp_path):
    seen, start_epoch = [], Window.start_epoch
    monkeypatch.setattr(Window, "start_epoch", lambda self, epoch: (seen.append(self), start_epoch(self, epoch)))
    pretrain(*TINY, "epochs=2", f"hydra.run.dir={tmp_path / 'run'}")
    assert len(seen) == 2
    assert seen[0] is seen[1]


@pytest.mark.parametrize("new_epoch", [False, True])
def test_an_absurd_gradient_alone_between_two_log_lines_stops_the_run(experiment, tmp_path, new_epoch):
    assert "the gradient became" in stops(experiment, tmp_path, [2e15], before=3.0, new_epoch=new_epoch)


def test_the_speed_after_a_resume_leaves_out_the_steps_of_the_process_before(experiment):
    before, after = (Window(experiment.step, experiment.loader, SimpleNamespace()) for _ in range(2))
    output = StepOutput(torch.tensor(1.0), torch.tensor(1.0), SimpleNamespace(outputs={}), None)
    for window in (before, after):
        window.start_epoch(0)
    for _ in range(9):
        before.add(output)
    after.load(before.state())
    time.sleep(0.05)
    after.add(output)
    metrics = after.close()
    assert metrics["time/views_per_s"] <= experiment.loader.views_per_step(2) / 0.05
    assert metrics["train/loss"] == 1.0


def test_large_gradients_that_are_usual_do_not_stop_the_run(experiment, tmp_path):
    assert stops(experiment, tmp_path, [1e9, 3e9, 5e8, 2e12]) == ""
    assert stops(experiment, tmp_path, [1e-9, 1e-9, 1e3]) == ""
    assert stops(experiment, tmp_path, [1e7]) == ""


def conv_gradients(conv: nn.Conv2d, x: Tensor) -> Tensor:
    """The gradient of the weights in bf16, after much memory that was freed with NaN in it."""
    junk = [
        torch.full((256, 64), math.nan, dtype=dtype) for dtype in (torch.float32, torch.bfloat16) for _ in range(90)
    ]
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


def test_knn_of_an_earlier_epoch_is_shown_with_its_epoch(capsys):
    with closing(Progress(name="a run", start=0, epochs=3, per_epoch=2, quiet=False)) as progress:
        progress.show({"test/knn_top1": 31.2})
        for epoch in (1, 2, 3):
            for _ in range(2):
                progress.update()
            progress.show({"train/loss": 5.0})
            if epoch == 2:
                progress.show({"test/knn_top1": 47.1})
            progress.end_epoch(epoch)
    words = [line.split("  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert words == ["kNN 31.2 (untrained)", "kNN 47.1", "kNN 47.1 (epoch 2)"]


def test_an_encoder_that_got_worse_is_said_where_the_test_images_tell(tmp_path):
    def said(name, n_before, n_after, n=160):
        bits = {
            key: {name: pack(np.arange(n) < m)} for key, m in (("untrained_correct", n_before), ("correct", n_after))
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


def test_top5_of_five_classes_is_left_out():
    label = torch.tensor([0, 1, 2])
    assert set(accuracies(torch.randn(3, 5), label)) == {"top1"}
    assert set(accuracies(torch.randn(3, 6), label)) == {"top1", "top5"}


class RandomLoss(NTXent):
    """Draws when it is made, as a loss with initial parameters does."""

    def __init__(self, *, temperature: float = 0.5) -> None:
        super().__init__(temperature=temperature)
        torch.rand(3)


def test_draws_of_a_loss_leave_the_weights_of_a_seed_alone(composed, experiment):
    settings = composed(*TINY, "precision=bf16")
    other = build(replace(settings, loss={"_target_": f"{__name__}.RandomLoss"}))
    for a, b in zip(experiment.step.encoder.parameters(), other.step.encoder.parameters(), strict=True):
        assert torch.equal(a, b)


def test_bits_are_packed_and_unpacked():
    bits = (torch.rand(359, generator=torch.Generator().manual_seed(0)) < 0.9).numpy()
    assert (unpack(pack(bits)) == bits).all()
    assert len(pack(bits)) < 90
    for text in (
        "",
        "3:",
        "x:eJw=",
        pack(bits).replace("359", "3"),
        pack(bits).replace("359", "999999999999"),
        pack(bits).replace("359", "-8"),
    ):
        with pytest.raises(ValueError):  # noqa: PT011  (whatever is wrong with it)
            unpack(text)
