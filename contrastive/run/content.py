"""Hashes of what runs write: of checkpoints and of weights."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


def content_hash(node: Any) -> str:
    """sha256 of nested dicts, lists, tensors and plain values; equal for a checkpoint before and after the disk."""
    digest = hashlib.sha256()
    _feed(digest, node)
    return digest.hexdigest()


def checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """sha256 of the tensors and of the metadata, that of an earlier checksum left out."""
    return content_hash([dict(tensors), {key: value for key, value in metadata.items() if key != "sha256"}])


def _feed(digest: Any, node: Any) -> None:
    if isinstance(node, Tensor):
        flat = node.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(f"{node.dtype}{tuple(node.shape)}".encode())
        digest.update(flat.numpy().data)
    elif isinstance(node, dict):
        digest.update(f"dict{len(node)}".encode())
        for key, value in sorted(node.items(), key=lambda item: repr(item[0])):  # a file may order them otherwise
            digest.update(repr(key).encode())
            _feed(digest, value)
    elif isinstance(node, list | tuple):
        digest.update(f"list{len(node)}".encode())
        for value in node:
            _feed(digest, value)
    else:
        digest.update(repr(node).encode())
