"""Gradients that have no derivative of their own."""

from typing import Any, cast

import torch
from torch import Tensor


class _Once(torch.autograd.Function):
    """The identity, which hangs on `source` in the graph, and whose derivative is an error."""

    generate_vmap_rule = True

    @staticmethod
    def forward(gradient: Tensor, source: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def setup_context(context: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> None:
        raise RuntimeError(
            "a loss has no second derivative with a push, in tiles or across processes: "
            "try push=1, fewer images in a batch, and one process"
        )


def once(gradient: Tensor, source: Tensor) -> Tensor:
    """A gradient that was computed from the source; to differentiate it is a RuntimeError.

    torch's `once_differentiable` hangs it on nothing, so that torch.autograd.grad leaves its part out in silence.
    """
    return gradient if torch.compiler.is_compiling() else cast(Tensor, _Once.apply(gradient, source))
