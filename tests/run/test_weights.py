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
from contrastive.experiment.make import make
from contrastive.run.files import weights_path
from contrastive.run.foreign import load_into, read_tensors

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


class Dcl(nn.Module):
    """chingyaoc/DCL model.py: the children of the ResNet but max-pool and classifier in nn.Sequential, then a head."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        children = [child for name, child in network.named_children() if name not in ("maxpool", "fc")]
        self.f, self.g = nn.Sequential(*children), nn.Linear(512, 128)


class SupConBlock(nn.Module):
    """The names of a block of HobbitLong/SupContrast and of lightly: the shortcut is not called downsample."""

    def __init__(self, block: Any) -> None:
        super().__init__()
        self.conv1, self.bn1, self.conv2, self.bn2 = block.conv1, block.bn1, block.conv2, block.bn2
        self.shortcut = block.downsample or nn.Sequential()


class SupCon(nn.Module):
    """HobbitLong/SupContrast networks/resnet_big.py: encoder and head."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.encoder, self.head = nn.Module(), nn.Linear(512, 128)
        self.encoder.conv1, self.encoder.bn1 = network.conv1, network.bn1
        for name in ("layer1", "layer2", "layer3", "layer4"):
            setattr(self.encoder, name, nn.Sequential(*map(SupConBlock, getattr(network, name))))


def prefixed(network: nn.Module, prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + key: value for key, value in network.state_dict().items()}


def dcl_file(network: nn.Module) -> Any:
    return nn.DataParallel(Dcl(network)).state_dict()


def supcon_file(network: nn.Module) -> Any:
    model = SupCon(network)
    model.encoder = nn.DataParallel(model.encoder)
    options = argparse.Namespace(model="resnet18", learning_rate=0.05)
    return {"opt": options, "model": model.state_dict(), "optimizer": {"state": {}}, "epoch": 3}


def solo_file(network: nn.Module) -> Any:
    state = prefixed(network, "backbone.") | prefixed(network, "momentum_backbone.")
    state |= {"projector.0.weight": torch.zeros(2, 2), "classifier.bias": torch.zeros(10)}
    hyper_parameters = {"cfg": argparse.Namespace(method="simclr"), "folder": pathlib.PurePosixPath("data")}
    return {"state_dict": state, "hyper_parameters": hyper_parameters, "callbacks": {}, "epoch": 3}


def moco_file(network: nn.Module) -> Any:
    state = prefixed(network, "module.encoder_q.") | prefixed(small_resnet18(), "module.encoder_k.")
    return {"epoch": 1, "arch": "resnet18", "state_dict": state | {"module.queue": torch.zeros(128, 8)}}


FILES = {
    "torchvision": (lambda network: network.state_dict(), "", "fc (2)"),
    "DCL or HCL": (dcl_file, " below module.f", "g (2)"),
    "SupContrast": (supcon_file, " below model.encoder.module", "head (2)"),
    "solo-learn": (
        solo_file,
        " below state_dict.backbone",
        "fc (2), momentum_backbone (122), projector (1), classifier (1)",
    ),
    "MoCo": (moco_file, " below state_dict.module.encoder_q", "fc (2), encoder_k (122), queue (1)"),
    "compiled": (lambda network: prefixed(network, "_orig_mod."), " below _orig_mod", "fc (2)"),
}


@pytest.mark.parametrize("name", FILES)
def test_features_are_those_of_the_project_of_the_file(name, tmp_path):
    content, place, left_out = FILES[name]
    network = small_resnet18()
    torch.save(content(network), tmp_path / "weights.pth")
    encoder = ResNet()
    line = load_into(encoder, tmp_path / "weights.pth")
    assert f"120 tensors{place}; left out: {left_out}" in line
    with torch.no_grad():
        torch.testing.assert_close(encoder.eval()(X), features(network))


@pytest.mark.slow
def test_bottlenecks_in_a_sequential_are_renamed_too(tmp_path):
    network = torchvision.models.resnet50()
    network.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    torch.save(dcl_file(network), tmp_path / "dcl.pth")
    encoder = ResNet(depth=50)
    load_into(encoder, tmp_path / "dcl.pth")
    theirs = {key: value for key, value in network.state_dict().items() if not key.startswith("fc.")}
    assert theirs.keys() == encoder.state_dict().keys()
    assert all(torch.equal(value, encoder.state_dict()[key]) for key, value in theirs.items())


@pytest.mark.slow
def test_any_other_prefix_can_be_typed(tmp_path):
    network = small_resnet18()
    torch.save({"model": prefixed(network, "online.net.") | prefixed(network, "target.net.")}, tmp_path / "byol.pth")
    encoder = ResNet()
    with pytest.raises(ConfigError, match=r"several networks that fit.*try encoder\.prefix=model\.online\.net or"):
        load_into(encoder, tmp_path / "byol.pth")
    with pytest.raises(ConfigError, match=r"begin with model\.online, model\.target: try encoder\.prefix=PREFIX"):
        load_into(encoder, tmp_path / "byol.pth", "student")
    for prefix in ("online.net", "online.net.", "model.online.net."):
        load_into(encoder, tmp_path / "byol.pth", prefix)
    with torch.no_grad():
        torch.testing.assert_close(encoder.eval()(X), features(network))


