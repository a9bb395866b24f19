"""Files of weights by other projects: recognized, renamed, accounted for, and never executed."""

import argparse
import collections
import os
import pathlib
import pickle
import subprocess
from typing import Any

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

from contrastive.encoder.resnet import ResNet
from contrastive.errors import ConfigError
from contrastive.run.files import weights_path
from contrastive.run.weights import load_into, read_tensors

X = torch.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32)


def small_resnet18() -> nn.Module:
    """torchvision's ResNet-18 as the projects change it for CIFAR."""
    network = torchvision.models.resnet18()
    network.conv1, network.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return shaken(network)


def shaken(network: nn.Module) -> nn.Module:
    """Every parameter and buffer away from its initial value, in eval mode."""
    rng = torch.Generator().manual_seed(0)
    for value in network.state_dict().values():
        if value.is_floating_point():
            value.mul_(1 + 0.2 * torch.rand(value.shape, generator=rng))
    return network.eval()


def features(network: nn.Module) -> torch.Tensor:
    """The features of torchvision's network, before its classifier."""
    classifier, network.fc = network.fc, nn.Identity()
    with torch.no_grad():
        h = network(X)
    network.fc = classifier
    return h


def prefixed(network: nn.Module, prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + key: value for key, value in network.state_dict().items()}


def solo_file(network: nn.Module) -> Any:
    state = prefixed(network, "backbone.") | prefixed(network, "momentum_backbone.")
    state |= {"projector.0.weight": torch.zeros(2, 2), "classifier.bias": torch.zeros(10)}
    hyper_parameters = {"cfg": argparse.Namespace(method="simclr"), "folder": pathlib.PurePosixPath("data")}
    return {"state_dict": state, "hyper_parameters": hyper_parameters, "callbacks": {}, "epoch": 3}


ALONE = "; left out: fc.weight (1), fc.bias (1)"
FILES = {
    "torchvision": (lambda network: network.state_dict(), None, ALONE),
    "solo-learn": (solo_file, "backbone", f" below state_dict.backbone{ALONE}, state_dict.momentum_backbone (122), "),
    "compiled": (lambda network: prefixed(network, "_orig_mod."), None, f" below _orig_mod{ALONE}"),
}


@pytest.mark.parametrize("name", FILES)
def test_features_are_those_of_the_project_of_the_file(name, tmp_path):
    content, prefix, said = FILES[name]
    network = small_resnet18()
    torch.save(content(network), tmp_path / "weights.pth")
    encoder = ResNet()
    assert f"120 tensors{said}" in load_into(encoder, tmp_path / "weights.pth", prefix)
    with torch.no_grad():
        torch.testing.assert_close(encoder.eval()(X), features(network))


def test_any_other_prefix_can_be_typed(tmp_path):
    network = small_resnet18()
    torch.save({"model": prefixed(network, "online.net.") | prefixed(network, "target.net.")}, tmp_path / "byol.pth")
    encoder = ResNet()
    with pytest.raises(ConfigError, match=r"2 networks .*try encoder\.prefix=model\.online\.net or"):
        load_into(encoder, tmp_path / "byol.pth")
    with pytest.raises(ConfigError, match=r"no networks .*try encoder\.prefix=model\.online or"):
        load_into(encoder, tmp_path / "byol.pth", "student")
    for prefix in ("online.net", "online.net.", "model.online.net."):
        load_into(encoder, tmp_path / "byol.pth", prefix)
    with torch.no_grad():
        torch.testing.assert_close(encoder.eval()(X), features(network))


def test_files_before_batches_were_counted_are_read(tmp_path):
    network = small_resnet18()
    state = {key: value for key, value in network.state_dict().items() if not key.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    encoder = ResNet()
    load_into(encoder, tmp_path / "old.pth")
    assert torch.equal(encoder.layer4[1].conv2.weight, network.layer4[1].conv2.weight)


def test_a_file_that_does_not_fit_is_one_sentence(tmp_path):
    torch.save(torchvision.models.resnet18().state_dict(), tmp_path / "weights.pth")
    said = r"does not fit this encoder .*size mismatch for conv1\.weight.*: try encoder=NAME"
    with pytest.raises(ConfigError, match=said) as refusal:
        load_into(ResNet(), tmp_path / "weights.pth")
    assert "\n" not in str(refusal.value)


class Command:
    """Runs a shell command when it is unpickled, through one of two functions."""

    def __init__(self, function: Any, command: str) -> None:
        self.function, self.command = function, command

    def __reduce__(self) -> Any:
        return self.function, (self.command,)


@pytest.mark.parametrize(("function", "is_read"), [(subprocess.getoutput, True), (os.system, False)])
def test_nothing_in_a_file_is_executed(function, is_read, tmp_path):
    trace, file = tmp_path / "trace", tmp_path / "weights.ckpt"
    torch.save({"state_dict": {"fc.bias": X}, "callbacks": Command(function, f"touch {trace}")}, file)
    torch.load(file, weights_only=False)
    assert trace.exists()  # the file does what it says
    trace.unlink()
    if is_read:
        assert list(read_tensors(file)) == ["state_dict.fc.bias"]
    else:
        with pytest.raises(ConfigError, match=r"cannot be read without running code that it may hold .*posix\.system"):
            read_tensors(file)
    assert not trace.exists()


@pytest.mark.parametrize(
    "content", [b"text", b"\x80", b"PK\x03\x04", pickle.dumps({"a": collections.Counter("aab"), "f": print})]
)
def test_a_file_that_cannot_be_read_safely_says_what_to_do(tmp_path, content):
    (tmp_path / "weights.pth").write_bytes(content)
    with pytest.raises(ConfigError, match=r"cannot be read without running code.*try python -c") as refusal:
        read_tensors(tmp_path / "weights.pth")
    assert "\n" not in str(refusal.value)


def test_files_without_weights_are_refused(tmp_path):
    (tmp_path / "cut.safetensors").write_bytes(b"abc")
    torch.save({"epoch": 3}, tmp_path / "empty.pth")
    infinite = ResNet(width=2)
    infinite.conv1.weight.data[0, 0, 0, 0] = torch.inf
    save_file(infinite.state_dict(), tmp_path / "infinite.safetensors")
    for name, said in (
        ("cut.safetensors", r"is damaged \("),
        ("empty.pth", "holds no tensors"),
        ("missing.pth", "there is no weights file"),
        ("infinite.safetensors", "weights that are not finite: try an earlier file"),
    ):
        with pytest.raises(ConfigError, match=said):
            load_into(ResNet(width=2), weights_path(tmp_path / name))


@pytest.mark.slow
def test_solo_learns_stem_pads_by_two(tmp_path):
    network = small_resnet18()
    network.conv1.padding = (2, 2)
    torch.save(solo_file(network), tmp_path / "solo.ckpt")
    assert "try encoder.stem=solo_learn" in load_into(ResNet(), tmp_path / "solo.ckpt", "backbone")
    encoder = ResNet(stem="solo_learn")
    assert "encoder.stem" not in load_into(encoder, tmp_path / "solo.ckpt", "backbone")
    with torch.no_grad():
        torch.testing.assert_close(encoder.eval()(X), features(network))
