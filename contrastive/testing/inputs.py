"""Inputs of golden cases, regenerated from an integer hash: the same in every language."""

import math
import re
from typing import Any

import torch
from torch import Tensor

RULE = re.compile(r"\(?(?:(\d+)\*)?i\)?(?:%(\d+))?|(\d+)")


def u(a: Tensor, k: Tensor) -> Tensor:
    """sin(2π h / 65537) of an integer hash h of (a, k)."""
    h = (7919 * a * a + 104729 * a * k + 31337 * k * k + 1299709 * a + 15485863 * k) % 65537
    return torch.sin(2 * math.pi * h.to(torch.float64) / 65537)


def raw_inputs(inputs: dict[str, Any]) -> Tensor:
    """(B, V, D) float64: embeddings before normalization (kind hash, sinplane, flip) or logits (V = 1, D = C).

    Raises:
        NotImplementedError: an unknown kind.
    """
    kind = inputs["kind"]
    if kind == "logits":
        i, c = torch.meshgrid(torch.arange(inputs["B"]), torch.arange(inputs["C"]), indexing="ij")
        return 2 * u(i + 1, 101 + c)[:, None]
    v, i, k = torch.meshgrid(*(torch.arange(inputs[n]) for n in ("V", "B", "D")), indexing="ij")
    if kind == "hash":
        raw = u(i + 1, k + 1) + 0.6 * u(20011 * (v + 1) + i + 1, k + 1)
    elif kind == "sinplane":
        raw = torch.sin(12.9898 * (i + 1).double() + 78.233 * (k + 1).double() + 0.4 * v.double())
    elif kind == "flip":
        raw = torch.zeros(v.shape, dtype=torch.float64)
        raw[:, :, 0] = 1.0
        raw[1, 0, 0] = -1.0
        raw[:, :, 1] = 0.1 * (v + i)[:, :, 0].double()
    else:
        raise NotImplementedError(f"inputs of kind {kind}")
    return raw.transpose(0, 1).contiguous()


def integers(rule: str | None, n: int) -> Tensor | None:
    """Labels or biases of i = 0 ... n - 1 by a rule: `i`, `i%5`, `(3*i)%4` or a constant.

    Raises:
        NotImplementedError: another rule.
    """
    if rule is None:
        return None
    match = RULE.fullmatch(rule)
    if match is None:
        raise NotImplementedError(f"the rule {rule}")
    factor, modulus, constant = match.groups()
    if constant:
        return torch.full((n,), int(constant))
    value = torch.arange(n) * int(factor or 1)
    return value % int(modulus) if modulus else value
