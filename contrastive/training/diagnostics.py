"""Diagnostics of one batch, for curves: geometry of the embeddings, terms of the loss, labels and biases."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.utils import make_grid

from contrastive.distributed.process import gather
from contrastive.evaluator.geometry import alignment, uniformity
from contrastive.pairs.pairs import Pairs
from contrastive.pairs.relations import other_image
from contrastive.training.objective import Embedded, Objective
from contrastive.training.step import StepOutput

MAX_IMAGES = 1024  # images of a batch whose pairs are compared


@torch.no_grad()
def diagnose(objective: Objective, output: StepOutput) -> dict[str, float]:
    """Diagnostics of the last step, over the first 1,024 images of each batch that all processes hold together."""
    main = first_images(output.main)
    second = None if output.second is None else first_images(output.second)
    values = {f"pairs/{key}": value for key, value in geometry(main.outputs["projections"]).items()}
    values |= objective.diagnostics(main, second)
    if main.bias is not None:
        values["bias/conflicting_pairs"] = conflicting_pairs(main.label, main.bias)
    return {key: value.item() for key, value in values.items()}


def first_images(batch: Embedded) -> Embedded:
    """The first images of a batch that several processes share."""
    outputs = {name: gather(value)[:MAX_IMAGES] for name, value in batch.outputs.items()}
    bias = None if batch.bias is None else gather(batch.bias)[:MAX_IMAGES]
    return Embedded(outputs, gather(batch.label)[:MAX_IMAGES], bias)


def geometry(z: Tensor) -> dict[str, Tensor]:
    """Mean cosine of positives and of negatives, alignment of views 0 and 1, uniformity of view 0; z (B, V, D)."""
    pairs = Pairs(z, temperature=1.0, anchor_views=z.shape[1])
    values = {"uniformity": uniformity(pairs.z[:, 0])}
    if pairs.n_views > 1:
        values["positive_similarity"] = pairs.positive_logits.mean()
        values["alignment"] = alignment(pairs.z[:, 0], pairs.z[:, 1])
    values["negative_similarity"] = pairs.mean_logit(other_image).mean()
    return values


def conflicting_pairs(label: Tensor, bias: Tensor) -> Tensor:
    """Number of pairs i < j of the same class and different bias: the pairs that debiasing terms learn from."""
    return ((label[:, None] == label) & (bias[:, None] != bias)).sum() / 2


def class_similarities(h: Tensor, label: Tensor) -> dict[str, Tensor]:
    """Cosines of all pairs i < j of labeled features (N, F), by whether they share their class."""
    h, label = F.normalize(h[label >= 0].float(), dim=1), label[label >= 0]
    i, j = torch.triu_indices(len(h), len(h), 1, device=h.device)
    cosine, same_class = (h @ h.T)[i, j], label[i] == label[j]
    return {"same_class": cosine[same_class], "other_class": cosine[~same_class]}


LEAST = 96  # pixels of a tile's shorter side, at least


def view_grid(images: Tensor, views: Tensor) -> Tensor:
    """One picture (3, H, W) in [0, 1]: the images as they are, then a row for each view; a column for each image.

    Small images are enlarged by a whole factor, pixel by pixel.

    Args:
        images: uint8 (n, 3, h, w). views: (V, n, 3, h', w') in [0, 1], drawn from them; view 1 of a noisy pair shows
            another image.
    """
    size = views.shape[-2:]
    original = F.interpolate(images.float().cpu() / 255, size=size, mode="bilinear", antialias=True)
    tiles = torch.cat([original, views.flatten(0, 1).float().cpu()])
    factor = max(1, -(-LEAST // min(size)))  # rounded up
    tiles = tiles.repeat_interleave(factor, dim=2).repeat_interleave(factor, dim=3)
    grid: Tensor = make_grid(tiles, nrow=views.shape[1], padding=2, pad_value=1.0)
    return grid
