"""Let glibc keep the memory that tensors give back, on huge pages.

By default glibc maps every large tensor afresh and unmaps it when it is freed, and the kernel clears its pages one by
one: up to half of a training step on a CPU. The settings that stop this are only read when a process starts, so the
program starts itself once more with them. Memory once used is then kept until the program ends.
"""

import os
import platform
import sys

VARIABLE = "GLIBC_TUNABLES"
TUNED = "glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184:glibc.malloc.hugetlb=1"


def reexec_with_tuned_malloc() -> None:
    """Replace this process by itself with glibc tuned, unless it is not glibc or the variable is already set."""
    if tuned := tuned_environment():
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **tuned})


def tuned_environment() -> dict[str, str]:
    """The variable with which a process has to start; nothing where it is set already, or there is no glibc."""
    is_open = VARIABLE not in os.environ and platform.libc_ver()[0] == "glibc"
    return {VARIABLE: TUNED} if is_open else {}


def is_tuned() -> bool:
    """Whether this process runs with these settings."""
    return os.environ.get(VARIABLE) == TUNED
