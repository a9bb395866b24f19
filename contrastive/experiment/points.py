"""What a run logs beside the curves of training: pictures, histograms, and its scores as points."""

from typing import Any

import torch

from contrastive.evaluator.base import Scores
from contrastive.experiment.build import Experiment
from contrastive.run.directory import RunDirectory
from contrastive.seeding import generator
from contrastive.training.diagnostics import class_similarities, view_grid
from contrastive.types import Data, Features

MAX_POINTS, MAX_NUMBERS = 2000, 2**20  # of the projector: images, and numbers in all their features


def log_first_views(run: RunDirectory, experiment: Experiment) -> None:
    """A picture of eight images of the first batch, and of their views."""
    step, loader = experiment.step, experiment.loader
    rng = generator(loader.device, loader.seed, "augmentation", 0)
    batch = next(loader.epoch(0))
    run.log_image(0, "views", view_grid(batch.image[:8], step.views(batch, rng)[:, :8]))


def log_scores(run: RunDirectory, scores: Scores, *, step: int, epoch: int) -> None:
    """Log the scores after training as points of curves and histograms."""
    run.log(step, epoch, grouped("test", scores.test) | nested("audit", scores.audit))
    for name, values in scores.histograms.items():
        run.log_histogram(step, name, values)


def log_features(run: RunDirectory, features: Features, data: Data, *, step: int) -> None:
    """Show the test features: as points with their labels, and how similar they are within and between classes."""
    n = min(MAX_POINTS, max(1, MAX_NUMBERS // features.h.shape[1]))
    index = torch.randperm(len(features.h), generator=generator("cpu", "shown"))[:n]
    shown = features[index.to(features.h.device)]
    for name, values in class_similarities(shown.h, shown.label).items():
        run.log_histogram(step, f"similarity/{name}", values)
    columns = {"class": names(shown.label, data.classes)}
    if shown.bias is not None:
        columns["bias"] = names(shown.bias, data.biases)
    run.log_embedding(shown.h, columns, data.test.image[index.to(data.test.image.device)])


def names(number: torch.Tensor, known: tuple[str, ...]) -> list[str]:
    """The name of each label; those of unlabeled images are `unlabeled`."""
    return [str(known[i]) if i >= 0 else "unlabeled" for i in number.tolist()]


def grouped(group: str, metrics: dict[str, float]) -> dict[str, float]:
    """Metric names as curves are grouped: group/name."""
    return {f"{group}/{key}": value for key, value in metrics.items()}


def nested(group: str, record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a nested record as curves: group/outer/inner."""
    curves: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            curves |= nested(f"{group}/{key}", value)
        elif not isinstance(value, str):
            curves[f"{group}/{key}"] = value
    return curves
