"""Name the largest consumers when a run is out of memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from contrastive.errors import ConfigError
from contrastive.program.build import Experiment
from contrastive.program.settings import Settings
from contrastive.program.system_errors import is_out_of_memory, out_of_memory


@contextmanager
def explained_memory(experiment: Experiment, settings: Settings) -> Iterator[None]:
    """Turn a failed allocation in the body into a ConfigError with the largest consumers and what to try."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise ConfigError(out_of_memory(error, consumers(experiment, settings))) from error


def consumers(experiment: Experiment, settings: Settings) -> str:
    """What holds memory, largest first: known sizes, and the activations by what they grow with."""
    step = experiment.step
    state = [value for values in step.optimizer.state.values() for value in values.values()]
    tensors = [*step.parameters(), *(value for value in state if isinstance(value, torch.Tensor))]
    sizes = {
        f"images {'on' if not experiment.loader.streaming else 'beside'} the device": experiment.data.nbytes,
        "weights, their gradients and the optimizer": 2 * sum(value.nbytes for value in tensors),
    }
    known = ", ".join(f"{name} {size / 2**30:.2f} GiB" for name, size in sorted(sizes.items(), key=lambda x: -x[1]))
    at_once = settings.grad_cache_chunk or settings.batch_size
    return f"; activations of {at_once * settings.n_views} views at once are usually the most, then {known}"
