"""What a run is computed on: this machine's cores and GPUs, and the processor whose instruction sets decide last bits.

Virtual machines give several generations of processors one name, and oneDNN, ATen and MKL each choose their code by
what they find, or by a variable of the environment. torch is imported late: it takes seconds.
"""

import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from contrastive.errors import ConfigError

if TYPE_CHECKING:
    import torch

DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # device files: NVIDIA's, AMD's, Windows' in WSL
ELSEWHERE = ("device=cpu", "device=cuda:", "devices=")  # settings of runs that use no GPU, a certain one, several
CPUINFO = Path("/proc/cpuinfo")
# oneDNN's sets in the order of ONEDNN_MAX_CPU_ISA, with the flags of a processor that has each
SETS = {
    "SSE41": "sse4_1", "AVX": "avx", "AVX2": "avx2", "AVX2_VNNI": "avx_vnni",
    "AVX2_VNNI_2": "avx_vnni_int8 avx_ne_convert", "AVX512_CORE": "avx512f avx512bw avx512vl avx512dq",
    "AVX512_CORE_VNNI": "avx512_vnni", "AVX512_CORE_BF16": "avx512_bf16", "AVX512_CORE_FP16": "avx512_fp16",
    "AVX512_CORE_AMX": "amx_tile amx_int8 amx_bf16", "AVX512_CORE_AMX_FP16": "amx_fp16",
}  # fmt: skip
# MKL takes its branch AVX2 on Intel's processors alone
VARIABLES = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "COMPATIBLE"}
# words that choose a device or an arithmetic themselves
CHOSEN = re.compile(r"\b(reproducible=|devices=|device=\S*(cuda|mps)|precision=\S*16|compile=\S*true)", re.IGNORECASE)
FIXED = "oneDNN AVX2, ATen AVX2, MKL COMPATIBLE"  # what they give on every processor that has AVX2


def n_cores() -> int:
    """How many cores this process may use."""
    return len(_cores())


def n_busy() -> float:
    """How many of these cores are at work at this moment, as seen for a fifth of a second: the average over the last
    minute would tell of what has ended since."""
    percent = psutil.cpu_percent(0.2, percpu=True)
    return float(sum(percent[i] for i in _cores() if i < len(percent))) / 100


def _cores() -> list[int]:
    affinity = getattr(psutil.Process(), "cpu_affinity", None)  # macOS has none
    return list(range(psutil.cpu_count() or 1)) if affinity is None else affinity()


def check_processes(n: int, device: str) -> None:
    """Raise ConfigError for more processes of one run than this machine has GPUs or, without any, cores.

    Args:
        device: as typed, such as auto or cpu.
    """
    n_gpus = 0 if device == "cpu" else len(gpus_for(()))
    most, kind = (n_gpus, "GPU") if n_gpus else (n_cores(), "core")
    if n > most:
        raise ConfigError(f"devices={n} needs a {kind} for each process: try devices={most}")


def gpus_for(overrides: Iterable[str]) -> list[str]:
    """The GPUs to spread runs over, as CUDA_VISIBLE_DEVICES names them: numbers, or the UUIDs that it lists.

    Args:
        overrides: settings of all runs; none is spread that does without a GPU, names one, or uses several.
    """
    if any(word.startswith(ELSEWHERE) for word in overrides) or not any(Path(file).exists() for file in DRIVERS):
        return []
    import torch

    n = torch.cuda.device_count()
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [name.strip() for name in listed.split(",")][:n] if listed is not None else [str(i) for i in range(n)]


def device_name(device: "torch.device") -> str:
    """The GPU's name, or the processor's model."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    return _cpu().get("model name") or platform.processor() or platform.machine()


def processor(device: "torch.device") -> str:
    """The kind that runs must share to be a pair: the name, and of a CPU its instruction sets, in brackets. Where these
    are fixed, all processors are one kind."""
    used = _instructions(_cpu()) if device.type == "cpu" else platform.machine()
    return f"{platform.machine() if used == FIXED else device_name(device)} ({used})"


def of_sessions(environment: Mapping[str, Any], key: str) -> str:
    """A value of environment.json, of a run that went on with another one all of them; empty where none is known."""
    sessions = [*environment.get("earlier", []), environment]
    return ", then ".join(dict.fromkeys(str(own[key]) for own in sessions if own.get(key)))


def pair_of(environment: Mapping[str, Any]) -> tuple[str, str, str]:
    """What two runs must share to be a pair: runs of other kinds differ by whole points. Of environment.json or of a
    record; earlier ones have the name of a processor alone."""
    name = of_sessions(environment, "processor") or f"{environment.get('device')} (instruction set not recorded)"
    return name, of_sessions(environment, "precision"), of_sessions(environment, "torch")


def fix_instructions() -> None:
    """Have oneDNN, ATen and MKL compute alike on every x86 processor with AVX2; each reads its variable only once.

    Raises:
        ConfigError: this process has computed before, or torch is built without MKL, or for other processors.
    """
    import torch

    before = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    os.environ.update(VARIABLES)
    if torch.backends.cpu.get_cpu_capability() == "AVX2" and not _fuses():
        return
    for name in VARIABLES:
        del os.environ[name]
    os.environ.update(before)
    settings = " ".join(f"{name}={value}" for name, value in VARIABLES.items())
    raise ConfigError(
        "reproducible=true needs AVX2 and MKL, in a Python that has computed nothing yet: "
        f"try reproducible=false, or {settings} before the command"
    )


def reproducibly(words: Iterable[str]) -> list[str]:
    """`reproducible=true`, for runs of a table or comparison whose words ask for no other arithmetic: without a GPU, on
    a processor with AVX2."""
    words = list(words)
    has_avx2 = "avx2" in _cpu().get("flags", "").split()
    return ["reproducible=true"] if has_avx2 and not CHOSEN.search(" ".join(words)) and not gpus_for(words) else []


def _fuses() -> bool:
    """Whether matrix products round once for a product and a sum, as all of MKL's branches but COMPATIBLE do: here the
    rounded square of 1 + 2**-12 is taken from it."""
    import torch

    ours, theirs = torch.tensor([[-(1 + 2**-11), 1 + 2**-12]] * 64), torch.tensor([[1, 1 + 2**-12]] * 64)
    return bool((ours @ theirs.T).any())


def _cpu() -> dict[str, str]:
    """What Linux tells of the first processor; {} elsewhere."""
    first = CPUINFO.read_text().partition("\n\n")[0] if CPUINFO.exists() else ""
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}


def _instructions(cpu: Mapping[str, str]) -> str:
    """The sets that oneDNN and ATen use, and MKL's branch, which is its own secret where it chooses one itself: then
    the processor's maker, family and model stand for it."""
    import torch

    names, flags = list(SETS), set(cpu.get("flags", "").split())
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    allowed = names[: names.index(limit) + 1] if limit in names else names
    found = [name for name in allowed if flags.issuperset(SETS[name].split())]
    branch = os.environ.get("MKL_CBWR", "AUTO").upper().partition(",")[0]
    if branch != "COMPATIBLE":
        model = [cpu.get(key, "") for key in ("vendor_id", "cpu family", "model")]
        branch += f" on {' '.join(model).strip() or platform.machine()}"
    return f"oneDNN {found[-1] if found else 'unknown'}, ATen {torch.backends.cpu.get_cpu_capability()}, MKL {branch}"
