"""reproducible=true: the same weights on every x86 processor with AVX2.

tests/data/reproducible.json has their hashes, and the kinds of machines that gave them: whoever runs this on another
one adds its line.
"""

import hashlib
import json
import os
import re

import pytest
import torch
from safetensors.torch import load_file

from contrastive.config.settings import Settings
from contrastive.distributed import hardware
from contrastive.distributed.hardware import VARIABLES, fix_instructions, processor
from contrastive.errors import ConfigError
from tests.helpers import ROOT, python

UNSET = {name: value for name, value in os.environ.items() if name not in ("OMP_NUM_THREADS", *VARIABLES)}
GOLDEN = json.loads((ROOT / "tests/data/reproducible.json").read_text())


def weights(run) -> str:
    """A hash of the tensors of a run's encoder, by name."""
    digest = hashlib.sha256()
    for _, tensor in sorted(load_file(run / "encoder.safetensors").items()):
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:8]


pinned = pytest.mark.skipif(
    torch.__version__.partition("+")[0] != GOLDEN["torch"]
    or torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"),
    reason="another torch may round otherwise, and no AVX2 does",
)


@pytest.mark.slow
@pinned
def test_the_comparison_that_the_readme_shows_comes_back(tmp_path):
    words = ["loss=nt_xent,debiased_pos", "dataset=digits", "epochs=5", "budget=1", "device=cpu"]
    done = python("-m", "contrastive", "compare", *words, cwd=tmp_path, env=UNSET)
    page = (ROOT / "README.md").read_text()
    (said,) = re.findall(r"^```\n(debiased_pos with.*?)\n```$", page, re.DOTALL | re.MULTILINE)
    assert " ".join(said.split()) in done.stdout, done.stderr


@pytest.mark.slow
@pinned
@pytest.mark.parametrize("words", GOLDEN["weights"])
def test_the_weights_are_those_of_every_other_machine(tmp_path, words):
    small = ["reproducible=true", "epochs=2", "encoder.width=8", "evaluator=knn"]
    done = python("train.py", *small, *words.split(), f"hydra.run.dir={tmp_path}", cwd=ROOT, env=UNSET)
    assert done.returncode == 0, done.stderr
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
