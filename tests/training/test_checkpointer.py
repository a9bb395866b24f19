"""When a checkpoint is due, and the copy that it is made of."""

import copy
import time
from types import SimpleNamespace

import pytest
import torch

from contrastive.training.checkpointer import Checkpointer, ResumePoint, on_host


def checkpointer(*, every: int | str, age: float = 0.0, took: float = 0.0) -> Checkpointer:
    """One whose last checkpoint is `age` seconds old and took so many to save."""
    made = Checkpointer(start=ResumePoint(0, 0), log=None, signals=None, every=every, minutes=15)
    made.training = SimpleNamespace(run=SimpleNamespace(writer=SimpleNamespace(seconds=took)))
    made.saved = time.perf_counter() - age
    return made


@pytest.mark.parametrize(
    ("age", "took", "is_due"),
    [
        (0, 0, True),  # the first epoch: what saving costs is not known yet
        (1, 0.005, True), (1, 0.05, False),  # a hundredth of the time
        (59, 0.9, False), (61, 0.9, True), (61, 10, True),  # a minute
    ],
)  # fmt: skip
def test_an_epoch_saves_where_it_costs_a_hundredth_or_a_minute_has_passed(age, took, is_due):
    assert checkpointer(every="auto", age=age, took=took).is_due_after(7) == is_due


def test_a_number_of_epochs_is_kept_whatever_the_clock_says():
    due = [checkpointer(every=3, age=age, took=10).is_due_after(n) for n in range(1, 7) for age in (0, 1000)]
    assert due == [n % 3 == 0 for n in range(1, 7) for _ in range(2)]


def test_what_is_saved_is_what_was_there_when_saving_began():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters())

    def step() -> None:
        net(torch.randn(2, 3, 8, 8)).square().mean().backward()
        optimizer.step()

    step()
    live = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "batches": [net[0].bias, (net[1].bias, 3)]}
    copied, expected = on_host(live, torch.device("cpu")), copy.deepcopy(live)
    assert copied["net"]["0.weight"].stride() == live["net"]["0.weight"].stride()
    assert copied["net"]._metadata == live["net"]._metadata  # versions of the layers
    step()
    optimizer.param_groups[0]["lr"] = 5.0
    assert live["optimizer"]["state"][0]["step"] == 2  # what is copied goes on to change
    torch.testing.assert_close(copied, expected, rtol=0, atol=0)
    assert not torch.equal(copied["net"]["0.weight"], net[0].weight)
