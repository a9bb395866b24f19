"""Instantiate one component from its configuration node, and check that it is one; needs no data."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from torch import Tensor, nn

from contrastive.augmentation.base import Augmentation
from contrastive.augmentation.compose import Compose
from contrastive.augmentation.crop import RandomResizedCrop
from contrastive.config.identity import CHANGES_TRAINING, flatten
from contrastive.config.messages import causes, user_message
from contrastive.config.settings import SHARED_KEYS, Settings
from contrastive.dataset.splits import check_data, fingerprint, judged_on_training
from contrastive.distributed.process import is_main, main_process_first
from contrastive.encoder._trained import add_lora, freeze_first
from contrastive.errors import ConfigError, SettingError
from contrastive.evaluator.base import Evaluator
from contrastive.listing.places import USUAL_SIZE, Place, places
from contrastive.loss.base import Loss, SelfSupervisedLoss, SupervisedContrastiveLoss
from contrastive.run.files import RGB, encoder_node, weights_path
from contrastive.run.weights import channels_of, load_into
from contrastive.text import counted, show
from contrastive.training.features import frozen
from contrastive.training.hook import Hook
from contrastive.types import Data, Split


def instantiate_node(node: dict[str, Any], *, place: str = "hydra.run.dir=PATH", **wiring: Any) -> Any:
    """Instantiate one configuration node.

    Args:
        place: the setting to try where the file system refuses to read or write.
        wiring: arguments that only the program knows.

    Raises:
        ConfigError: the constructor refuses its arguments. All processes of a run understand this, not Hydra's error.
    """
    try:
        return instantiate(node, **wiring, _convert_="all")
    except InstantiationException as error:
        if refused := next((cause for cause in causes(error) if isinstance(cause, ConfigError)), None):
            raise refused from None
        if (message := user_message(error, place=place)) is None:
            raise
        raise ConfigError(message) from error


def input_channels(node: dict[str, Any]) -> int:
    """The channels that an encoder takes before there are images: those that are set, those of its weights, else 3."""
    if node.get("in_channels") is not None:
        return int(node["in_channels"])
    return RGB if node.get("weights") is None else channels_of(weights_path(node["weights"]))


def build_encoder(node: dict[str, Any], size: int | None, channels: int = RGB) -> Any:
    """Build the encoder, check what it returns, load `weights` into it and freeze its first blocks.

    Args:
        node: `_target_` and arguments, and what every encoder has, such as `weights`, a file or a run.
        size: side of the dataset's images in pixels; None = not known.
        channels: of its input.
    """
    weights = node.get("weights")
    encoder = build_one("encoder", encoder_node(node, size, channels), torch.nn.Module)
    check_encoder_output(encoder, size, channels)
    if weights is not None:
        loaded = load_into(encoder, weights_path(weights), node.get("prefix"))
        if is_main():
            show(loaded)
    freeze_first(encoder, node.get("frozen", 0))
    add_lora(encoder, node.get("lora", 0))
    return encoder


def build_one(group: str, node: dict[str, Any] | None, kind: type[Any], **wiring: Any) -> Any:
    """Build the component of a group, None where none is chosen; raises ConfigError if it is of another kind."""
    if not node:
        return None
    with as_typed(group, node) if kind is Loss else nullcontext():
        component = instantiate_node(node, **({"place": "data_root=PATH"} if group == "dataset" else {}), **wiring)
    if not isinstance(component, kind):
        found, needed = type(component).__name__, kind.__name__
        raise ConfigError(f"{group} gives {found} in place of {needed}: try from {kind.__module__} import {needed}")
    return component


def build_data(node: dict[str, Any]) -> Data:
    """The data that a node of `dataset` names; raises ConfigError where no run could use them."""
    data: Data = build_one("dataset", node, Data)
    check_data(data, node["_target_"])
    return data


def load_data(
    dataset: dict[str, Any], held_out: int | None = None, given: Data | None = None
) -> tuple[Data, str, dict[str, Place]]:
    """Load the data and compute its fingerprint, once for all jobs of a sweep while its files stay as they are.

    Args:
        held_out: the draw of `judged_on_training`; None = the test split is what it is.
        given: the data, drawn already, in place of what `dataset` names.

    Returns:
        The data, the hash of its images and labels, and the files that it was read from as they were before.
    """
    if given is not None:
        return given, fingerprint(given), {}
    # It downloads, and the other processes read its files. What a dataset writes into a cache has locks of its own.
    with nullcontext() if "cache" in dataset else main_process_first():
        files = places(dataset)
        return *_load_data(json.dumps(dataset, sort_keys=True), held_out, json.dumps(files)), files


@lru_cache(maxsize=1)
def _load_data(dataset: str, held_out: int | None, files: str) -> tuple[Data, str]:
    node = json.loads(dataset)
    data = build_data(node)
    if held_out is not None:
        if data.probe_val_split is not None and node.get("hold_out") is False:  # recolored: still training images, too
            data = build_data({**node, "hold_out": True})
        data = judged_on_training(data, held_out)
    return data, fingerprint(data)


@contextmanager
def as_typed(group: str, node: dict[str, Any]) -> Iterator[None]:
    """Let errors of a loss, which name its arguments, name settings: `alpha=0.8` becomes `loss.alpha=0.8`."""
    try:
        yield
    except SettingError as error:
        own = [key for key in flatten(node, f"{group}.") if key.rpartition(".")[2] == error.key]
        if error.key in SHARED_KEYS or not own:
            raise
        raise error.renamed(min(own, key=len)) from error


def check_batch(term: Loss, settings: Settings, group: str, train: Split | None = None) -> None:
    """Raise ConfigError, with what to type, if the loss or the regularizer cannot be computed on such batches.

    Args:
        train: the training images; None = not known, they may have every label.
    """
    has_label = train is None or is_complete(train.label)
    has_bias = train is None or is_complete(train.bias)
    if term.needs_label and not has_label:
        raise ConfigError(
            f"{term.name} needs a label for every training image and the data has images without: "
            "try loss=nt_xent loss.drop_false_negatives=false regularizer=none"
        )
    if term.needs_bias and not has_bias:
        raise ConfigError(
            f"{term.name} needs bias labels of every training image, the data lacks them: "
            "try dataset=biased_digits, or bias_from=RUN to infer them from an earlier run"
        )
    n_views, enough = settings.n_views, term.min_views
    if n_views < enough:
        raise ConfigError(f"{term.name} compares {enough} views of an image, got {n_views}: try n_views={enough}")
    with as_typed(group, getattr(settings, group)):
        term.check_batch(batch_size=settings.batch_size, n_views=n_views, has_label=has_label, has_bias=has_bias)


def is_complete(label: Tensor | None) -> bool:
    """Whether every image has a label."""
    return label is not None and bool((label >= 0).all())


def build_augmentation(settings: Settings) -> Augmentation:
    """Build the augmentation; with `dataset.frame` a first crop without a size gets that of the dataset.

    Raises:
        ConfigError: with `dataset.frame`: the first operation is no RandomResizedCrop, or a setting needs images of one
            size.
    """
    augmentation: Augmentation = build_one("augmentation", settings.augmentation, Augmentation)
    size = image_size(settings.dataset)
    if size is None or settings.dataset.get("frame") is None:
        return augmentation
    ops = augmentation.ops if isinstance(augmentation, Compose) else {}
    name, first = next(iter(ops.items()), ("", None))
    for is_refused, sentence in (
        (not isinstance(first, RandomResizedCrop), "needs a RandomResizedCrop first: try augmentation=simclr"),
        (settings.noise_frac > 0, "and noise_frac cannot go together: try noise_frac=0"),
        (settings.blur_frac > 0, "and blur_frac cannot go together: try blur_frac=0"),
        (settings.resident is True, "reads images as they are stored: try resident=auto"),
    ):
        if is_refused:
            raise ConfigError(f"dataset.frame {sentence}, or dataset.frame=null")
    assert isinstance(first, RandomResizedCrop)
    return Compose(ops={**ops, name: replace(first, size=first.size or size)})


def build_loss(node: dict[str, Any]) -> Loss:
    """Build the loss and set its `push`.

    Raises:
        ConfigError: a push of a loss without negatives.
    """
    push = node.get("push", 1.0)
    loss: Loss = build_one("loss", {key: value for key, value in node.items() if key != "push"}, Loss)
    if push == 1:
        return loss
    if not isinstance(loss, SelfSupervisedLoss | SupervisedContrastiveLoss):
        raise ConfigError(f"loss.push is not supported by {loss.name}: try loss=nt_xent")
    loss.push = push
    return loss


def build_evaluators(nodes: dict[str, dict[str, Any]]) -> dict[str, Evaluator]:
    """Build the evaluators, by name, in the order in which they were chosen."""
    evaluators: dict[str, Evaluator] = {}
    for name, node in nodes.items():
        evaluator = build_one(f"evaluator.{name}", node, Evaluator)
        evaluator.check_names(list(evaluators))
        evaluators[name] = evaluator
    return evaluators


def build_hooks(group: str, nodes: dict[str, dict[str, Any]]) -> dict[str, Hook]:
    """Build the hooks or the trackers, by name, in the order in which they were chosen."""
    arguments = {name: {k: v for k, v in node.items() if k != CHANGES_TRAINING} for name, node in nodes.items()}
    return {name: build_one(f"{group}.{name}", node, Hook) for name, node in arguments.items()}


def build_optimizer(
    node: dict[str, Any], groups: list[list[torch.nn.Parameter]], factors: Sequence[float] = ()
) -> torch.optim.Optimizer:
    """Build the optimizer of groups of parameters; schedules multiply `initial_lr`, as torch's own schedulers do.

    Args:
        groups: an empty one is left out.
        factors: of each group, on the learning rate; () = 1.
    """
    rated = [(group, factor) for group, factor in zip(groups, factors or [1.0] * len(groups), strict=True) if group]
    try:
        optimizer: torch.optim.Optimizer = instantiate_node(node)([{"params": group} for group, _ in rated])
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the optimizer cannot be built ({error}): try optimizer.lr=1e-3") from error
    for group, (_, factor) in zip(optimizer.param_groups, rated, strict=True):
        group["initial_lr"] = group["lr"] = group["lr"] * factor
    return optimizer


def image_size(dataset: dict[str, Any]) -> int | None:
    """The `size` of a dataset of this package, the side of its images in pixels; None if unknown."""
    size = dataset.get("size")
    known = dataset["_target_"].startswith("contrastive.dataset.") and isinstance(size, int) and size > 0
    return size if known else None


def check_channels(n: int, data: Data, instead: str) -> None:
    """Raise ConfigError, with what to type instead, for images of other than n channels."""
    if data.n_channels != n:
        raise ConfigError(
            f"the encoder takes images of {counted(n, 'channel')} and these have {data.n_channels}: try {instead}"
        )


def feature(encoder: nn.Module) -> str:
    """Which of the network's values are the features, in words."""
    return str(getattr(encoder, "feature", f"output of {type(encoder).__name__}"))


