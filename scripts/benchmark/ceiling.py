"""Arithmetic ceiling of the machine: float32 multiply-adds of all cores on a CPU, a bf16 matrix product on a GPU."""

import ctypes
import os
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from measure import report, synchronize

FLAGS = ["-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=fast", "-shared", "-fPIC"]


def cpu() -> dict[str, float]:
    """GFLOP/s of fused multiply-adds on every core at once; needs gcc."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/ceiling.so"
        source = str(Path(__file__).with_name("ceiling.c"))
        subprocess.run(["gcc", *FLAGS, "-o", library, source], check=True)
        chains = ctypes.CDLL(library).fma_chains
        chains.argtypes, chains.restype = [ctypes.c_size_t], ctypes.c_float
        cores, n, best = len(os.sched_getaffinity(0)), 20_000_000, 0.0
        with ThreadPoolExecutor(cores) as pool:
            for _ in range(4):
                since = time.perf_counter()
                list(pool.map(chains, [n] * cores))
                best = max(best, cores * n * 16 * 16 * 2 / (time.perf_counter() - since))
    return {
        "fma_gflops": best / 1e9,
        "sgemm_gflops": matmul(torch.float32, "cpu", 2048) / 1e9,
        "bf16_gemm_gflops": matmul(torch.bfloat16, "cpu", 2048) / 1e9,
    }


def matmul(dtype: torch.dtype, device: str, n: int) -> float:
    """FLOP/s of the best of some n × n products."""
    a, best = torch.randn(n, n, device=device).to(dtype), 0.0
    for _ in range(10):
        synchronize()
        since = time.perf_counter()
        for _ in range(4):
            a @ a
        synchronize()
        best = max(best, 4 * 2 * n**3 / (time.perf_counter() - since))
    return best


if __name__ == "__main__":
    if torch.cuda.is_available():
        report(bf16_gemm_gflops=matmul(torch.bfloat16, "cuda", 8192) / 1e9)
    else:
        report(**cpu())
