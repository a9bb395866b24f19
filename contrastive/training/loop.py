"""The training loop: an epoch, a fit, and what is logged of them. It receives built objects and knows no names."""

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torchvision.utils import make_grid
from tqdm import tqdm

from contrastive.distributed import process as distributed
from contrastive.errors import ConfigError
from contrastive.evaluator.alignment_uniformity import geometry
from contrastive.evaluator.bias_audit import conflicting_pairs
from contrastive.pairs.pairs import Pairs
from contrastive.run.directory import Follower, Run
from contrastive.seeding import derive, generator
from contrastive.training.loader import Loader
from contrastive.training.step import Trainer
from contrastive.types import Batch

DESCRIBED = 1024  # images of a batch whose pairs are looked at when a line is logged


def fit(
    trainer: Trainer,
    loader: Loader,
    run: Run | Follower,
    *,
    state: dict[str, Any] | None,
    keep: Callable[[], dict[str, Any]],
    monitor: Callable[[int], dict[str, float]],
    log_every: int,
    checkpoint_every: int,
) -> None:
    """Train from `state` (None: from the start) to the last epoch.

    Everything random is drawn from (seed, purpose, epoch), so that an epoch is the same whether or not it follows an
    interruption. A checkpoint holds the end of an epoch.

    Args:
        keep: gives what else goes into a checkpoint, as it is.
        monitor: epoch → metrics to log after it, possibly none; asked for every epoch but the last.
        log_every: batches between log lines; the end of an epoch always logs.

    Raises:
        ConfigError: the loss is no longer finite. The last checkpoint stays.
    """
    start = 0 if state is None else state["epoch"]
    per_epoch = len(loader)
    if state is None:
        rng = generator(loader.device, trainer.seed, "augmentation", 0)
        run.image(0, "views", picture(trainer.views(next(loader.epoch(0)), rng)[:, :8]))
    lr = [group["lr"] for group in trainer.optimizer.param_groups] if state is None else state["lr"]
    with tqdm(
        total=trainer.epochs,
        initial=start,
        desc="pretraining",
        unit="epoch",
        mininterval=1,
        disable=trainer.share.rank > 0,
    ) as bar:
        for epoch in range(start, trainer.epochs):
            _epoch(trainer, loader, run, epoch, lr, log_every, bar)
            metrics = monitor(epoch + 1) if epoch + 1 < trainer.epochs else {}
            if metrics:
                run.log((epoch + 1) * per_epoch, epoch + 1, metrics)
            if (epoch + 1) % checkpoint_every == 0 or epoch + 1 == trainer.epochs:
                run.save({"step": (epoch + 1) * per_epoch, "epoch": epoch + 1, "lr": lr, **keep(), **trainer.state()})
            bar.update()


def _epoch(
    trainer: Trainer, loader: Loader, run: Run | Follower, epoch: int, lr: list[float], log_every: int, bar: tqdm
) -> None:
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
        mean_loss, mean_norm = (
            (distributed.all_reduce_sum(total[0] / n) / distributed.world_size()).item(),
            (total[1] / n).item(),
        )
        advice = "try a lower optimizer.lr with another hydra.run.dir=PATH, or precision=fp32"
        if not math.isfinite(mean_loss):
            raise ConfigError(f"the loss became {mean_loss} in epoch {epoch + 1}: {advice}")
        # under fp16 an infinite gradient only means that the scaler left the step out
        if not math.isfinite(mean_norm) and not trainer.scaler.is_enabled():
            raise ConfigError(f"the gradient became {mean_norm} in epoch {epoch + 1}: {advice}")
        seconds, since = time.perf_counter() - since, time.perf_counter()
        views_per_s = n * loader.batch_size * trainer.n_views / seconds
        run.log(
            epoch * len(loader) + i + 1,
            epoch + (i + 1) / len(loader),
            {
                "train/loss": mean_loss,
                "train/lr": lr[0] * factor,
                "train/grad_norm": mean_norm,
                **describe(trainer, h, z, batch),
                "time/views_per_s": views_per_s,
            },
        )
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
    found = {f"pairs/{key}": value for key, value in geometry(pairs).items()}
    found |= trainer.objective.diagnostics(h, z, label, bias)
    if bias is not None:
        found["bias/conflicting_pairs"] = conflicting_pairs(label, bias)
    return {key: value.item() for key, value in found.items()}


def picture(views: Tensor) -> Tensor:
    """(V, n, 3, h, w) in [0, 1] → one picture: a row for each view, a column for each image."""
    return make_grid(views.flatten(0, 1).float().cpu(), nrow=views.shape[1], padding=1)
