"""encoder=timm: any of its networks without the classifier."""

import logging
import sys

import pytest
import torch

from contrastive.encoder.timm import timm_encoder
from contrastive.errors import ConfigError
from contrastive.experiment.components import build_encoder
from contrastive.experiment.make import make
from contrastive.testing.components import check_encoder


def test_what_to_install_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match="try pip install timm"):
        timm_encoder()


@pytest.mark.parametrize(("name", "size"), [("vit_tiny_patch16_224", 32), ("mobilenetv3_small_050", 32)])
def test_they_are_encoders_of_small_images(name, size):
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


def test_the_size_is_that_of_the_dataset():
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


def test_weights_that_cannot_be_downloaded_are_one_sentence(monkeypatch, capfd):
    timm = pytest.importorskip("timm")

    def no_network(*_: object, **__: object) -> None:
        logging.getLogger("huggingface_hub.utils._http").warning("Retrying in 1s [Retry 1/5].")
        raise OSError("no\nnetwork")

    monkeypatch.setattr(timm, "create_model", no_network)
    with pytest.raises(ConfigError, match=r"timm cannot build .* \(no network\): try encoder\.weights=FILE"):
        timm_encoder(pretrained=True)
    assert "Retry" not in "".join(capfd.readouterr())