def check_encoder_output(encoder: nn.Module, size: int | None, channels: int = RGB) -> None:
    """Pass two black images through the encoder in eval mode; its mode and state stay as they were.

    Args:
        size: side of the images in pixels; None = not known before the data is loaded. Then images of 32 pixels are
            tried, and an encoder that fails on them because of their size is accepted.
        channels: K, of the images.

    Raises:
        ConfigError: the encoder has no int attribute `dim`, or does not map (2, K, H, W) to (2, dim).
    """
    name, dim = type(encoder).__name__, getattr(encoder, "dim", None)
    if not isinstance(dim, int):
        raise ConfigError(
            f"the encoder {name} needs an int attribute dim, the number of its features: "
            "set self.dim in its constructor, or try encoder=resnet18"
        )
    image = torch.zeros(2, channels, size or USUAL_SIZE, size or USUAL_SIZE)
    try:
        with frozen(encoder), torch.no_grad():
            h = encoder(image)
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        if size is None:
            return
        raise ConfigError(
            f"the encoder {name} fails on images of shape {tuple(image.shape)} "
            f"({' '.join(str(error).split())}): try encoder.image_size={image.shape[-1]} if it has that option, "
            "another dataset.size, or encoder=resnet18"
        ) from error
    shape = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
    if shape != (2, dim):
        raise ConfigError(
            f"the encoder {name} returns {shape} for 2 images instead of (N, dim) = {(2, dim)}: "
            "flatten its output and set self.dim to its last dimension, or try encoder=resnet18"
        )
