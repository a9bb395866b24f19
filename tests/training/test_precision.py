"""The layout of maps that a network bears on which device; words of precision are for tests/gpu."""

import os
import subprocess
import sys

import pytest
import torch

from contrastive.encoder.resnet import ResNet
from contrastive.encoder.simple_convnet import SimpleConvNet
from contrastive.training.precision import bears_channels_last
from tests.helpers import ROOT

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")


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
