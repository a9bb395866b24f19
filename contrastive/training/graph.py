"""Training steps as one CUDA graph: the host launches the whole step at once in place of its hundreds of kernels.

A graph reads and writes fixed memory and knows no Python. So the batch, the learning rates and the random state are
copied to where it reads them before each replay, and what a step decides on the host must be the same each time.
"""

import copy
import gc
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from contrastive.augmentation.callable import PerImage
from contrastive.distributed.process import world_size
from contrastive.errors import ConfigError
from contrastive.optimizer.lars import LARS
from contrastive.training.step import StepOutput, TrainStep
from contrastive.types import Batch, tensors

# The one stream of the process that captures on a device; torch has 32, one of which copies batches.
capture_stream = cache(torch.cuda.Stream)
WARM_UP = 3  # steps of a run before the capture: they start the optimizer, choose algorithms and compile
STEADY = ("contrastive", "torch", "torchvision")  # whose code decides nothing on the host from one step to the next


def choose_graphs(
    setting: bool | str,
    *,
    device: torch.device,
    precision: str,
    grad_cache_chunk: int,
    optimizer: torch.optim.Optimizer,
    made_of: Sequence[object],
) -> bool:
    """Whether to capture the steps of a run; what only shows in a step is found at its capture.

    `auto` captures what can be captured, unless a class of the user's own is in it: a graph would repeat the kernels of
    its first step, whatever its Python decides later. torch gives no way back from a capture that breaks, so there is
    none to try it out.

    Args:
        setting: auto | True | False.
        made_of: modules of the step, its augmentation and the operations of that, and hooks that change training.

    Raises:
        ConfigError: True, and the steps cannot be captured.
    """
    if setting is False:
        return False
    can_be = (
        device.type == "cuda"
        and world_size() == 1
        and precision != "fp16"  # the scaling of the loss is decided on the host
        and grad_cache_chunk == 0  # chunks restore random states
        and not any(isinstance(part, PerImage) for part in made_of)
        and (isinstance(optimizer, LARS) or all(group.get("fused") for group in optimizer.param_groups))
    )
    if not can_be and setting == "auto":
        return False
    if not can_be:
        raise ConfigError(
            "graphs=true needs one process on a GPU, without fp16, chunks or an augmentation on the CPU, and an "
            "optimizer with its state on the GPU: try graphs=auto"
        )
    own = next((type(part) for part in made_of if type(part).__module__.split(".")[0] not in STEADY), None)
    if setting == "auto" and own is not None:
        print(f"steps could be faster: try graphs=true if {own.__name__} does the same in every step")
        return False
    return True


class GraphedStep(TrainStep):
    """A `TrainStep` whose first `WARM_UP` steps are as ever; the next is captured, and it and all further are replayed.

    Every batch must have the fields and shapes of the first one. Learning rates are rounded to float32, as kernels read
    them from memory; other hyperparameters, and what modules hold outside of tensors, are fixed by the capture. `main`
    and `second` of an output are overwritten by the next step.

    Raises:
        ConfigError: at the capture: the step waits for the device, or does something else that no graph can hold.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._forget()

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self._forget()  # the optimizer's state lies elsewhere now

    def _forget(self) -> None:
        """Begin with the warm-up."""
        self._n_run = 0
        self._captured: tuple[torch.cuda.CUDAGraph, StepOutput] | None = None

    def __call__(self, batch: Batch, generator: torch.Generator) -> StepOutput:
        if self._n_run == 0:
            self._make_room(batch)
        for buffer, value in zip(tensors(self._batch), tensors(batch), strict=True):
            buffer.copy_(value)
        for buffer, group in zip(self._rates, self.optimizer.param_groups, strict=True):
            buffer.fill_(group["lr"])
        self._rng.set_state(generator.get_state())
        output = self._warm_up() if self._n_run < WARM_UP else self._replay()
        generator.set_state(self._rng.get_state())
        return output._replace(loss=output.loss.clone(), grad_norm=output.grad_norm.clone())

    def _make_room(self, batch: Batch) -> None:
        """Make all that lies in fixed memory, but for weights and optimizer."""
        gc.collect()  # a step of an earlier run, which holds itself, would keep the memory of its graph
        device = batch.image.device
        self._batch = copy.deepcopy(batch)
        self._rates = [torch.zeros((), device=device) for _ in self.optimizer.param_groups]
        self._rng, self._stream = torch.Generator(device), capture_stream(device)

    def _warm_up(self) -> StepOutput:
        """Run a step on the stream that will capture it: what torch keeps for each stream is there by then."""
        self._n_run += 1
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            output = self._step()
        torch.cuda.current_stream().wait_stream(self._stream)
        return output

    def _replay(self) -> StepOutput:
        if self._captured is None:
            self._captured = self._capture()
        graph, output = self._captured
        graph.replay()
        return output

    def _capture(self) -> tuple[torch.cuda.CUDAGraph, StepOutput]:
        """Queue the kernels of a step without running them. A replay draws what the step would draw."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._rng)
        try:
            # thread_local: another thread may be fetching the next batch
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                output = self._step()
        except RuntimeError as error:
            cause = error.__context__ or error  # the end of a broken capture raises once more
            if isinstance(cause, torch.OutOfMemoryError):
                raise cause from None
            raise ConfigError(
                f"the step cannot be captured as a CUDA graph ({str(cause).splitlines()[0]}): try graphs=false"
            ) from error
        return graph, output

    def _step(self) -> StepOutput:
        """`TrainStep` on what lies in fixed memory; the optimizer keeps its own hyperparameters."""
        groups = self.optimizer.param_groups
        own = [dict(group) for group in groups]
        for group, rate in zip(groups, self._rates, strict=True):
            group["lr"] = rate
            if "capturable" in group:  # which torch asks for in a capture, and warns of at other times
                group["capturable"] = torch.cuda.is_current_stream_capturing()
        try:
            return super().__call__(self._batch, self._rng)
        finally:
            for group, values in zip(groups, own, strict=True):
                group.update(values)