@pytest.mark.parametrize(("trained", "follows"), [("model.", "model_ema."), ("a.encoder.", "a.target.")])
def test_of_a_network_and_one_that_follows_it_the_trained_one_is_taken(trained, follows, tmp_path):
    network = ResNet(width=2)
    torch.save(prefixed(ResNet(width=2), follows) | prefixed(network, trained), tmp_path / "two.pth")
    encoder = ResNet(width=2)
    load_into(encoder, tmp_path / "two.pth")
    assert torch.equal(encoder.conv1.weight, network.conv1.weight)


def test_prefixes_that_the_encoder_has_are_kept(tmp_path):
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.module = nn.Linear(3, 4), nn.Linear(4, 5)

    source, target = Wrapped(), Wrapped()
    torch.save(source.state_dict(), tmp_path / "own.pth")
    load_into(target, tmp_path / "own.pth")
    assert all(torch.equal(a, b) for a, b in zip(source.parameters(), target.parameters(), strict=True))


def test_safetensors_and_a_run_directory_are_read(tmp_path):
    network = make("encoder/resnet18_narrow")
    save_file(network.state_dict(), tmp_path / "encoder.safetensors")
    encoder = make("encoder/resnet18_narrow")
    load_into(encoder, weights_path(tmp_path))
    assert torch.equal(encoder.conv1.weight, network.conv1.weight)
    assert weights_path(tmp_path / "encoder.safetensors") == weights_path(tmp_path)


def test_files_before_batches_were_counted_are_read(tmp_path):
    network = small_resnet18()
    state = {key: value for key, value in network.state_dict().items() if not key.endswith("num_batches_tracked")}
    torch.save(state, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    encoder = ResNet()
    load_into(encoder, tmp_path / "old.pth")
    assert torch.equal(encoder.layer4[1].conv2.weight, network.layer4[1].conv2.weight)


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (lambda: torchvision.models.resnet18(), r"size mismatch for conv1\.weight"),
        (lambda: torchvision.models.resnet50(), r"[Uu]nexpected key"),
    ],
    ids=["stem", "depth"],
)
def test_a_file_that_does_not_fit_is_one_sentence(network, said, tmp_path):
    torch.save(network().state_dict(), tmp_path / "weights.pth")
    with pytest.raises(ConfigError, match=f"does not fit this encoder .*{said}.*: try encoder=NAME") as refusal:
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
        ("cut.safetensors", r"not a complete \.safetensors file"),
        ("empty.pth", "holds no tensors"),
        ("missing.pth", "there is no weights file"),
        ("infinite.safetensors", "weights that are not finite: try an earlier file"),
    ):
        with pytest.raises(ConfigError, match=said):
            load_into(ResNet(width=2), weights_path(tmp_path / name))


def test_a_network_without_relu_after_bn1_is_for_its_own_stem_alone(tmp_path):
    """As lightly saves its own ResNet: the children numbered, the ReLU not among them."""
    trained = ResNet(width=2)
    children = [trained.conv1, trained.bn1, trained.layer1, trained.layer2, trained.layer3, trained.layer4]
    torch.save(nn.Sequential(*children).state_dict(), tmp_path / "numbered.pth")
    torch.save(trained.state_dict(), tmp_path / "named.pth")
    for name, stem, other in (("numbered", "lightly", "small"), ("named", "small", "lightly")):
        encoder = ResNet(width=2, stem=stem)
        load_into(encoder, tmp_path / f"{name}.pth")
        assert torch.equal(encoder.layer4[1].conv2.weight, trained.layer4[1].conv2.weight)
        with pytest.raises(ConfigError, match=rf"has no ReLU after bn1: try encoder=resnet18 encoder\.stem={stem}"):
            load_into(ResNet(width=2, stem=other), tmp_path / f"{name}.pth")


def test_lightlys_resnet_has_a_stem_of_its_own(tmp_path):
    lightly = pytest.importorskip("lightly.models")
    network = lightly.ResNetGenerator("resnet-18")
    backbone = nn.Sequential(*list(network.children())[:-1], nn.AdaptiveAvgPool2d(1))
    shaken(backbone)
    torch.save({"state_dict": prefixed(backbone, "backbone.")}, tmp_path / "lightly.ckpt")
    with pytest.raises(ConfigError, match=r"no ReLU after bn1: try encoder=resnet18 encoder\.stem=lightly"):
        load_into(ResNet(), tmp_path / "lightly.ckpt")
    encoder = ResNet(stem="lightly")
    load_into(encoder, tmp_path / "lightly.ckpt")
    with torch.no_grad():
        torch.testing.assert_close(encoder.eval()(X), backbone(X).flatten(1))
    torch.save(small_resnet18().state_dict(), tmp_path / "weights.pth")
    with pytest.raises(ConfigError, match=r"try encoder\.stem=small"):
        load_into(encoder, tmp_path / "weights.pth")


@pytest.mark.slow
def test_solo_learns_stem_pads_by_two(tmp_path):
    network = small_resnet18()
    network.conv1.padding = (2, 2)
    torch.save(solo_file(network), tmp_path / "solo.ckpt")
    assert "try encoder.stem=solo_learn" in load_into(ResNet(), tmp_path / "solo.ckpt")
    encoder = ResNet(stem="solo_learn")
    assert "encoder.stem" not in load_into(encoder, tmp_path / "solo.ckpt")
    with torch.no_grad():
        torch.testing.assert_close(encoder.eval()(X), features(network))
