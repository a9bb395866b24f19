"""The words of precision: what each of them means on which device."""

import pytest
import torch

from contrastive.errors import ConfigError
from contrastive.training.precision import autocast, choose, set_tf32

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")
TURING, HOPPER = (7, 5), (9, 0)


@pytest.fixture
def capability(monkeypatch):
    """capability(of): GPUs have this one."""
    return lambda of: monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: of)


@pytest.mark.parametrize(
    ("word", "of", "expected"),
    [
        ("auto", HOPPER, "bf16"), ("auto", TURING, "fp32"), ("tf32", HOPPER, "tf32"), ("fp32", HOPPER, "fp32"),
        ("fp16", TURING, "fp16"),
    ],
)  # fmt: skip
def test_words_on_a_gpu(capability, word, of, expected):
    capability(of)
    assert choose(word, GPU) == expected


def test_tf32_is_refused_where_there_is_none(capability):
    capability(TURING)
    for device in (CPU, GPU):
        with pytest.raises(ConfigError, match="Ampere generation or later: try precision=fp32"):
            choose("tf32", device)


@pytest.fixture
def switches():
    """Leave torch's own defaults."""
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = True, False


@pytest.mark.parametrize("word", ["fp32", "tf32", "bf16", "fp16"])
def test_only_tf32_lets_gpus_round_float32(switches, word):
    set_tf32("fp32" if word == "tf32" else "tf32")  # as another run of this process left it
    set_tf32(word)
    allowed = word == "tf32"
    # all words that torch has for it, old and new, say the same and can be read
    assert torch.backends.cudnn.allow_tf32 == torch.backends.cuda.matmul.allow_tf32 == allowed
    assert torch.get_float32_matmul_precision() == ("high" if allowed else "highest")
    for new in (torch.backends.cudnn.conv, torch.backends.cuda.matmul):
        assert (new.fp32_precision == "tf32") == allowed
    with torch.backends.cudnn.flags(enabled=False):  # reads them, as torch.export does
        pass
    assert torch.backends.cudnn.allow_tf32 == allowed


@pytest.mark.parametrize(
    ("word", "dtype"), [("fp32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_autocast_is_for_half_precision_alone(word, dtype):
    with autocast(word, CPU)():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
