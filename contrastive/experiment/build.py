"""Build the objects of a run from its settings, in dependency order.

Settings that can be refused without data are refused before any is loaded.
"""

import hashlib
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch
from torch import nn

from contrastive.augmentation.base import Augmentation
from contrastive.augmentation.compose import Compose
from contrastive.average.base import Average
from contrastive.config.identity import CHANGES_TRAINING
from contrastive.config.settings import Settings
from contrastive.config.targets import check_components
from contrastive.dataset.splits import fingerprint, judged_on_training
from contrastive.distributed.process import main_process_first, shard
from contrastive.encoder._trained import rates
from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator
from contrastive.experiment.bias_from import with_bias_from
from contrastive.experiment.components import (
    build_augmentation,
    build_chosen,
    build_data,
    build_encoder,
    build_evaluators,
    build_hooks,
    build_loss,
    build_optimizer,
    check_batch,
    check_encoder_output,
    image_size,
    input_channels,
    instantiate_node,
)
from contrastive.experiment.machine import check_room, choose_compile, is_resident, pays_to_compile, start_device
from contrastive.listing.places import Place, places
from contrastive.loss._target import TargetLoss
from contrastive.loss.base import Loss
from contrastive.run.files import weights_path
from contrastive.seeding import derive
from contrastive.teacher.ema import EMA
from contrastive.text import counted
from contrastive.training import precision as precisions
from contrastive.training.graph import GraphedStep, choose_graphs
from contrastive.training.hook import Hook
from contrastive.training.loader import Loader
from contrastive.training.objective import Objective
from contrastive.training.precision import Normalize
from contrastive.training.step import TrainStep
from contrastive.types import Data, Split


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
    # It downloads, and the other processes read its files. What a dataset writes into a cache has locks of its own.
    with nullcontext() if "cache" in settings.dataset else main_process_first():
        data, data_hash, files = load_data(settings.dataset, settings.held_out, given)
    parts = fitting(parts, data, settings)
    train, facts = train_split(data, settings, device=device)
    data = replace(data, facts=data.facts | facts)
    side = check_sizes(parts, data)
    for group, term in zip(("loss", "regularizer"), parts.terms, strict=False):
        check_batch(term, settings, group, train)
    objective = build_objective(parts, data, train)
    second = objective.second_batch_size(settings.batch_size)
    if not (is_streaming := not is_resident(data, device, settings.resident)):
        data = data.to(device)
        train = replace(data.pretrain, bias=None if train.bias is None else train.bias.to(device))
    loader = build_loader(settings, train, second=second, device=device, streaming=is_streaming)
    if compiled == "augmentation":
        n_views = settings.epochs * len(loader) * loader.views_per_step(settings.n_views) // shard().world_size
        compiled = pays_to_compile(n_views, side) or compiled
    step = build_step(
        settings, parts, objective, data,
        second=second, device=device, precision=precision, compiled=compiled, graphs=graphs,
    )  # fmt: skip
    teacher = cast(EMA | None, step.teacher)
    is_evaluated = teacher is not None and teacher.evaluated
    average = teacher if is_evaluated else build_chosen("average", settings.average, Average, encoder=step.encoder)
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
    regularizer = build_chosen("regularizer", settings.regularizer, Loss)
    before: dict[str, Any] = {
        "augmentation": build_augmentation(settings),
        "schedule": instantiate_node(settings.schedule),
        "evaluators": build_evaluators(settings.evaluator),
        "hooks": build_hooks("hook", settings.hook),
        "trackers": build_hooks("tracker", settings.tracker),
    }
    for group, term in (("loss", loss), ("regularizer", regularizer)):
        if term is not None:
            term.check_config(batch_size=settings.batch_size)
            check_batch(term, settings, group)
    n_channels = input_channels(settings.encoder)
    encoder, head = build_networks(settings, n_channels)
    trial = build_optimizer(settings.optimizer, [[nn.Parameter(torch.zeros(1))]])
    build_chosen("average", settings.average, Average, encoder=nn.Identity())
    check_teacher(build_teacher(settings, encoder, head), loss, settings)
    if settings.bias_from is not None:
        weights_path(settings.bias_from)
    networks: dict[str, Any] = {"encoder": encoder, "head": head, "n_channels": n_channels}
    return Parts(loss=loss, regularizer=regularizer, trial=trial, **networks, **before)


def build_networks(settings: Settings, channels: int) -> tuple[nn.Module, nn.Module]:
    """Encoder and head, with the weights that the seed stands for, whatever was drawn before."""
    torch.manual_seed(derive(settings.seed, "weights"))
    encoder = build_encoder(settings.encoder, image_size(settings.dataset), channels)
    return encoder, instantiate_node(settings.head, in_dim=encoder.dim)


