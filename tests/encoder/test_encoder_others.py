"""encoder=torchvision and encoder=timm: any of their classification networks, cut before the classifier."""

import logging
import os
import sys
from urllib.error import URLError

import pytest
import torch
import torchvision

from contrastive.encoder.timm import timm_encoder
from contrastive.encoder.torchvision import torchvision_encoder
from contrastive.errors import ConfigError
from contrastive.experiment.components import build_encoder
from contrastive.experiment.make import make
from contrastive.testing.components import check_encoder
from tests.helpers import further


@pytest.mark.parametrize(
    ("name", "dim", "layer"),
    [
        ("resnet18", 512, "fc"),
        *further(("mobilenet_v3_small", 576, "classifier.0")),
        ("shufflenet_v2_x0_5", 1024, "fc"),
        *further(("efficientnet_b0", 1280, "classifier.1"), ("convnext_tiny", 768, "classifier.2")),
    ],
)
def test_the_features_are_the_input_of_the_classifier(name, dim, layer):
    torch.manual_seed(0)
    encoder = make("encoder/torchvision", name=name).eval()
    whole = torchvision.models.get_model(name, weights=None)
    whole.load_state_dict(encoder.state_dict(), strict=False)
    inputs = []
    whole.get_submodule(layer).register_forward_hook(lambda module, args, output: inputs.append(args[0]))
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        whole.eval()(x)
        torch.testing.assert_close(encoder(x), inputs[0])
    assert encoder.dim == dim
    check_encoder(encoder, size=32)
    assert encoder.feature == f"input of {layer} of torchvision's {name}"


def test_a_vit_is_built_for_the_images_of_the_dataset(monkeypatch):
    sizes, get_model = [], torchvision.models.get_model

    def record(name, weights, **options):
        sizes.append(options)
        return get_model("resnet18", weights=weights)

    monkeypatch.setattr(torchvision.models, "get_model", record)
    node = {"_target_": "contrastive.encoder.torchvision.torchvision_encoder", "image_size": None}
    build_encoder({**node, "name": "vit_b_16"}, 48)
    build_encoder({**node, "name": "resnet18"}, 48)
    build_encoder({**node, "name": "vit_b_16", "image_size": 32}, 48)
    assert sizes == [{"image_size": 48}, {}, {"image_size": 32}]


def test_weights_that_cannot_be_downloaded_are_one_sentence(monkeypatch, tmp_path):
    def no_network(*_: object, **__: object) -> None:
        raise URLError("no network")

    monkeypatch.setattr(torch.hub, "download_url_to_file", no_network)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"cannot be used .*no network.*try encoder\.weights=FILE"):
        torchvision_encoder(pretrained=True)


def test_downloaded_weights_that_are_a_program_are_not_run(tmp_path, monkeypatch):
    class Trap:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/EVIL",)

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    file = tmp_path / "hub/checkpoints/resnet18-f37072fd.pth"
    file.parent.mkdir(parents=True)
    torch.save({"fc.bias": Trap()}, file)
    with pytest.raises(ConfigError, match=r"weights of resnet18 cannot be used \(Weights only load failed"):
        torchvision_encoder(name="resnet18", pretrained=True)
    assert not (tmp_path / "EVIL").exists()
    network = torchvision.models.resnet18(weights=None)
    torch.save(network.state_dict(), file)
    assert torch.equal(torchvision_encoder(name="resnet18", pretrained=True).conv1.weight, network.conv1.weight)


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match="try pip install timm"):
        timm_encoder()


@pytest.mark.parametrize(("name", "size"), [("vit_tiny_patch16_224", 32), ("mobilenetv3_small_050", 32)])
def test_networks_of_timm_are_encoders_of_small_images(name, size):
    pytest.importorskip("timm")
    check_encoder(make("encoder/timm", name=name, image_size=size), size=size)


def test_the_features_are_what_timm_pools():
    timm = pytest.importorskip("timm")
    encoder = timm_encoder(name="test_vit", image_size=32).eval()
    whole = timm.create_model("test_vit", img_size=32, num_classes=10).eval()
    assert {*whole.state_dict()} - {*encoder.state_dict()} == {"head.weight", "head.bias"}
    whole.load_state_dict(encoder.state_dict(), strict=False)
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        expected = whole.forward_head(whole.forward_features(x), pre_logits=True)
        torch.testing.assert_close(encoder(x), expected)
    assert expected.shape == (2, encoder.dim)


def test_the_size_of_a_vit_is_that_of_the_dataset():
    pytest.importorskip("timm")
    node = {"_target_": "contrastive.encoder.timm.timm_encoder", "name": "vit_tiny_patch16_224", "image_size": None}
    encoder = build_encoder(node, 48)
    assert encoder(torch.zeros(2, 3, 48, 48)).shape == (2, encoder.dim)
    with pytest.raises(ConfigError, match=r"try encoder\.image_size=48"):
        build_encoder({**node, "image_size": 32}, 48)


@pytest.mark.parametrize("name", ["no_such_network", "hf-hub:someone/something"])
def test_other_names_are_refused(name):
    pytest.importorskip("timm")
    with pytest.raises(ConfigError, match="timm has no network"):
        timm_encoder(name=name)


def test_weights_that_timm_cannot_download_are_one_sentence(monkeypatch, capfd):
    timm = pytest.importorskip("timm")

    def no_network(*_: object, **__: object) -> None:
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s [Retry 1/5].")
        raise OSError("no\nnetwork")

    monkeypatch.setattr(timm, "create_model", no_network)
    with pytest.raises(ConfigError, match=r"timm cannot build .* \(no network\): try encoder\.weights=FILE"):
        timm_encoder(pretrained=True)
    assert "Retry" not in "".join(capfd.readouterr())
