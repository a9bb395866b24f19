"""Build the objects of a run from its settings, in dependency order.

Settings that can be refused without data are refused before any is loaded.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from contrastive.augmentation.base import Augmentation
from contrastive.augmentation.compose import Compose
from contrastive.average.ema import Average
from contrastive.config.identity import CHANGES_TRAINING
from contrastive.config.settings import Settings
from contrastive.config.targets import check_components
from contrastive.distributed.process import shard
from contrastive.encoder._trained import rates
from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator
from contrastive.evaluator.linear import Standardizer, fit_logistic, logits
from contrastive.experiment.components import (
    build_augmentation,
    build_encoder,
    build_evaluators,
    build_hooks,
    build_loss,
    build_one,
    build_optimizer,
    check_batch,
    check_channels,
    check_encoder_output,
    image_size,
    input_channels,
    instantiate_node,
    load_data,
)
from contrastive.experiment.encoder import load_encoder
from contrastive.experiment.machine import check_room, choose_compile, is_resident, pays_to_compile, start_device
from contrastive.listing.places import Place
from contrastive.loss._target import TargetLoss
from contrastive.loss.base import Loss
from contrastive.run.files import weights_path
from contrastive.seeding import derive, generator
from contrastive.teacher.ema import EMA
from contrastive.training import precision as precisions
from contrastive.training.features import extract
from contrastive.training.graph import GraphedStep, choose_graphs
from contrastive.training.hook import Hook
from contrastive.training.loader import Loader
from contrastive.training.objective import Objective
from contrastive.training.precision import Normalize
from contrastive.training.step import TrainStep
from contrastive.types import Data, Split

FOLDS, L2, MAX_ITER = 5, 1e-2, 100  # of the probe whose predictions are bias labels


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """The settings of a run, and the parts that they build."""

    settings: Settings
    step: TrainStep
    loader: Loader
    schedule: Callable[[float, int], float]
    evaluators: dict[str, Evaluator]
    teacher: EMA | None
    average: Average | None
    hooks: dict[str, Hook]
    trackers: dict[str, Hook]
    data: Data
    data_hash: str
    files: dict[str, Place]  # that the data were read from, see `places`
    device: torch.device
    precision: str

    @property
    def encoder(self) -> nn.Module:
        """The encoder that is evaluated and written: the trained one, or its average."""
        return self.step.encoder if self.average is None else self.average.encoder

    @property
    def left_out(self) -> list[str]:
        """The evaluators that need labels, of data that has none."""
        return [name for name in self.settings.evaluator if name not in self.evaluators]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a run is built of before any data is loaded; the networks have the weights that the seed stands for."""

    loss: Loss
    regularizer: Loss | None
    augmentation: Augmentation
    schedule: Callable[[float, int], float]
    evaluators: dict[str, Evaluator]
    hooks: dict[str, Hook]
    trackers: dict[str, Hook]
    encoder: nn.Module
    head: nn.Module
    n_channels: int  # of the images that the encoder takes
    trial: torch.optim.Optimizer  # of a single number

    @property
    def terms(self) -> list[Loss]:
        """The loss and, if there is one, the regularizer."""
        return [self.loss] if self.regularizer is None else [self.loss, self.regularizer]

    def of_a_step(self, settings: Settings) -> list[object]:
        """The modules of a training step, its augmentation and the operations of that, and hooks that change it."""
        modules = [module for part in (*self.terms, self.encoder, self.head) for module in part.modules()]
        operations = self.augmentation.ops.values() if isinstance(self.augmentation, Compose) else ()
        changing = [hook for name, hook in self.hooks.items() if settings.hook[name].get(CHANGES_TRAINING)]
        return [*modules, self.augmentation, *operations, *changing]


