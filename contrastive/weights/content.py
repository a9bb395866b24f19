"""Hashes of files, and of nested containers of tensors."""

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def file_hash(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(node: Any) -> str:
    """sha256 of nested dicts, lists, tensors and plain values; equal for a checkpoint before and after the disk."""
    digest = hashlib.sha256()
    _feed(digest, node)
    return digest.hexdigest()


def _feed(digest: Any, node: Any) -> None:
    if isinstance(node, Tensor):
        digest.update(f"{node.dtype}{tuple(node.shape)}".encode())
        digest.update(node.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
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
