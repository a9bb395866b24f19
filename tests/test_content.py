"""Hashes of weights as they lie on the disk are those of the tensors."""

import torch
from safetensors.torch import save_file

from contrastive.run.content import _read_raw, checksum, content_hash


def test_a_file_has_the_hash_of_its_tensors(tmp_path):
    tensors = {
        "a": torch.randn(3, 4),
        "scalar": torch.tensor(5),
        "half": torch.randn(2).bfloat16(),
        "mask": torch.tensor([True]),
        "empty": torch.zeros(0, 3),
    }
    save_file(tensors, tmp_path / "x.safetensors", metadata={"k": "v"})
    raw, metadata = _read_raw(tmp_path / "x.safetensors")
    assert metadata == {"k": "v"}
    assert content_hash(raw) == content_hash(tensors)
    assert checksum(raw, metadata) == checksum(tensors, metadata)
