"""Hashes of what runs write: of checkpoints, and of the files of weights as they lie on the disk. Imports no torch."""

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, deserialize, safe_open

from contrastive.run.files import ENCODER, HEAD, read_result

FORMAT = "2"  # of the metadata of a file of weights: raise it when a key changes its meaning
TYPES = {  # of safetensors, and what torch calls them
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


class RawTensor(NamedTuple):
    """The bytes of a tensor, its type in torch's words, such as `torch.float32`."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


def content_hash(node: Any) -> str:
    """sha256 of nested dicts, lists, tensors and plain values; equal for a checkpoint before and after the disk."""
    digest = hashlib.sha256()
    _feed(digest, node)
    return digest.hexdigest()


def checksum(tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> str:
    """sha256 of the tensors and of the metadata, that of an earlier checksum left out."""
    return content_hash([dict(tensors), {key: value for key, value in metadata.items() if key != "sha256"}])


def weights_hashes(run: Path) -> dict[str, str]:
    """{file: sha256 of its tensors} of the files of weights in a run directory that are whole and the run's own."""
    recorded, hashes = (read_result(run) or {}).get("weights", {}), {}
    for name in (ENCODER, HEAD):
        try:
            tensors, metadata = _read_raw(run / name)
        except (OSError, SafetensorError, KeyError):  # missing, no whole file, or with types that torch lacks
            continue
        if metadata.get("contrastive_format") == FORMAT and metadata.get("sha256") == checksum(tensors, metadata):
            content = content_hash(tensors)
            if recorded.get(name) in (None, content):
                hashes[name] = content
    return hashes


def has_own_weights(run: Path) -> bool:
    """Whether both files of weights are there, whole, and those that the result names."""
    return weights_hashes(run).keys() == {ENCODER, HEAD}


def _read_raw(path: Path) -> tuple[dict[str, RawTensor], dict[str, str]]:
    """The tensors and the metadata of a .safetensors file; bfloat16, too, which numpy does not know."""
    with safe_open(path, framework="np") as file:
        metadata = file.metadata() or {}
    tensors = {
        key: RawTensor(f"torch.{TYPES[entry['dtype']]}", tuple(entry["shape"]), memoryview(entry["data"]))
        for key, entry in deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    }
    return tensors, metadata


def _feed(digest: Any, node: Any) -> None:
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    if torch is not None and isinstance(node, torch.Tensor):
        flat = node.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        node = RawTensor(str(node.dtype), tuple(node.shape), flat.numpy().data)
    if isinstance(node, RawTensor):
        digest.update(f"{node.dtype}{node.shape}".encode())
        digest.update(node.data)
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
