"""The training loop: one step, one epoch, one fit. It receives built objects and knows no names."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchvision.utils import make_grid
from tqdm import tqdm

from contrastive import distributed
from contrastive.loader import Loader
from contrastive.metric.bias import conflicting_pairs
from contrastive.metric.debiasing import debiasing
from contrastive.metric.geometry import geometry
from contrastive.objective import Objective
from contrastive.pairs import Pairs
from contrastive.refusal import require
from contrastive.run import Follower, Run
from contrastive.seeding import derive, generator
from contrastive.term import TwoViewLoss
from contrastive.types import WHOLE, Batch, Share

DESCRIBED = 1024  # images of a batch whose pairs are looked at when a line is logged
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
    normalise: Callable[[Tensor], Tensor]
    autocast: Callable[[], torch.autocast]
    scaler: torch.amp.GradScaler
    n_views: int
    views_forward: str  # fused: one forward over all views; per_view: BatchNorm sees one view at a time
    epochs: int
    seed: int
    chunk: int = 0  # images whose activations are held at once, 0 = all: a large batch on a small device
    share: Share = WHOLE  # this process's part of every batch

    def parameters(self) -> list[nn.Parameter]:
        return [*self.encoder.parameters(), *self.head.parameters(), *self.objective.parameters()]

    def views(self, batch: Batch, rng: torch.Generator) -> Tensor:
        """(V, B, 3, h, w) in [0, 1], each view with parameters of its own."""
        image = [batch.image] * self.n_views
        if batch.mate is not None and self.n_views > 1:
            image[1] = batch.mate
        n, (height, width) = len(batch.image) * self.share.world, batch.image.shape[-2:]
        drawn = self.augmentation.draw(self.n_views * n, height, width, rng)
        if self.share.world > 1:  # drawn for the whole batch, so that it is augmented alike however it is shared
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
        h, z = zip(*(checkpoint(self.encode, some, use_reentrant=False,
                                context_fn=lambda: (nullcontext(), without_statistics(self.encoder, self.head)))
                     for some in views.tensor_split(pieces, dim=1)), strict=True)
        return torch.cat(h), torch.cat(z)

    def encode(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """What `forward` does with the whole batch or with a chunk."""
        x = self.normalise(views.flatten(0, 1))
        with self.autocast():
            parts = [x] if self.views_forward == "fused" else x.chunk(self.n_views)
            h = [self.encoder(part) for part in parts]
            z = [self.head(part) for part in h]
        shape = (self.n_views, views.shape[1])
        return torch.cat(h).unflatten(0, shape).transpose(0, 1), torch.cat(z).unflatten(0, shape).transpose(0, 1)

    def step(self, batch: Batch, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One update. Returns this process's share of the loss, the gradient's norm, h and z as device tensors: nothing
        here waits for the device (SyncBatchNorm, the scaler of fp16 and the solver of MMCL do so by themselves).
        """
        h, z = self.forward(self.views(batch, rng))
        loss = self.objective(h, z, batch.label, batch.bias)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        distributed.sum_gradients(self.parameters())
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


def fit(trainer: Trainer, loader: Loader, run: Run | Follower, *, state: dict[str, Any] | None,
        keep: Callable[[], dict[str, Any]], monitor: Callable[[int], dict[str, float]], log_every: int,
        checkpoint_every: int) -> None:
    """Train from `state` (None: from the start) to the last epoch.

    Everything random is drawn from (seed, purpose, epoch), so that an epoch is the same whether or not it follows an
    interruption. A checkpoint holds the end of an epoch.

    Args:
        keep: gives what else goes into a checkpoint, as it is.
        monitor: epoch → metrics to log after it, possibly none; asked for every epoch but the last.
        log_every: batches between log lines; the end of an epoch always logs.

    Raises:
        Refusal: the loss is no longer finite. The last checkpoint stays.
    """
    start = 0 if state is None else state["epoch"]
    per_epoch = len(loader)
    if state is None:
        rng = generator(loader.device, trainer.seed, "augmentation", 0)
        run.image(0, "views", picture(trainer.views(next(loader.epoch(0)), rng)[:, :8]))
    lr = [group["lr"] for group in trainer.optimizer.param_groups] if state is None else state["lr"]
    with tqdm(total=trainer.epochs, initial=start, desc="pretraining", unit="epoch", mininterval=1,
              disable=trainer.share.rank > 0) as bar:
        for epoch in range(start, trainer.epochs):
            _epoch(trainer, loader, run, epoch, lr, log_every, bar)
            metrics = monitor(epoch + 1) if epoch + 1 < trainer.epochs else {}
            if metrics:
                run.log((epoch + 1) * per_epoch, epoch + 1, metrics)
            if (epoch + 1) % checkpoint_every == 0 or epoch + 1 == trainer.epochs:
                run.save({"step": (epoch + 1) * per_epoch, "epoch": epoch + 1, "lr": lr, **keep(),
                          **trainer.state()})
            bar.update()