def build(settings: Settings, given: Data | None = None) -> Experiment:
    """Build everything that a run needs. The order fixes the random weights that a seed stands for.

    Args:
        given: the data, in place of what `settings.dataset` names.

    Raises:
        ConfigError: a setting, or a combination of settings, that cannot be used.
    """
    device = start_device(settings.device, deterministic=settings.deterministic)
    compiled = choose_compile(settings.compile, device)
    precision = precisions.choose(settings.precision, device)
    precisions.set_tf32(precision)
    parts = build_parts(settings)
    graphs = choose_graphs(
        settings.graphs, device=device, precision=precision, grad_cache_chunk=settings.grad_cache_chunk,
        optimizer=parts.trial, made_of=parts.of_a_step(settings),
    )  # fmt: skip
    data, data_hash, files = load_data(settings.dataset, settings.held_out, given)
    parts = fitting(parts, data, settings)
    train, facts = train_split(data, settings, device=device)
    data = replace(data, facts=data.facts | facts)
    for group, term in zip(("loss", "regularizer"), parts.terms, strict=False):
        check_batch(term, settings, group, train)
    dims = {"feature_dim": cast(int, parts.encoder.dim), "projection_dim": cast(int, parts.head.dim)}
    objective = Objective(parts.loss, parts.regularizer, train=train, n_classes=len(data.classes), **dims)
    second = objective.second_batch_size(settings.batch_size)
    if not (is_streaming := not is_resident(data, device, settings.resident)):
        data = data.to(device)
        train = replace(data.pretrain, bias=None if train.bias is None else train.bias.to(device))
    loader = Loader(
        train, batch_size=settings.batch_size, seed=settings.seed, sampler=settings.sampler,
        noise_frac=settings.noise_frac, blur_frac=settings.blur_frac, second_batch_size=second,
        device=device, streaming=is_streaming, shard=shard(),
    )  # fmt: skip
    step = build_step(settings, parts, objective, data, loader, precision=precision, compiled=compiled, graphs=graphs)
    teacher = cast(EMA | None, step.teacher)
    is_evaluated = teacher is not None and teacher.evaluated
    average = teacher if is_evaluated else build_one("average", settings.average, Average, encoder=step.encoder)
    return Experiment(
        settings=settings, step=step, loader=loader, schedule=parts.schedule,
        evaluators=applicable_evaluators(parts.evaluators, data),
        teacher=teacher, average=average, hooks=parts.hooks, trackers=parts.trackers,
        data=data, data_hash=data_hash, files=files, device=device, precision=precision,
    )  # fmt: skip


def build_parts(settings: Settings) -> Parts:
    """What needs no data; every component that a setting makes impossible is refused here.

    Raises:
        ConfigError: a setting that cannot be used.
    """
    check_components(settings.to_dict())
    torch.manual_seed(derive(settings.seed, "weights"))
    loss = build_loss(settings.loss)
    regularizer = build_one("regularizer", settings.regularizer, Loss)
    for group, term in (("loss", loss), ("regularizer", regularizer)):
        if term is not None:
            term.check_config(batch_size=settings.batch_size)
            check_batch(term, settings, group)
    n_channels = input_channels(settings.encoder)
    encoder, head = build_networks(settings, n_channels)
    build_one("average", settings.average, Average, encoder=nn.Identity())
    check_teacher(build_teacher(settings, encoder, head), loss, settings)
    if settings.bias_from is not None:
        weights_path(settings.bias_from)
    return Parts(
        loss=loss, regularizer=regularizer, encoder=encoder, head=head, n_channels=n_channels,
        augmentation=build_augmentation(settings), schedule=instantiate_node(settings.schedule),
        evaluators=build_evaluators(settings.evaluator), hooks=build_hooks("hook", settings.hook),
        trackers=build_hooks("tracker", settings.tracker),
        trial=build_optimizer(settings.optimizer, [[nn.Parameter(torch.zeros(1))]]),
    )  # fmt: skip


def build_networks(settings: Settings, channels: int) -> tuple[nn.Module, nn.Module]:
    """Encoder and head, with the weights that the seed stands for, whatever was drawn before."""
    torch.manual_seed(derive(settings.seed, "weights"))
    encoder = build_encoder(settings.encoder, image_size(settings.dataset), channels)
    return encoder, instantiate_node(settings.head, in_dim=encoder.dim)


def fitting(parts: Parts, data: Data, settings: Settings) -> Parts:
    """The parts for these images: networks that were built for other channels are built again.

    Raises:
        ConfigError: the number of channels is set, or that of `encoder.weights`, an operation has no meaning for it, or
            the encoder cannot take the images or views of them.
    """
    channels, taken = data.n_channels, parts.n_channels
    if isinstance(parts.augmentation, Compose):
        parts.augmentation.check_channels(channels)
    if channels != taken:
        if settings.encoder.get("in_channels") is not None or settings.encoder.get("weights") is not None:
            check_channels(taken, data, "encoder.in_channels=null encoder.weights=null, or other images")
        encoder, head = build_networks(settings, channels)
        parts = replace(parts, encoder=encoder, head=head, n_channels=channels)
    height, width = data.pretrain.image.shape[-2:]
    for pixels in {width, parts.augmentation.output_size(height, width)[0]}:
        check_encoder_output(parts.encoder, pixels, channels)
    return parts


def train_split(data: Data, settings: Settings, *, device: torch.device) -> tuple[Split, dict[str, str]]:
    """The training images, with the bias labels that a run gives them; and the hash of these for the run's records."""
    if settings.bias_from is None:
        return data.pretrain, {}
    n_classes = len(data.classes)
    train = with_bias_from(settings.bias_from, data.pretrain, kind=settings.bias_as, n_classes=n_classes, device=device)
    assert train.bias is not None
    return train, {"bias_labels": hashlib.sha256(train.bias.numpy().tobytes()).hexdigest()}


