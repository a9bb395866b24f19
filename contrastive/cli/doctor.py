"""Whether this machine is ready for a run: environment, device, disk, load, ten training steps.

torch is imported by the checks that need it: without it the others still say what is wrong.
"""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hydra import compose

from contrastive.config.arguments import Parser, answering
from contrastive.config.compose import composing
from contrastive.distributed.hardware import n_busy, n_cores

PACKAGES = ("torch", "torchvision", "hydra-core", "omegaconf", "numpy", "pillow", "safetensors", "tensorboard")
NEEDED = 2 * 2**30  # bytes that a run with its checkpoints may take
STEPS = 10


class Finding(NamedTuple):
    """What a check saw. A fault stands in the way of a run, a warning does not; each is one sentence."""

    facts: str
    fault: str | None = None
    warning: str | None = None


def examine(checks: dict[str, Callable[[], Finding]]) -> int:
    """Print a line for each check, and what to do about it, if anything; returns 1 if there is a fault."""
    faults = 0
    for name, check in checks.items():
        try:
            finding = check()
        except Exception as error:  # a machine can be broken in any way
            finding = Finding("failed", f"{type(error).__name__}: {' '.join(str(error).split())}: try make setup")
        mark = "FAULT" if finding.fault else "warn" if finding.warning else "ok"
        print(f"{mark:<5}  {name:<12} {finding.facts}", flush=True)
        if finding.fault or finding.warning:
            print(f"{'':<19} {finding.fault or finding.warning}", flush=True)
        faults += finding.fault is not None
    print(f"\n{faults} of {len(checks)} checks found a fault" if faults else "\nready: try make demo")
    return 1 if faults else 0


def load() -> Finding:
    """Other busy processes: they slow what is measured here, and threads that wait for each other cost more than they
    bring."""
    import torch

    from contrastive.experiment.machine import busy_warning

    busy, cores, threads = n_busy(), n_cores(), torch.get_num_threads()
    facts = f"{busy:.1f} of {cores} cores busy, {threads} threads for torch"
    return Finding(facts, warning=busy_warning() or None)


def environment() -> Finding:
    """Python and the packages that a run uses."""
    versions = [f"{package} {importlib.metadata.version(package)}" for package in PACKAGES]
    return Finding(f"Python {platform.python_version()}, {', '.join(versions)}")


def disk() -> Finding:
    """Room for runs, where they are written."""
    outputs = (Path("outputs") if Path("outputs").exists() else Path()).resolve()
    free = shutil.disk_usage(outputs).free
    facts = f"{free / 2**30:.1f} GiB free for {outputs}"
    if not os.access(outputs, os.W_OK):
        return Finding(facts, f"{outputs} cannot be written: try hydra.run.dir=PATH")
    advice = "a run with its checkpoints may need 2 GiB: try another hydra.run.dir=PATH"
    return Finding(facts, advice if free < NEEDED else None)


def device() -> Finding:
    """The device that `device=auto` takes."""
    import torch

    from contrastive.experiment.machine import choose_device
    from contrastive.run.provenance import gpu_record

    chosen = choose_device("auto")
    if chosen.type == "cuda":
        properties = torch.cuda.get_device_properties(chosen)
        gpu = gpu_record()
        versions = f"CUDA {gpu['cuda']}, cuDNN {gpu['cudnn']}"
        memory = f"{properties.total_memory / 2**30:.0f} GiB"
        return Finding(f"{properties.name}, {memory}, {versions}, GPUs: {len(gpu['gpus'])}")
    if chosen.type == "mps":
        return Finding(f"Apple's GPU, {torch.mps.recommended_max_memory() / 2**30:.0f} GiB; float32")
    return Finding(f"CPU, {torch.get_num_threads()} threads; no GPU that torch can use")


def training() -> Finding:
    """Ten steps on the bundled digits."""
    from contrastive.config.settings import Settings
    from contrastive.experiment.build import build
    from contrastive.experiment.dry_run import first_steps

    with composing():
        words = ["encoder=resnet18_narrow", "batch_size=128", "data_root=data"]
        experiment = build(Settings.from_config(compose("train", words)))
    seconds, losses = first_steps(experiment, STEPS)
    facts = f"{STEPS} steps of 128 digits, {1000 * seconds:.0f} ms each, loss {losses[0]:.3f} to {losses[-1]:.3f}"
    if not all(0 < loss < 100 for loss in losses):
        return Finding(facts, "the loss is not a number: try python train.py precision=fp32 device=cpu")
    return Finding(facts)


CHECKS = {"load": load, "environment": environment, "disk": disk, "device": device, "training": training}


@answering
def main(words: list[str]) -> int:
    """Print the page; returns the exit code: 1 if there is a fault."""
    Parser("doctor", __doc__.split("\n\n")[0]).parse_args(words)
    return examine(CHECKS)
