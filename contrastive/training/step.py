"""One step of training: views, forward, loss, backward, update."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from contrastive.distributed import process as distributed
from contrastive.distributed.batch_norm import BatchNorm
from contrastive.training.objective import Objective
from contrastive.types import WHOLE, Batch, Shard

STATEFUL = ("encoder", "head", "objective", "optimizer", "scaler")


@dataclass
class Trainer:
    """Everything a step needs, built."""

    encoder: nn.Module
    head: nn.Module
    objective: Objective
    optimizer: torch.optim.Optimizer
    schedule: Callable[[float, int], float]
    augmentation: Any  # .draw(n, height, width, generator) → tuple of (n, ...); .apply(uint8 images, those) → views
    normalize: Callable[[Tensor], Tensor]
    autocast: Callable[[], torch.autocast]
    scaler: torch.amp.GradScaler
    n_views: int
    views_forward: str  # fused: one forward over all views; per_view: BatchNorm sees one view at a time
    epochs: int
    seed: int
    chunk: int = 0  # images whose activations are held at once, 0 = all: a large batch on a small device
    share: Shard = WHOLE  # this process's part of every batch

    def parameters(self) -> list[nn.Parameter]:
        return [*self.encoder.parameters(), *self.head.parameters(), *self.objective.parameters()]

    def views(self, batch: Batch, rng: torch.Generator) -> Tensor:
        """(V, B, 3, h, w) in [0, 1], each view with parameters of its own."""
        image = [batch.image] * self.n_views
        if batch.mate is not None and self.n_views > 1:
            image[1] = batch.mate
        n, (height, width) = len(batch.image) * self.share.world_size, batch.image.shape[-2:]
        drawn = self.augmentation.draw(self.n_views * n, height, width, rng)
        if self.share.world_size > 1:  # drawn for the whole batch, so that it is augmented alike however it is shared
            own = [value.unflatten(0, (self.n_views, n))[:, self.share.of(n)].flatten(0, 1) for value in drawn]
            drawn = type(drawn)(*own)
        return self.augmentation.apply(torch.cat(image), drawn).unflatten(0, (self.n_views, len(batch.image)))

    def forward(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """(V, B, 3, h, w) → features (B, V, F) and projections (B, V, D).

        In even chunks the activations are computed again, a chunk at a time, when the gradient comes back (gradient
        caching, Gao et al. 2021): the loss still sees the whole batch. BatchNorm sees a chunk, and counts it once.
        """
        if self.chunk == 0:
            return self.encode(views)
        pieces = math.ceil(views.shape[1] / self.chunk)
        h, z = zip(
            *(
                checkpoint(
                    self.encode,
                    some,
                    use_reentrant=False,
                    context_fn=lambda: (nullcontext(), freeze_running_stats(self.encoder, self.head)),
                )
                for some in views.tensor_split(pieces, dim=1)
            ),
            strict=True,
        )
        return torch.cat(h), torch.cat(z)

    def encode(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """What `forward` does with the whole batch or with a chunk."""
        x = self.normalize(views.flatten(0, 1))
        with self.autocast():
            parts = [x] if self.views_forward == "fused" else x.chunk(self.n_views)
            h = [self.encoder(part) for part in parts]
            z = [self.head(part) for part in h]
        shape = (self.n_views, views.shape[1])
        return torch.cat(h).unflatten(0, shape).transpose(0, 1), torch.cat(z).unflatten(0, shape).transpose(0, 1)

    def step(self, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One update. Returns the loss of this process's anchors, the gradient's norm, h and z as device tensors:
        nothing here waits for the device (SyncBatchNorm, the scaler of fp16 and the solver of MMCL do so themselves).
        """
        h, z = self.forward(self.views(batch, rng))
        loss = self.objective(h, z, batch.label, batch.bias)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        distributed.average_gradients(self.parameters())
        self.scaler.unscale_(self.optimizer)
        norm = torch.nn.utils.get_total_norm([p.grad for p in self.parameters() if p.grad is not None])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach(), norm, h.detach(), z.detach()

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name).state_dict() for name in STATEFUL}

    def load(self, state: dict[str, Any]) -> None:
        for name in STATEFUL:
            getattr(self, name).load_state_dict(state[name])


@contextmanager
def freeze_running_stats(*modules: nn.Module) -> Iterator[None]:
    """BatchNorm normalizes as before but leaves its running statistics alone."""
    norms = [m for module in modules for m in module.modules() if isinstance(m, BatchNorm) and m.track_running_stats]
    momenta, counts = [norm.momentum for norm in norms], [norm.num_batches_tracked for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, torch.zeros((), dtype=torch.long)
    try:
        yield
    finally:
        for norm, momentum, count in zip(norms, momenta, counts, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count
