"""Argument checks that several losses share. Imports no torch: the settings are checked by the same rules."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from contrastive.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor


def check_temperature(temperature: float) -> None:
    """Raise ConfigError unless t is finite and above 0."""
    if not 0 < temperature < math.inf:
        raise ConfigError(f"temperature must be above 0, got {temperature}: try temperature=0.5")


def check_tau_plus(tau_plus: float, *, allow_zero: bool) -> None:
    """Raise ConfigError unless τ⁺ lies in [0, 1) or, without `allow_zero`, in (0, 1)."""
    if not 0 <= tau_plus < 1 or (tau_plus == 0 and not allow_zero):
        interval = "[0, 1)" if allow_zero else "(0, 1)"
        raise ConfigError(
            f"tau_plus, the prior of the anchor's class, must lie in {interval}, got {tau_plus}: try tau_plus=0.1"
        )


def check_shapes(z: Tensor, label: Tensor | None, bias: Tensor | None, *, is_map: bool = False) -> None:
    """Raise ConfigError unless z is (B, V, D), a map (B, V, C, H, W), and label and bias are whole numbers (B,)."""
    for name, value in (("label", label), ("bias", bias)):
        if value is None:
            continue
        if value.is_floating_point():
            raise ConfigError(
                f"{name} must be whole numbers (B,), got {value.dtype} of shape {tuple(value.shape)}; "
                "for two views z0 and z1 try loss(torch.stack([z0, z1], 1))"
            )
        if value.shape != z.shape[:1]:
            raise ConfigError(
                f"{name} must have the shape (B,) = ({len(z)},), got {tuple(value.shape)}: "
                f"try one {name} for each image, not for each view"
            )
    if is_map and z.dim() != 5:
        raise ConfigError(f"a map must be (B, V, C, H, W), got {tuple(z.shape)}: try torch.stack([map0, map1], 1)")
    if not is_map and z.dim() != 3:
        raise ConfigError(f"z must be (B, V, D), got {tuple(z.shape)}: try torch.stack([z0, z1], 1)")
