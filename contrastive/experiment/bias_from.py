"""Bias labels that nobody gave: read off an earlier run, for losses and samplers that ask for them."""

from dataclasses import replace

import torch
from torch import Tensor

from contrastive.errors import ConfigError
from contrastive.evaluator.linear import Standardizer, fit_logistic, logits
from contrastive.experiment.encoder import load_encoder
from contrastive.seeding import generator
from contrastive.training.features import extract
from contrastive.types import Split

FOLDS, L2, MAX_ITER = 5, 1e-2, 100


def with_bias_from(run: str, train: Split, *, kind: str, n_classes: int, device: torch.device) -> Split:
    """The training images with bias labels, and with features that show the bias, from the encoder of a run.

    Nothing else sees them: evaluators keep the bias labels of the data, if it has any.

    Args:
        run: its directory, or its encoder.safetensors: a model that leans on the bias, such as a short supervised run.
        kind: the bias label of an image. `predictions`: the class that a linear probe on the run's features gives it,
            fitted on the other four fifths of the images (after Zhang et al. 2022, Correct-n-Contrast, who take those
            of the network itself). `errors`: whether that class is wrong (after Liu et al. 2021, JTT). `clusters`: one
            of as many k-means clusters of the features as there are classes, by scikit-learn.
        n_classes: C.

    Returns:
        `train` with `bias` (N,) and `bias_features` (N, F) float32 of length 1, on the CPU; but for clusters also with
        `mistaken` (N,), where the predicted class is wrong.

    Raises:
        ConfigError: no such run, or images without a label, which predictions need.
    """
    if kind != "clusters" and (train.label < 0).any():
        raise ConfigError("bias_from needs labeled images, and some have no label: try bias_as=clusters")
    if kind == "clusters" and not 1 < n_classes <= len(train):
        raise ConfigError(f"bias_as=clusters finds as many as there are classes, {n_classes}: try data with classes")
    encoder, transform = load_encoder(run)
    h = extract(encoder.to(device), train, transform).h.cpu()
    unit = torch.nn.functional.normalize(h, dim=1)
    if kind == "clusters":
        return replace(train, bias=clusters(h, n_classes), bias_features=unit)
    label = train.label.cpu()
    predicted = predictions(h, label, n_classes)
    mistaken = predicted != label
    bias = mistaken.long() if kind == "errors" else predicted
    return replace(train, bias=bias, bias_features=unit, mistaken=mistaken)


def predictions(h: Tensor, label: Tensor, n_classes: int) -> Tensor:
    """(N,): the class of each image by a probe that was not fitted on it."""
    fold = torch.randperm(len(h), generator=generator("cpu", "folds")) % FOLDS
    guess = torch.empty_like(label)
    for k in range(FOLDS):
        x = Standardizer(h[fold != k])
        weight = fit_logistic(x(h[fold != k]), label[fold != k], n_classes=n_classes, l2=L2, max_iter=MAX_ITER)
        guess[fold == k] = logits(weight, x(h[fold == k])).argmax(1)
    return guess


def clusters(h: Tensor, n: int) -> Tensor:
    """(N,): k-means of standardized features."""
    from sklearn.cluster import KMeans  # here: it takes a second

    found = KMeans(n, n_init=3, random_state=0).fit(Standardizer(h)(h).numpy())
    return torch.from_numpy(found.labels_).long()
