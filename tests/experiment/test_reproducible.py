"""reproducible=true: the same weights on every x86 processor with AVX2.

tests/data/reproducible.json has their hashes, and the kinds of machines that gave them: whoever runs this on another
one adds its line.
"""

import hashlib
import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from contrastive.config.settings import Settings
from contrastive.distributed import hardware
from contrastive.distributed.hardware import VARIABLES, fix_instructions, processor
from contrastive.errors import ConfigError
from tests.helpers import ROOT

GOLDEN = json.loads((ROOT / "tests/data/reproducible.json").read_text())


def weights(run) -> str:
    """A hash of the tensors of a run's encoder, by name."""
    digest = hashlib.sha256()
    for _, tensor in sorted(load_file(run / "encoder.safetensors").items()):
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:8]


@pytest.mark.slow
@pytest.mark.skipif(torch.__version__.partition("+")[0] != GOLDEN["torch"], reason="another torch may round otherwise")
@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="no AVX2")
@pytest.mark.parametrize("words", GOLDEN["weights"])
def test_the_weights_are_those_of_every_other_machine(tmp_path, words):
    command = [sys.executable, "train.py", "reproducible=true", "epochs=2", "encoder.width=8", "evaluator=knn"]
    environment = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", *VARIABLES)}
    subprocess.run([*command, *words.split(), f"hydra.run.dir={tmp_path}"], cwd=ROOT, env=environment, check=True)
    assert weights(tmp_path) == GOLDEN["weights"][words], processor(torch.device("cpu"))
    recorded = json.loads((tmp_path / "environment.json").read_text())
    assert recorded["processor"].endswith("(oneDNN AVX2, ATen AVX2, MKL COMPATIBLE)")


def test_a_process_that_has_computed_is_refused_and_left_as_it_was():
    torch.randn(64, 64) @ torch.randn(64, 64)
    before = dict(os.environ)
    with pytest.raises(ConfigError, match="nothing yet: try reproducible=false, or ONEDNN_MAX_CPU_ISA=AVX2 ATEN_"):
        fix_instructions()
    assert dict(os.environ) == before


def test_it_means_one_thread_in_fp32_on_a_cpu(composed):
    settings: Settings = composed("reproducible=true")
    assert (settings.device, settings.precision, settings.compile, settings.threads) == ("cpu", "fp32", False, 1)
    assert composed("reproducible=true", "threads=4").threads == 4
    assert composed("reproducible=true", "experiment=simclr_cifar10").precision == "tf32"  # which is fp32 on a CPU


@pytest.mark.parametrize(
    ("words", "asked"),
    [("loss=nt_xent precision=fp32", True), ("loss=nt_xent device=cpu", True), ("reproducible=false", False),
     ("rows={a: 'loss=nt_xent precision=bf16'}", False), ("compile=auto,True", False), ("device=cuda", False)],
)  # fmt: skip
def test_tables_and_comparisons_on_a_cpu_ask_for_it(words, asked, monkeypatch, tmp_path):
    monkeypatch.setattr(hardware, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(hardware, "DRIVERS", ())
    (tmp_path / "cpuinfo").write_text("flags : sse avx2 fma\n")
    assert hardware.reproducibly(words.split()) == ["reproducible=true"] * asked
    (tmp_path / "cpuinfo").write_text("Features : neon\n")
    assert hardware.reproducibly(words.split()) == []