def fitting(parts: Parts, data: Data, settings: Settings) -> Parts:
    """The parts for images of these channels: networks that were built for others are built again.

    Raises:
        ConfigError: the number of channels is set, or that of `encoder.weights`, or an operation has no meaning for it.
    """
    channels, taken = data.n_channels, parts.n_channels
    if isinstance(parts.augmentation, Compose):
        parts.augmentation.check_channels(channels)
    if channels == taken:
        return parts
    if settings.encoder.get("in_channels") is not None or settings.encoder.get("weights") is not None:
        raise ConfigError(
            f"the encoder takes images of {counted(taken, 'channel')} and these have {channels}: "
            f"try encoder.in_channels=null encoder.weights=null, or images of {counted(taken, 'channel')}"
        )
    encoder, head = build_networks(settings, channels)
    return replace(parts, encoder=encoder, head=head, n_channels=channels)


def check_sizes(parts: Parts, data: Data) -> int:
    """Refuse images, or views of them, that the encoder cannot take; returns the side of a view in pixels."""
    height, width = data.pretrain.image.shape[-2:]
    side = parts.augmentation.output_size(height, width)[0]
    for pixels in {width, side}:
        check_encoder_output(parts.encoder, pixels, data.n_channels)
    return side


def train_split(data: Data, settings: Settings, *, device: torch.device) -> tuple[Split, dict[str, str]]:
    """The training images, with the bias labels that a run gives them; and the hash of these for the run's records."""
    if settings.bias_from is None:
        return data.pretrain, {}
    n_classes = len(data.classes)
    train = with_bias_from(settings.bias_from, data.pretrain, kind=settings.bias_as, n_classes=n_classes, device=device)
    assert train.bias is not None
    return train, {"bias_labels": hashlib.sha256(train.bias.numpy().tobytes()).hexdigest()}


def build_objective(parts: Parts, data: Data, train: Split) -> Objective:
    """The terms, prepared for the training images and the networks."""
    encoder = parts.encoder
    return Objective(
        parts.loss,
        parts.regularizer,
        train=train,
        n_classes=len(data.classes),
        feature_dim=cast(int, encoder.dim),
        projection_dim=cast(int, parts.head.dim),
    )


def build_loader(settings: Settings, train: Split, *, second: int, device: torch.device, streaming: bool) -> Loader:
    """The loader of this process's part of each batch."""
    return Loader(
        train,
        batch_size=settings.batch_size,
        seed=settings.seed,
        sampler=settings.sampler,
        noise_frac=settings.noise_frac,
        blur_frac=settings.blur_frac,
        second_batch_size=second,
        device=device,
        streaming=streaming,
        shard=shard(),
    )


def build_step(
    settings: Settings,
    parts: Parts,
    objective: Objective,
    data: Data,
    *,
    second: int,
    device: torch.device,
    precision: str,
    compiled: bool | str,
    graphs: bool,
) -> TrainStep:
    """The networks on the device, their optimizer, and the step that trains them.

    Args:
        second: images of a second batch, of all processes together.

    Raises:
        ConfigError: there is no room for a step.
    """
    view = (data.n_channels, *parts.augmentation.output_size(*data.pretrain.image.shape[-2:]))
    network = nn.Sequential(parts.encoder, parts.head)
    if compiled is not True:  # which keeps less
        check_room(settings, network, view, second=second, precision=precision, device=device)
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
    teacher: EMA | None = build_chosen("teacher", settings.teacher, EMA, encoder=encoder, head=head, seed=settings.seed)
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


class Loaded(NamedTuple):
    """Data, the hash of its images and labels, and the files that it was read from as they were before."""

    data: Data
    data_hash: str
    files: dict[str, Place]


def load_data(dataset: dict[str, Any], held_out: int | None = None, given: Data | None = None) -> Loaded:
    """Load the data and compute its fingerprint, once for all jobs of a sweep while its files stay as they are.

    Args:
        held_out: the draw of `judged_on_training`; None = the test split is what it is.
        given: the data, drawn already, in place of what `dataset` names.
    """
    if given is not None:
        return Loaded(given, fingerprint(given), {})
    files = places(dataset)
    return Loaded(*_load_data(json.dumps(dataset, sort_keys=True), held_out, json.dumps(files)), files)


@lru_cache(maxsize=1)
def _load_data(dataset: str, held_out: int | None, files: str) -> tuple[Data, str]:
    node = json.loads(dataset)
    data = build_data(node)
    if held_out is not None:
        if data.probe_val_split is not None and node.get("hold_out") is False:  # recolored: still training images, too
            data = build_data({**node, "hold_out": True})
        data = judged_on_training(data, held_out)
    return data, fingerprint(data)
