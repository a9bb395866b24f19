"""What is shown of a run: curves of a batch, scores as points, pictures of views and histograms."""

from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.utils import make_grid

from contrastive.config.identity import flatten
from contrastive.evaluator.geometry import alignment, uniformity
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import other_image
from contrastive.seeding import generator
from contrastive.training.features import at_once, frozen
from contrastive.training.loader import Loader
from contrastive.training.objective import Embedded, Objective, gathered
from contrastive.training.step import StepOutput, TrainStep
from contrastive.types import Features, Split, visible

MAX_SIMILAR = 2000  # images of the test split whose features are compared
MAX_IMAGES = 1024  # images of a batch whose pairs are compared


@torch.no_grad()
def diagnose(objective: Objective, output: StepOutput) -> dict[str, float]:
    """Diagnostics of the last step, over the first 1,024 images of each batch that all processes hold together."""
    main = gathered(output.main, MAX_IMAGES)
    second = None if output.second is None else gathered(output.second, MAX_IMAGES)
    values = {f"pairs/{key}": value for key, value in geometry(main.outputs["projections"]).items()}
    values |= objective.diagnostics(main, second)
    if main.bias is not None:
        values["bias/conflicting_pairs"] = conflicting_pairs(main.label, main.bias)
    return {key: value.item() for key, value in values.items()}


@torch.no_grad()
def unseen_loss(step: TrainStep, split: Split, *, batch_size: int, seed: int) -> dict[str, float]:
    """{loss: the objective on one batch of images that are not trained on}, each time the same images and views.

    The batch has `batch_size` images if there are so many and at most 1,024: a contrastive loss grows with their
    number. The network is in eval mode. Nothing for a regularizer with a second batch, for a term that keeps numbers of
    the training images, or where the split lacks labels or bias labels that a term needs.
    """
    terms, device = step.objective.terms, next(step.encoder.parameters()).device
    index = torch.randperm(len(split), generator=generator("cpu", seed, "unseen"))[: min(batch_size, MAX_IMAGES)]
    part = split[index.to(split.image.device)].to(device)
    lacks_label, lacks_bias = ((x is None or bool((x < 0).any())) for x in (part.label, part.bias))
    is_refused = any(
        term.reads_index or (term.needs_label and lacks_label) or (term.needs_bias and lacks_bias) for term in terms
    )
    if is_refused or step.objective.has_second_batch or len(part) < 2:
        return {}
    height, width = part.image.shape[-2:]
    rng = generator(device, seed, "unseen views")
    drawn = step.augmentation.draw(step.n_views * len(part), height, width, rng)
    views = step.augmentation.apply(part.image.repeat(step.n_views, 1, 1, 1), drawn)
    modules = [step.encoder, step.head, step.objective, *([] if step.teacher is None else [step.teacher.network])]
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(frozen(module))
        chunks = [step.network(chunk, step.objective.required_outputs("main")) for chunk in views.split(at_once(views))]
        joined = {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}
        outputs = {
            name: value.unflatten(0, (step.n_views, len(part))).transpose(0, 1) for name, value in joined.items()
        }
        others = step.others(views.unflatten(0, (step.n_views, len(part))), None)
        value = step.objective.alone(Embedded(outputs, part.label, part.bias, None, others)).item()
    return {"loss": value}


def geometry(z: Tensor) -> dict[str, Tensor]:
    """Mean cosine of positives and of negatives, alignment of views 0 and 1, uniformity of view 0, and the percent of
    anchors that are closer to another view of their image than to all other images (contrastive accuracy); z (B, V, D).
    """
    pairs = Pairs(z, temperature=1.0, anchor_views=z.shape[1])
    values = {"uniformity": uniformity(pairs.z[:, 0])}
    if pairs.n_views > 1:
        values["positive_similarity"] = pairs.positive_logits.mean()
        values["alignment"] = alignment(pairs.z[:, 0], pairs.z[:, 1])
        nearest = pairs.logits.masked_fill(~pairs.related(other_image), -torch.inf).amax(1)
        values["top1"] = 100 * (pairs.positive_logits.amax(1) > nearest).float().mean()
    values["negative_similarity"] = pairs.mean_logit(other_image).mean()
    return values


def conflicting_pairs(label: Tensor, bias: Tensor) -> Tensor:
    """Number of pairs i < j of the same class and different bias: the pairs that debiasing terms learn from."""
    return ((label[:, None] == label) & (bias[:, None] != bias)).sum() / 2


LEAST = 96  # pixels of a tile's shorter side, at least


def view_grid(images: Tensor, views: Tensor) -> Tensor:
    """One picture (3, H, W) in [0, 1]: the images as they are, then a row for each view; a column for each image.

    Small images are enlarged by a whole factor, pixel by pixel.

    Args:
        images: uint8 or uint16 (n, K, h, w).
        views: (V, n, K, h', w') in [0, 1], drawn from them; view 1 of a noisy pair shows another image.
    """
    size = views.shape[-2:]
    original = F.interpolate(visible(images.cpu()), size=size, mode="bilinear", antialias=True)
    tiles = torch.cat([original, visible(views.flatten(0, 1).float().cpu())])
    factor = max(1, -(-LEAST // min(size)))  # rounded up
    tiles = tiles.repeat_interleave(factor, dim=2).repeat_interleave(factor, dim=3)
    grid: Tensor = make_grid(tiles, nrow=views.shape[1], padding=2, pad_value=1.0)
    return grid


def first_views(step: TrainStep, loader: Loader) -> Tensor:
    """A picture of eight images of the first batch, and of their views."""
    rng = generator(loader.device, loader.seed, "augmentation", 0)
    batch = next(loader.epoch(0))
    return view_grid(batch.image[:8], step.views(batch, rng)[:, :8])


def similarities(features: Features) -> dict[str, Tensor]:
    """Cosines of all pairs i < j of labeled test images, of 2,000 at most, by whether they share their class."""
    index = torch.randperm(len(features.h), generator=generator("cpu", "shown"))[:MAX_SIMILAR]
    chosen = features[index.to(features.h.device)]
    h, label = F.normalize(chosen.h[chosen.label >= 0], dim=1), chosen.label[chosen.label >= 0]
    i, j = torch.triu_indices(len(h), len(h), 1, device=h.device)
    cosine, same_class = (h @ h.T)[i, j], label[i] == label[j]
    return {"similarity/same_class": cosine[same_class], "similarity/other_class": cosine[~same_class]}


def grouped(group: str, metrics: dict[str, float]) -> dict[str, float]:
    """Metric names as curves are grouped: group/name."""
    return {f"{group}/{key}": value for key, value in metrics.items()}


def nested(group: str, record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a nested record, but for those in lists, as curves: group/outer/inner."""
    flat = flatten(record, f"{group}/", sep="/")
    return {key: value for key, value in flat.items() if isinstance(value, int | float)}
