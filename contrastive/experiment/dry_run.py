"""Estimate the time and memory of a run from a few of its steps, before hours are spent."""

import math
import time
from collections.abc import Callable
from itertools import chain, count, islice
from pathlib import Path
from typing import NamedTuple

import psutil
import torch

from contrastive.evaluator.base import FeatureSets, evaluate
from contrastive.experiment.build import Experiment
from contrastive.seeding import generator
from contrastive.text import clock, counted
from contrastive.training import graph
from contrastive.training.features import extract
from contrastive.types import Features

WARM_UP, STEPS, IMAGES = 2, {"cpu": 5, "cuda": 30, "mps": 30}, 1000
SHARE = 10  # evaluators are timed on this fraction of the training features, when those are many
MANY = 10_000


class Timing(NamedTuple):
    """What a run takes.

    Attributes:
        seconds: in all.
        memory: the most that is held, in words.
        is_finite: whether the losses of the steps were.
        text: lines that say where the time goes and what memory it needs.
    """

    seconds: float
    memory: str
    is_finite: bool
    text: str


def estimate(experiment: Experiment) -> Timing:
    """Time each part of the run, and measure the peak of memory. Trains a few steps on the way.

    Not included: reading the data, compiling, and what only happens in a long run (a slower, hotter machine).
    """
    settings, loader, device = experiment.settings, experiment.loader, experiment.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    step, losses = first_steps(experiment, STEPS[device.type])
    training = settings.epochs * len(loader) * step
    extraction, seconds = evaluation_seconds(experiment)
    every = {name: experiment.evaluators[name].every for name in seconds}
    points = {name: max(0, settings.epochs - 1) // n if n else 0 for name, n in every.items()}
    curve = sum(points[name] * seconds[name] for name in seconds) + extraction * max([0, *points.values()])
    before = [name for name in seconds if settings.epochs and experiment.evaluators[name].before_training]
    evaluation = sum(seconds.values()) + sum(seconds[name] for name in before) + extraction * (2 if before else 1)
    total = training + curve + evaluation
    untimed = [name for name, evaluator in experiment.evaluators.items() if evaluator.reads_images]
    rate = loader.views_per_step(settings.n_views) / step

    def row(name: str, part: float, details: str) -> str:
        return f"  {name:<13}{clock(part):>12} {100 * part / max(total, 1e-9):>4.0f} %   {details}"

    drawn = [f"{points[name]} of {name}, {clock(seconds[name])} each" for name in seconds if points[name]]
    judged = [f"{name} {clock(seconds[name])}" for name in seconds]
    lines = [
        f"dry run: {step:.3f} s a step, {rate:,.0f} views/s on {device} in {experiment.precision}",
        row("training", training, f"{counted(settings.epochs, 'epoch')} of {counted(len(loader), 'step')}"),
        row("curve points", curve, f"{'; '.join(drawn)}, features {clock(extraction)}" if drawn else "none"),
        row("evaluation", evaluation, f"{'before and ' if before else ''}after: features {clock(extraction)}, "
            f"{', '.join(judged) or 'nothing'}{'; not timed: ' if untimed else ''}{', '.join(untimed)}"),
        row("together", total, ""),
        f"  {'peak memory':<13}{(memory := peak_memory(device))}",
    ]  # fmt: skip
    text = "\n".join(line.rstrip() for line in lines)
    return Timing(seconds=total, memory=memory, is_finite=all(map(math.isfinite, losses)), text=text)


def first_steps(experiment: Experiment, n: int) -> tuple[float, list[float]]:
    """Seconds of a step, over n of them after two for warming up, and the losses of all; an epoch may be shorter.

    The device is waited for once, at the end: a step that is faster than the program that queues it shows as such.
    """
    step, loader = experiment.step, experiment.loader
    rng = generator(loader.device, loader.seed, "augmentation", 0)
    step.encoder.train()
    step.head.train()
    batches = chain.from_iterable(map(loader.epoch, count()))
    warm_up = WARM_UP + (graph.WARM_UP if isinstance(step, graph.GraphedStep) else 0)  # a capture is no step
    losses = [step(batch, rng).loss for batch in islice(batches, warm_up)]
    seconds = timed(lambda: losses.extend(step(batch, rng).loss for batch in islice(batches, n)), experiment.device)
    return seconds / n, torch.stack(losses).tolist()


def evaluation_seconds(experiment: Experiment) -> tuple[float, dict[str, float]]:
    """Seconds of one extraction of all features, and of each evaluator on random features of their shape."""
    data, step = experiment.data, experiment.step
    chosen = torch.arange(min(IMAGES, len(data.pretrain)))
    features = extract(step.encoder, data.pretrain, step.normalize, chosen)
    per_image = timed(lambda: extract(step.encoder, data.pretrain, step.normalize, chosen), experiment.device)
    n_val = len(data.probe_val) if data.probe_val_index is None else 0
    n_bank = int((data.pretrain.label >= 0).sum())
    reads_training = any(evaluator.reads_training for evaluator in experiment.evaluators.values())
    extraction = per_image / len(chosen) * ((n_bank + n_val) * reads_training + len(data.test))
    share = SHARE if n_bank > MANY else 1
    n_classes, n_biases, dim = len(data.classes), len(data.biases), features.h.shape[1]

    def random(n: int) -> Features:
        label = torch.arange(n, device=experiment.device) % max(1, n_classes)
        bias = torch.arange(n, device=experiment.device) % n_biases if n_biases else None
        return Features(torch.randn(n, dim, device=experiment.device), label, bias)

    sets = FeatureSets(
        bank=random(n_bank // share),
        train=random(len(data.probe_train) // share),
        val=random(len(data.probe_val)),
        test=random(len(data.test)),
        n_classes=n_classes,
        n_biases=n_biases,
    )
    seconds = {
        name: share * timed(lambda: evaluate({name: evaluator}, sets), experiment.device)  # noqa: B023
        for name, evaluator in experiment.evaluators.items()
        if not evaluator.reads_images
    }
    return extraction, seconds


def timed(task: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call, the device's work included."""

    def now() -> float:
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
        return time.perf_counter()

    since = now()
    task()
    return now() - since


def peak_memory(device: torch.device) -> str:
    """The most memory that was held, in words: of a GPU what torch has reserved, which is more than its tensors."""
    if device.type != "cuda":
        return f"{resident_peak() / 2**30:.2f} GiB   of each process"
    reserved, allocated = torch.cuda.max_memory_reserved(device), torch.cuda.max_memory_allocated(device)
    return f"{reserved / 2**30:.2f} GiB   of the device, {allocated / 2**30:.2f} of them in tensors"


def resident_peak() -> int:
    """The most bytes this process has held, without its parent's; beside Linux those that it holds."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
    return peaks[0] if peaks else int(psutil.Process().memory_info().rss)
