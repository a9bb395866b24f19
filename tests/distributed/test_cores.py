"""The GPUs that runs are spread over, on a machine whose GPUs are made up."""

import pytest
import torch

from contrastive.distributed import hardware
from contrastive.distributed.hardware import gpus_for


@pytest.fixture
def four_gpus(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "DRIVERS", (str(tmp_path),))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("words", "listed", "gpus"),
    [
        (["device=cuda"], None, ["0", "1", "2", "3"]),
        *((words, None, []) for words in (["device=cpu"], ["device=cuda:1"], ["devices=2"])),  # that say otherwise
        ([], "GPU-8932f937,GPU-1a2b", ["GPU-8932f937", "GPU-1a2b"]),
        ([], "1, 3,2,0,-1,5", ["1", "3", "2", "0"]),  # CUDA stops at the first that there is not
    ],
)
def test_runs_are_spread_over_every_gpu_that_the_user_lists(monkeypatch, words, listed, gpus):
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert gpus_for(words) == gpus


def test_without_a_driver_nothing_is_asked(monkeypatch):
    monkeypatch.setattr(hardware, "DRIVERS", ())
    monkeypatch.setattr(torch.cuda, "device_count", lambda: pytest.fail("torch was asked"))
    assert gpus_for([]) == []