def _epoch(trainer: Trainer, loader: Loader, run: Run | Follower, epoch: int, lr: list[float], log_every: int,
           bar: tqdm) -> None:
    """One pass over the data."""
    device = loader.device
    share = [trainer.share.rank] if trainer.share.rank > 0 else []
    torch.manual_seed(derive(trainer.seed, "layers", epoch, *share))
    rng = generator(device, trainer.seed, "augmentation", epoch)
    trainer.encoder.train()
    trainer.head.train()
    total, n, since = torch.zeros(2, device=device), 0, time.perf_counter()
    for i, batch in enumerate(loader.epoch(epoch)):
        factor = trainer.schedule(epoch + i / len(loader), trainer.epochs)
        for group, base in zip(trainer.optimizer.param_groups, lr, strict=True):
            group["lr"] = base * factor
        loss, norm, h, z = trainer.step(batch, rng)
        total, n = total + torch.stack([loss, norm]), n + 1
        if (i + 1) % log_every and i + 1 != len(loader):
            continue
        mean_loss, mean_norm = distributed.total(total[0] / n).item(), (total[1] / n).item()
        advice = "try a lower optimizer.lr with another hydra.run.dir=PATH, or precision=fp32"
        require(math.isfinite(mean_loss), f"the loss became {mean_loss} in epoch {epoch + 1}: {advice}")
        # under fp16 an infinite gradient only means that the scaler left the step out
        require(math.isfinite(mean_norm) or trainer.scaler.is_enabled(),
                f"the gradient became {mean_norm} in epoch {epoch + 1}: {advice}")
        seconds, since = time.perf_counter() - since, time.perf_counter()
        views_per_s = n * loader.batch_size * trainer.n_views / seconds
        run.log(epoch * len(loader) + i + 1, epoch + (i + 1) / len(loader), {
            "train/loss": mean_loss, "train/lr": lr[0] * factor, "train/grad_norm": mean_norm,
            **describe(trainer, h, z, batch), "time/views_per_s": views_per_s})
        bar.set_postfix(loss=f"{mean_loss:.3f}", lr=f"{lr[0] * factor:.1e}", views_per_s=f"{views_per_s:,.0f}")
        total, n = torch.zeros(2, device=device), 0


@torch.no_grad()
def describe(trainer: Trainer, h: Tensor, z: Tensor, batch: Batch) -> dict[str, float]:
    """How the last batch lies on the sphere, the loss's own diagnostics, and what labels and biases tell of it.

    Of a large batch, and of what all processes hold together, only the first DESCRIBED images are looked at.
    """
    h, z, label = (distributed.gather(value)[:DESCRIBED] for value in (h, z, batch.label))
    bias = None if batch.bias is None else distributed.gather(batch.bias)[:DESCRIBED]
    pairs = Pairs(z, temperature=1.0, anchor_views=z.shape[1])
    found = {f"pairs/{key}": value for key, value in
             {**geometry(pairs), **trainer.objective.diagnostics(h, z, label, bias)}.items()}
    loss = trainer.objective.loss
    if isinstance(loss, TwoViewLoss) and len(z) > 1 and bool((label >= 0).all()):
        found |= {f"debiasing/{key}": value for key, value in debiasing(loss, z, label).items()}
    if bias is not None:
        found["bias/conflicting_pairs"] = conflicting_pairs(label, bias)
    return {key: value.item() for key, value in found.items()}


@contextmanager
def without_statistics(*modules: nn.Module) -> Iterator[None]:
    """BatchNorm normalises as before but leaves its running statistics alone."""
    norms = [m for module in modules for m in module.modules()
             if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
    momenta, counts = [norm.momentum for norm in norms], [norm.num_batches_tracked for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, torch.zeros((), dtype=torch.long)
    try:
        yield
    finally:
        for norm, momentum, count in zip(norms, momenta, counts, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count


def picture(views: Tensor) -> Tensor:
    """(V, n, 3, h, w) in [0, 1] → one picture: a row for each view, a column for each image."""
    return make_grid(views.flatten(0, 1).float().cpu(), nrow=views.shape[1], padding=1)
