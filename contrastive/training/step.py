"""One training step: views, forward, loss, backward, update."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from contrastive.augmentation.base import Augmentation, Side
from contrastive.augmentation.callable import PerImage
from contrastive.distributed.batch_norm import BatchNorm, convert_batch_norm, views_apart
from contrastive.distributed.process import average_gradients, shard, world_size
from contrastive.pairs.others import Others
from contrastive.pairs.pairs import ALONE
from contrastive.training.objective import Embedded, Objective
from contrastive.types import Batch, as_float

LOGGED = ("features", "projections")  # outputs of the network that every step needs, for the curves
STATEFUL = ("encoder", "head", "objective", "optimizer", "scaler")


class StepOutput(NamedTuple):
    """Tensors of one step, on the device and without gradient."""

    loss: Tensor  # scalar of this process; the mean over processes is the loss of the batch
    grad_norm: Tensor  # scalar, of all parameters together
    main: Embedded
    second: Embedded | None  # if a regularizer has a batch of its own


class Teacher(Protocol):
    """A second network, which gets no gradient, whose projections the loss compares with.

    Attributes:
        network: normalized images → projections (N, D).
    """

    network: nn.Module

    def others(self, keys: Tensor, rows: Tensor | None) -> Others:
        """What the loss compares with, for its projections (B, V, D) of the images in these rows of the data."""


@dataclass(kw_only=True)
class TrainStep:
    """`step(batch, generator)` updates the weights once.

    Args:
        views_forward: what BatchNorm sees in the one forward pass of all views: `fused` all of them, `per_view` one
            after the other, as if each had a pass of its own. Other layers see all views at once in both: Dropout draws
            for all of them together, and a layer that takes statistics of a batch without being a BatchNorm mixes them.
        chunk: images whose activations are held at once, 0 = all (gradient caching).
        compile: run augmentation, network and objective through torch.compile: in pieces, because random draws, the
            optimizer and the logging gain nothing, and because a sweep over losses then compiles the network once.
            "augmentation": that alone.
        teacher: the network whose projections the loss compares with; who updates it is a hook's business.
    """

    encoder: nn.Module
    head: nn.Module
    objective: Objective
    optimizer: torch.optim.Optimizer
    augmentation: Augmentation
    normalize: Callable[[Tensor], Tensor]
    autocast: Callable[[], torch.autocast]
    scaler: torch.amp.GradScaler
    n_views: int
    views_forward: str = "fused"
    chunk: int = 0
    compile: bool | str = False
    teacher: Teacher | None = None

    def __post_init__(self) -> None:
        self._augment: Callable[..., Tensor] = self.augmentation.apply
        self._network: Callable[..., dict[str, Tensor]] = self.network
        is_converted = self.views_forward == "per_view" or world_size() > 1
        self._norms = convert_batch_norm(self.encoder, self.head) if is_converted else []
        self._teacher_norms = convert_batch_norm(self.teacher.network) if is_converted and self.teacher else []
        self._teach: Callable[[Tensor], Tensor] = self.teach
        if self.compile and not isinstance(self.augmentation, PerImage):
            self._augment = torch.compile(self.augmentation.apply, dynamic=False)
        if self.compile is True:
            self._network = torch.compile(self.network, dynamic=False)
            self._teach = torch.compile(self.teach, dynamic=False) if self.teacher else self.teach
            self.objective.compile(dynamic=False)

    def __call__(self, batch: Batch, generator: torch.Generator) -> StepOutput:
        """Take one step. Nothing here waits for the device (the fp16 scaler does so by itself)."""
        second = None if batch.second is None else self._embed_second(batch.second)
        # sorted: torch.compile keeps a graph for each tuple, and a set has an order of its own in each process
        names = tuple(sorted({*LOGGED, *self.objective.required_outputs("main")}))
        views = self.views(batch, generator)
        others = self.others(views, batch.index)
        main = Embedded(self.forward(views, names), batch.label, batch.bias, batch.index, others)
        loss = self.objective(main, second)
        grad_norm = self._update(loss)
        self.objective.after_step()
        return StepOutput(loss.detach(), grad_norm, main.detach(), None if second is None else second.detach())

    def _update(self, loss: Tensor) -> Tensor:
        """Move the weights that the loss has a gradient for, and return the norm of the whole gradient."""
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        average_gradients(self.parameters())
        self.scaler.unscale_(self.optimizer)
        grad_norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters() if p.grad is not None])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return grad_norm

    def parameters(self) -> list[nn.Parameter]:
        return [*self.encoder.parameters(), *self.head.parameters(), *self.objective.parameters()]

    def views(self, batch: Batch, generator: torch.Generator) -> Tensor:
        """(V, B, 3, h, w) in [0, 1], each view with parameters of its own.

        Parameters are drawn for the batch of all processes, so that it is augmented alike however it is sharded.
        """
        images = [batch.image] * self.n_views
        if batch.view1_source is not None and self.n_views > 1:
            images[1] = batch.view1_source
        n = len(batch.image) * shard().world_size
        drawn = self.augmentation.draw(self.n_views * n, *self._sides(batch), generator)
        parameters = {name: {key: self._local(value, n) for key, value in own.items()} for name, own in drawn.items()}
        views = self._augment(torch.cat(images), parameters)
        return views.view(self.n_views, len(batch.image), *views.shape[1:])

    def _sides(self, batch: Batch) -> tuple[Side, Side]:
        """Height and width of all images, or (V · n,) of each if they are whole.

        The images of other processes have those of this one's: what is drawn for them is not used here.
        """
        if batch.extent is None:
            return batch.image.shape[-2], batch.image.shape[-1]
        height, width = batch.extent.repeat(self.n_views * shard().world_size, 1).unbind(1)
        return height, width

    def _local(self, value: Tensor, n: int) -> Tensor:
        """(V · n, ...) → this process's part of each view's n rows."""
        return value.view(self.n_views, n, *value.shape[1:])[:, shard().of(n)].flatten(0, 1)

    def _embed_second(self, batch: Batch) -> Embedded:
        """The second batch after the network, in one view without augmentation."""
        views = as_float(batch.image)[None]
        outputs = self.forward(views, self.objective.required_outputs("second"))
        return Embedded(outputs, batch.label, batch.bias, batch.index)

    def forward(self, views: Tensor, names: tuple[str, ...] = LOGGED) -> dict[str, Tensor]:
        """(V, B, 3, h, w) → features (B, V, F) and, if among `names`, projections (B, V, D).

        In even chunks the activations are computed again, a chunk at a time, when the gradient comes back (gradient
        caching, Gao et al. 2021): the loss still sees the whole batch. BatchNorm sees a chunk, and counts it once.
        """
        if self.chunk == 0:
            return self.encode(views, names)
        chunks = views.tensor_split(math.ceil(views.shape[1] / self.chunk), dim=1)
        outputs = [self._checkpointed(chunk, names) for chunk in chunks]
        return {name: torch.cat([output[name] for output in outputs]) for name in outputs[0]}

    def _checkpointed(self, views: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
        """`encode` without keeping its activations; the second forward leaves BatchNorm's running statistics alone."""

        def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
            return nullcontext(), freeze_running_stats(self.encoder, self.head)

        output: dict[str, Tensor] = checkpoint(self.encode, views, names, use_reentrant=False, context_fn=contexts)
        return output

    def others(self, views: Tensor, rows: Tensor | None) -> Others:
        """(V, B, 3, h, w) → what the loss compares with: the teacher's projections of these views, if there is one.

        BatchNorm sees what it sees in `forward`. The teacher's running statistics stay: they follow the trained ones.
        """
        if self.teacher is None:
            return ALONE
        n_chunks = math.ceil(views.shape[1] / self.chunk) if self.chunk else 1
        with torch.no_grad(), freeze_running_stats(self.teacher.network):
            keys = [self._keys(chunk) for chunk in views.tensor_split(n_chunks, dim=1)]
        return self.teacher.others(torch.cat(keys), rows)

    def _keys(self, views: Tensor) -> Tensor:
        """(V, b, 3, h, w) → (b, V, D)."""
        with views_apart(self._teacher_norms, len(views) if self.views_forward == "per_view" else 1):
            keys: Tensor = self._teach(views.flatten(0, 1)).unflatten(0, views.shape[:2])
        return keys.transpose(0, 1)

    def teach(self, x: Tensor) -> Tensor:
        """Images (N, 3, h, w) → the teacher's projections (N, D)."""
        assert self.teacher is not None
        with self.autocast():
            keys: Tensor = self.teacher.network(self.normalize(x))
        return keys

    def chance(self, n_images: int, device: torch.device) -> dict[str, float]:
        """See `Objective.chance`; nothing with a queue, in which there are views of other batches."""
        others = ALONE if self.teacher is None else self.teacher.others(torch.ones(n_images, 2, 1, device=device), None)
        if others.memory is not None:
            return {}
        return self.objective.chance(n_images, self.n_views, device, across=others.across)

    def encode(self, views: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
        """`forward` of the whole batch, or of one chunk."""
        n_apart = len(views) if self.views_forward == "per_view" else 1
        with views_apart(self._norms, n_apart):
            outputs = self._network(views.flatten(0, 1), names)
        return {name: value.unflatten(0, views.shape[:2]).transpose(0, 1) for name, value in outputs.items()}

    def network(self, x: Tensor, names: tuple[str, ...]) -> dict[str, Tensor]:
        """Images (N, 3, h, w) → the outputs of these names, with N rows."""
        with self.autocast():
            outputs: dict[str, Tensor] = {"features": self.encoder(self.normalize(x))}
            if "projections" in names:
                outputs["projections"] = self.head(outputs["features"])
            return outputs

    def state(self) -> dict[str, Any]:
        """Everything a resumed run needs of the step: weights, optimizer, scaler."""
        return {name: getattr(self, name).state_dict() for name in STATEFUL}

    def load(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        for name in STATEFUL:
            getattr(self, name).load_state_dict(state[name])


@contextmanager
def freeze_running_stats(*modules: nn.Module) -> Iterator[None]:
    """BatchNorm normalizes as before but leaves its running statistics alone."""
    layers = [layer for module in modules for layer in module.modules() if isinstance(layer, BatchNorm)]
    norms = [layer for layer in layers if layer.track_running_stats]
    momenta, counts = [norm.momentum for norm in norms], [norm.num_batches_tracked for norm in norms]
    for norm in norms:
        # momentum 0 leaves mean and variance; the count would move all the same, so a spare one is counted
        norm.momentum, norm.num_batches_tracked = 0.0, torch.zeros((), dtype=torch.long)
    try:
        yield
    finally:
        for norm, momentum, count in zip(norms, momenta, counts, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count
