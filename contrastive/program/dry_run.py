"""What a run would cost, from a few of its steps: measured before hours are spent."""

import resource
import time
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path
from statistics import median

import torch

from contrastive.evaluator.knn import CHUNK, vote
from contrastive.program.build import Built
from contrastive.seeding import generator
from contrastive.training.features import extract
from contrastive.types import Split

WARM_UP, STEPS, IMAGES, ITERATIONS = 2, 5, 1000, 4


def project(built: Built, *, knn_every: int) -> str:
    """Seconds for training and evaluation and the peak of memory, as lines to print. Trains a few steps on the way.

    Reading the data, compiling, and whatever only happens in a long run (a slower, hotter machine) are not in it.
    """
    trainer, loader, evaluator = built.trainer, built.loader, built.evaluator
    if built.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(built.device)
    step = step_seconds(built)
    training = trainer.epochs * len(loader) * step
    curves = (trainer.epochs - 1) // knn_every if knn_every else 0
    knn, probe = evaluation_seconds(built)
    evaluation = (curves + 2) * knn + 2 * probe
    if built.device.type == "cuda":
        peak, whose = torch.cuda.max_memory_allocated(built.device), "of the device"
    else:
        peak, whose = resident_peak(), "of each process"
    rate = loader.batch_size * trainer.n_views / step
    kinds = f"{curves + 2} kNN of {clock(knn)}, 2 linear probes of {clock(probe)}"
    return "\n".join(
        [
            f"dry run, nothing is written: {step:.3f} s a step, {rate:,.0f} views/s on {built.device} in {built.precision}",
            f"  training     {clock(training):>12}   {trainer.epochs} epochs of {len(loader)} steps",
            f"  evaluation   {clock(evaluation):>12}   {kinds}, at most ({len(evaluator.probe.l2) + 1} fits of "
            f"{evaluator.probe.max_iter} iterations)",
            f"  together     {clock(training + evaluation):>12}",
            f"  peak memory  {peak / 2**30:>8.2f} GiB   {whose}",
        ]
    )


def step_seconds(built: Built) -> float:
    """The median step of a few, the first ones left out."""
    trainer, seconds = built.trainer, []
    rng = generator(built.device, trainer.seed, "augmentation", 0)
    trainer.encoder.train()
    trainer.head.train()
    batches = chain.from_iterable(map(built.loader.epoch, count()))
    for _ in range(WARM_UP + STEPS):
        seconds.append(timed(lambda: trainer.step(next(batches), rng), built.device))
    return median(seconds[WARM_UP:])


def evaluation_seconds(built: Built) -> tuple[float, float]:
    """Of one kNN evaluation and one linear probe, scaled up from parts of them."""
    data, evaluator, encoder = built.evaluator.data, built.evaluator, built.trainer.encoder
    some = Split(data.pretrain.image[:IMAGES], data.pretrain.label[:IMAGES])
    extract(encoder, some, evaluator.normalize, evaluator.autocast)
    per_image = timed(lambda: extract(encoder, some, evaluator.normalize, evaluator.autocast), built.device) / len(some)
    n, n_test, n_classes = len(data.pretrain), len(data.test), len(data.classes)
    dim = extract(encoder, Split(some.image[:1], some.label[:1]), evaluator.normalize, evaluator.autocast).h.shape[1]
    bank = torch.randn(n, dim, device=built.device)
    label = torch.randint(n_classes, (n,), device=built.device)
    k, queries = max(1, min(evaluator.k, n // 10)), bank[:CHUNK]
    voting = timed(lambda: vote(bank, label, queries, n_classes=n_classes, k=k, temperature=1.0), built.device)
    probe = evaluator.probe
    full, probe.max_iter = probe.max_iter, ITERATIONS
    fit = timed(lambda: probe.fit(bank, label, n_classes, probe.l2[-1]), built.device) / ITERATIONS * full
    probe.max_iter = full
    knn = (n + n_test) * per_image + voting * n_test / len(queries)
    return knn, fit * (len(probe.l2) + 1) + len(data.probe_val) * per_image


def timed(task: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call, the device's work included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    since = time.perf_counter()
    task()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - since


def resident_peak() -> int:
    """Bytes this process has held at most. (getrusage would count the one that started it, too.)"""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def clock(seconds: float) -> str:
    """`2 h 05 min`, `3 min 07 s`, `4.1 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes} min {left:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
