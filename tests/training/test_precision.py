"""The words of precision: what each of them means on which device; the layout of maps that a network bears."""

import os
import subprocess
import sys

import pytest
import torch

from contrastive.encoder.resnet import ResNet
from contrastive.encoder.simple_convnet import SimpleConvNet
from contrastive.training.precision import autocast, bears_channels_last, choose, set_tf32
from tests.helpers import ROOT

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
TURING, HOPPER = (7, 5), (9, 0)


@pytest.mark.parametrize(
    ("word", "of", "expected"),
    [
        ("auto", HOPPER, "bf16"), ("auto", TURING, "fp32"), ("tf32", HOPPER, "tf32"), ("fp32", HOPPER, "fp32"),
        ("fp16", TURING, "fp16"), ("tf32", TURING, "fp32"),
    ],
)  # fmt: skip
def test_words_on_a_gpu(monkeypatch, word, of, expected):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: of)
    assert choose(word, GPU) == expected
    assert choose("tf32", CPU) == "fp32"


@pytest.fixture
def switches():
    """Leave torch's own defaults."""
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = True, False


@pytest.mark.parametrize("word", ["fp32", "tf32", "bf16", "fp16"])
def test_only_tf32_lets_gpus_round_float32_and_in_convolutions_alone(switches, word):
    set_tf32("fp32" if word == "tf32" else "tf32")  # as another run of this process left it
    torch.backends.cuda.matmul.allow_tf32 = True
    set_tf32(word)
    allowed = word == "tf32"
    # all words that torch has for it, old and new, say the same and can be read
    assert torch.backends.cudnn.allow_tf32 == allowed and not torch.backends.cuda.matmul.allow_tf32
    assert torch.get_float32_matmul_precision() == "highest"
    assert (torch.backends.cudnn.conv.fp32_precision == "tf32") == allowed
    assert torch.backends.cuda.matmul.fp32_precision != "tf32"
    with torch.backends.cudnn.flags(enabled=False):  # reads them, as torch.export does
        pass
    assert torch.backends.cudnn.allow_tf32 == allowed


@pytest.mark.parametrize(
    ("word", "dtype"), [("fp32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_autocast_is_for_half_precision_alone(word, dtype):
    with autocast(word, CPU)():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def test_narrow_networks_are_contiguous_on_a_cpu() -> None:
    assert not any(bears_channels_last(ResNet(width=width), CPU) for width in (1, 7))
    assert bears_channels_last(ResNet(width=8), CPU)
    assert bears_channels_last(ResNet(width=4), GPU)
    assert bears_channels_last(SimpleConvNet(width=4), CPU)  # none of its convolutions is 1 × 1


NARROW_STEPS = """
import torch
from contrastive.experiment.build import build
from tests.helpers import compose_settings

for width in range(1, 8):
    words = ["dataset.size=16", "batch_size=32", "device=cpu", "precision=fp32", "evaluator=[]", "quiet=true"]
    experiment = build(compose_settings(*words, f"encoder.width={width}", "channels_last=true"))
    for _, batch in zip(range(3), experiment.loader.epoch(0), strict=False):
        assert experiment.step(batch, torch.Generator()).loss.isfinite()
"""


@pytest.mark.slow
def test_narrow_networks_train_without_avx512() -> None:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", NARROW_STEPS], cwd=ROOT, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
