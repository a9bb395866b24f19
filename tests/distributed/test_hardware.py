"""Runs are spread over the GPUs that the user lists; of a CPU its instruction sets tell which runs are paired."""

import pytest
import torch

from contrastive.distributed import hardware
from contrastive.distributed.hardware import gpus_for, pair_of, processor

GENOA = "sse4_1 avx avx2 avx512f avx512bw avx512vl avx512dq avx512_vnni avx512_bf16"
VARIABLES = ("ONEDNN_MAX_CPU_ISA", "MKL_CBWR")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes this machine another: its flags, what ATen takes, and variables of the environment."""

    def make(flags: str, aten: str, **variables: str) -> str:
        first = f"vendor_id\t: X\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: EPYC\nflags\t\t: {flags}"
        (tmp_path / "cpuinfo").write_text(f"{first}\n\nprocessor\t: 1\n")
        monkeypatch.setattr(hardware, "CPUINFO", tmp_path / "cpuinfo")
        monkeypatch.setattr(hardware.platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: aten)
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return processor(torch.device("cpu"))

    return make


def test_the_instruction_sets_of_a_cpu_are_told(machine):
    auto = "MKL AUTO on X 25 17"
    assert machine(GENOA, "AVX512") == f"EPYC (oneDNN AVX512_CORE_BF16, ATen AVX512, {auto})"
    assert machine("sse4_1 avx avx2", "AVX2") == f"EPYC (oneDNN AVX2, ATen AVX2, {auto})"
    assert machine(GENOA, "AVX512", ONEDNN_MAX_CPU_ISA="avx2") == f"EPYC (oneDNN AVX2, ATen AVX512, {auto})"
    assert machine(GENOA, "AVX2", MKL_CBWR="AVX2").endswith("MKL AVX2 on X 25 17)")
    assert machine("", "DEFAULT").startswith("EPYC (oneDNN unknown, ATen DEFAULT")


def test_where_all_are_fixed_every_processor_is_one_kind(machine):
    fixed = {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "COMPATIBLE"}
    wide, old = machine(GENOA, "AVX2", **fixed), machine("sse4_1 avx avx2", "AVX2", **fixed)
    assert wide == old == "x86_64 (oneDNN AVX2, ATen AVX2, MKL COMPATIBLE)"
    assert machine("sse4_1 avx", "DEFAULT", **fixed) != wide


def test_runs_without_a_recorded_set_are_a_kind_of_their_own():
    old, new = {"device": "EPYC", "torch": "2"}, {"device": "EPYC", "processor": "EPYC (oneDNN AVX2)", "torch": "2"}
    assert pair_of(old) == ("EPYC (instruction set not recorded)", "", "2")
    assert pair_of(old) == pair_of({**old, "processor": None}) != pair_of(new)
    assert pair_of(new) != pair_of({**new, "torch": "3"})
    continued = {**new, "torch": "3", "earlier": [new, {**new, "torch": "3"}, new]}
    assert pair_of(continued) == ("EPYC (oneDNN AVX2)", "", "2, then 3")


@pytest.mark.parametrize(
    ("words", "listed", "gpus"),
    [
        (["device=cuda"], None, ["0", "1", "2", "3"]),
        *((words, None, []) for words in (["device=cpu"], ["device=cuda:1"], ["devices=2"])),  # that say otherwise
        ([], "GPU-8932f937,GPU-1a2b", ["GPU-8932f937", "GPU-1a2b"]),
        ([], "1, 3,2,0,-1,5", ["1", "3", "2", "0"]),  # CUDA stops at the first that there is not
    ],
)
def test_runs_are_spread_over_every_gpu_that_the_user_lists(monkeypatch, tmp_path, words, listed, gpus):
    monkeypatch.setattr(hardware, "DRIVERS", (str(tmp_path),))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    assert gpus_for(words) == gpus
