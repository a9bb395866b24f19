"""Random generators keyed by seed, purpose and epoch, so that a resumed run draws the same numbers."""

import hashlib

import torch


def derive(*key: object) -> int:
    """A 63-bit seed from any key, such as (seed, "augmentation", epoch)."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "big") >> 1


def generator(device: torch.device | str, *key: object) -> torch.Generator:
    """A generator on the device, seeded with the key."""
    return torch.Generator(device=device).manual_seed(derive(*key))
