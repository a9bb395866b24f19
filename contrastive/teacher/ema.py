"""A teacher that follows the trained network: an exponential moving average of its weights."""

import copy
import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from contrastive.average.ema import Average, move
from contrastive.errors import ConfigError, check_at_least, check_between, check_choice
from contrastive.gathering import gather
from contrastive.head.predictor import PredictorHead
from contrastive.pairs.others import Others
from contrastive.seeding import generator
from contrastive.training.hook import Training
from contrastive.training.step import StepOutput
from contrastive.types import unit, widen


class EMA(Average):
    """A second network θ' ← m θ' + (1 - m) θ; losses compare with its projections (He et al. 2020, eq. 2).

    It has an encoder and a head, without the head's predictor, sees the same views as the trained network, and gets no
    gradient. Its BatchNorms normalize by the batch; their running statistics follow those of the trained network. m is
    `momentum`, or rises to 1 along half a cosine (Grill et al. 2020, §3.2): 1 - (1 - m)(cos(πk/K) + 1)/2 after k of K
    steps. With m = 0 the teacher is the trained network itself, with its gradient stopped, as in SimSiam.

    The queue holds the newest projections of the second view (of both with `across=both`), with labels and the rows of
    the training data, so that an image is never its own negative. It starts with random directions.

    Args:
        encoder: the one that is trained.
        head: its head.
        seed: of the queue.
        momentum: in [0, 1].
        schedule: `constant` or `cosine`.
        across: `both` compares each of two views with the teacher's other one; `first` only view 0 with view 1.
        queue: K, projections of earlier steps that are negatives, too.
        queue_only: whether the queue holds all negatives, as in MoCo v2.
        evaluated: whether evaluators read the teacher in place of the trained encoder.

    Attributes:
        network: encoder and projector, images → projections.

    Raises:
        ConfigError: an argument out of range, or `queue_only` without a queue.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        seed: int = 0,
        momentum: float = 0.99,
        schedule: str = "constant",
        across: str = "both",
        queue: int = 0,
        queue_only: bool = False,
        evaluated: bool = False,
    ) -> None:
        check_between("teacher.momentum", momentum, 0, 1, example=0.99)
        check_choice("teacher.schedule", schedule, ("constant", "cosine"))
        check_choice("teacher.across", across, ("both", "first"))
        check_at_least("teacher.queue", queue, 0, example=4096)
        if queue_only and not queue:
            raise ConfigError("teacher.queue_only takes all negatives from a queue: try teacher.queue=4096")
        super().__init__(encoder)
        self.momentum, self.schedule, self.across = momentum, schedule, across
        self.queue_only, self.evaluated = queue_only, evaluated
        self.protocol = f"weights of the teacher (EMA, momentum {momentum:g}, {schedule})"
        self.projector = copy.deepcopy(projector_of(head))
        self.network: nn.Module = nn.Sequential(self.encoder, self.projector).train().requires_grad_(False)
        device = next((own.device for own in encoder.parameters()), None)
        self.queue = Queue(queue, cast(int, head.dim), seed=seed).to(device) if queue else None

    def others(self, keys: Tensor, rows: Tensor | None) -> Others:
        """What the loss compares with, for keys (B, 2, D) of the images in these rows of the training data."""
        others = Others(across=self.across, keys=keys)
        if self.queue is None:
            return others
        memory_ids = None if rows is None else self.queue.rows
        others = others._replace(memory=self.queue.z, memory_label=self.queue.label, memory_ids=memory_ids)
        return others._replace(memory_only=self.queue_only, ids=rows)

    def on_step(self, training: Training, output: StepOutput) -> None:
        """Follow the trained network, and put the keys of the step into the queue."""
        step, share = training.step, 1 - self.momentum
        if self.schedule == "cosine":
            progress = training.steps_done / (training.epochs * len(training.loader))
            share *= (math.cos(math.pi * progress) + 1) / 2
        move(self.network, nn.Sequential(step.encoder, projector_of(step.head)), share)
        if self.queue is not None:
            main = output.main
            keys = main.others.keys
            assert keys is not None
            views = keys if self.across == "both" else keys[:, 1:]
            rows = torch.full_like(main.label, -1) if main.rows is None else main.rows
            self.queue.put(gather(views.contiguous()), gather(main.label), gather(rows))

    def state_dict(self) -> dict[str, Any]:
        queue = {} if self.queue is None else {"queue": self.queue.state_dict()}
        return {**super().state_dict(), "projector": self.projector.state_dict(), **queue}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.projector.load_state_dict(state["projector"])
        if self.queue is not None:
            self.queue.load_state_dict(state["queue"])


class Queue(nn.Module):
    """The newest K projections, with the label and the row of their images; at first random directions of neither.

    Args:
        size: K.
        dim: D.
        seed: of the random directions.

    Attributes:
        z: (K, D) float32.
        place: of the oldest, which is on the device too: nothing waits for it.
    """

    z: Tensor
    label: Tensor
    rows: Tensor
    place: Tensor

    def __init__(self, size: int, dim: int, *, seed: int) -> None:
        super().__init__()
        self.register_buffer("z", unit(torch.randn(size, dim, generator=generator("cpu", seed, "queue"))))
        self.register_buffer("label", torch.full((size,), -1))
        self.register_buffer("rows", torch.full((size,), -1))
        self.register_buffer("place", torch.tensor(0))

    def put(self, keys: Tensor, label: Tensor, rows: Tensor) -> None:
        """Replace the oldest by keys (B, V, D) of images with label (B,) and rows (B,)."""
        n_views, size = keys.shape[1], len(self.z)
        values = (unit(widen(keys)).flatten(0, 1), *(x.repeat_interleave(n_views) for x in (label, rows)))
        n = min(len(values[0]), size)
        places = (torch.arange(n, device=self.z.device) + self.place) % size
        for stored, value in zip((self.z, self.label, self.rows), values, strict=True):
            stored[places] = value[-n:].to(stored.dtype)
        self.place.add_(n).remainder_(size)


def projector_of(head: nn.Module) -> nn.Module:
    """The head without its predictor."""
    return head.projector if isinstance(head, PredictorHead) else head
