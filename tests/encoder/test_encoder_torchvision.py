"""encoder=torchvision: any of its classification networks, cut before the classifier."""

import os
from urllib.error import URLError

import pytest
import torch
import torchvision

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
    encoder = torchvision_encoder(name="resnet18", pretrained=True)
    assert torch.equal(encoder.conv1.weight, network.conv1.weight)