def with_bias_from(run: str, train: Split, *, kind: str, n_classes: int, device: torch.device) -> Split:
    """The training images with bias labels, and with features that show the bias, from the encoder of a run.

    Nothing else sees them: evaluators keep the bias labels of the data, if it has any.

    Args:
        run: its directory, or its encoder.safetensors: a model that leans on the bias, such as a short supervised run.
        kind: the bias label of an image. `predictions`: the class that a linear probe on the run's features gives it,
            fitted on the other four fifths of the images (after Zhang et al. 2022, Correct-n-Contrast, who take those
            of the network itself). `errors`: whether that class is wrong (after Liu et al. 2021, JTT).
        n_classes: C.

    Returns:
        `train` with `bias` (N,), `bias_features` (N, F) float32 of length 1, on the CPU, and `mistaken` (N,), where the
        predicted class is wrong.

    Raises:
        ConfigError: no such run, or images without a label.
    """
    if (train.label < 0).any():
        raise ConfigError("bias_from needs a label for every image, and some have none: try images with labels")
    encoder, transform = load_encoder(run)
    h = extract(encoder.to(device), train, transform).h.cpu()
    unit = torch.nn.functional.normalize(h, dim=1)
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


def build_step(
    settings: Settings,
    parts: Parts,
    objective: Objective,
    data: Data,
    loader: Loader,
    *,
    precision: str,
    compiled: bool | str,
    graphs: bool,
) -> TrainStep:
    """The networks on the device, their optimizer, and the step that trains them.

    Raises:
        ConfigError: there is no room for a step.
    """
    device, view = loader.device, (data.n_channels, *parts.augmentation.output_size(*data.pretrain.image.shape[-2:]))
    if compiled == "augmentation":
        n_views = settings.epochs * len(loader) * loader.views_per_step(settings.n_views) // shard().world_size
        compiled = pays_to_compile(n_views, view[-1]) or compiled
    network = nn.Sequential(parts.encoder, parts.head)
    if compiled is not True:  # which keeps less
        check_room(settings, network, view, second=loader.second_batch_size, precision=precision, device=device)
    if precision == "bf16" and device.type == "cpu":
        precisions.make_convolutions_safe(parts.encoder)
    encoder, channels_last = precisions.placed(parts.encoder, device, channels_last=settings.channels_last)
    head = parts.head.to(device)
    teacher = build_teacher(settings, encoder, head)
    (_, last), *earlier = rates(encoder, settings.encoder.get("layer_decay", 1.0))
    groups = [[*last, *head.parameters(), *objective.parameters()], *(group for _, group in earlier)]
    factors = [1.0, *(factor for factor, _ in earlier)]
    kind = GraphedStep if graphs else TrainStep
    return kind(
        encoder=encoder,
        head=head,
        objective=objective.to(device),
        optimizer=build_optimizer(settings.optimizer, groups, factors),
        augmentation=parts.augmentation,
        normalize=Normalize(data.mean, data.std, device=device, channels_last=channels_last),
        autocast=precisions.autocast(precision, device),
        scaler=torch.amp.GradScaler(device.type, enabled=precision == "fp16"),
        n_views=settings.n_views,
        views_forward=settings.views_forward,
        chunk=settings.grad_cache_chunk,
        compile=compiled,
        teacher=teacher,
    )


def applicable_evaluators(evaluators: dict[str, Evaluator], data: Data) -> dict[str, Evaluator]:
    """The evaluators that the data allows: without classes those that need no labels."""
    return {name: item for name, item in evaluators.items() if data.classes or not item.needs_labels}


def build_teacher(settings: Settings, encoder: nn.Module, head: nn.Module) -> EMA | None:
    """The network that follows these two, which begins with the weights that they have; None if none is chosen."""
    teacher: EMA | None = build_one("teacher", settings.teacher, EMA, encoder=encoder, head=head, seed=settings.seed)
    return teacher


def check_teacher(teacher: EMA | None, loss: Loss, settings: Settings) -> None:
    """Refuse a loss, a number of views or a second average that do not fit a teacher, and a loss that needs one."""
    if teacher is None:
        if isinstance(loss, TargetLoss):
            raise ConfigError(f"{loss.name} needs a teacher to predict: try teacher=ema head=predictor")
        return
    if settings.n_views != 2:
        raise ConfigError(f"a teacher compares two views, got n_views={settings.n_views}: try n_views=2")
    if teacher.evaluated and settings.average is not None:
        raise ConfigError("teacher.evaluated and an average both replace the evaluated encoder: try average=none")
    needed = ["keys", teacher.across, *(["memory"] if teacher.queue else []), *(["memory_only"] * teacher.queue_only)]
    in_batch = 0 if teacher.queue_only else settings.batch_size - 1
    loss.check_across(n_negatives=in_batch + (0 if teacher.queue is None else len(teacher.queue.z)))
    if lacking := [use for use in needed if use not in loss.takes]:
        what = {"keys": "a teacher", "memory": "a queue", "memory_only": "teacher.queue_only"}.get(lacking[0])
        raise ConfigError(f"{loss.name} cannot be used with {what or f'teacher.across={lacking[0]}'}: try loss=nt_xent")
