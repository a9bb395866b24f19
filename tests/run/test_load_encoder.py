"""load_encoder: a run's encoder and the transform of its images, from a directory or from one file."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder

from contrastive import load_encoder
from contrastive.dataset.folder.decode import decode
from contrastive.dataset.splits import fingerprint
from contrastive.encoder.resnet import ResNet
from contrastive.encoder.timm import timm_encoder
from contrastive.errors import ConfigError
from contrastive.experiment.encoder import SHIPPED, Transform, load_head
from contrastive.experiment.make import make
from contrastive.export.formats import model_card
from contrastive.head.mlp import MLP
from contrastive.run.weights import read_tensors, read_weights, save_run_weights, save_weights
from contrastive.training.features import extract
from contrastive.training.precision import Normalize
from contrastive.types import Data
from tests.helpers import SOUND_CONFIG, SOUND_ENVIRONMENT, encoded

NODE = {"_target_": "contrastive.encoder.resnet.ResNet", "depth": 18, "width": 2, "stem": "small"}
HEAD_NODE = {"_target_": "contrastive.head.mlp.MLP", "hidden_dim": None, "out_dim": 8}
RESULT = {
    "test": {"knn_top1": 50.0},
    "protocol": {"knn": "k=20"},
    "encoder": {"features": "average", "weights": None, "epochs": 3},
}
RUN = {
    "image_size": [8, 8], "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2], "classes": [], "dataset": "x", "loss": "y",
    "encoder": RESULT["encoder"], "metrics": RESULT["test"], "protocol": RESULT["protocol"],
}  # fmt: skip


@pytest.fixture(scope="module")
def data() -> Data:
    loaded: Data = make("dataset/digits", size=8)
    return loaded


@pytest.fixture
def run(tmp_path, data) -> tuple[Path, nn.Module, nn.Module]:
    """What a finished run leaves: its directory, its encoder in train mode and its head."""
    torch.manual_seed(0)
    encoder, head = ResNet(width=2), MLP(in_dim=16, out_dim=8)
    encoder(torch.randn(8, 3, 8, 8))  # moves the running statistics
    node = {**NODE, "weights": "/somewhere/start.pth"}
    config = {**SOUND_CONFIG, "encoder": node, "head": HEAD_NODE, "epochs": 3}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    environment = {**SOUND_ENVIRONMENT, "command": "train.py loss=nt_xent", "commit": None}
    (tmp_path / "environment.json").write_text(json.dumps(environment))
    save_run_weights(tmp_path, result=RESULT, data=data, encoder=encoder, head=head)
    return tmp_path, encoder, head


def test_the_features_are_those_that_the_run_evaluated(run, data):
    path, trained, head = run
    expected = extract(trained, data.test, Normalize(data.mean, data.std)).h
    (path / "elsewhere").mkdir()
    for place in (path, shutil.copy(path / "encoder.safetensors", path / "elsewhere")):  # the file alone is enough
        encoder, transform = load_encoder(place)
        with torch.no_grad():
            assert torch.equal(encoder(transform(data.test.image)), expected)
        assert not encoder.training
        assert encoder.dim == 16
    with torch.no_grad():
        assert torch.equal(load_head(path)(expected), head.eval()(expected))


def test_the_metadata_say_where_the_weights_come_from(run, data):
    metadata = read_weights(run[0] / "encoder.safetensors")[1]
    assert metadata["node"] == NODE  # without the file that training started from
    assert metadata["mean"] == pytest.approx(data.mean)
    assert metadata["image_size"] == [8, 8]
    assert metadata["classes"] == list(data.classes)
    assert metadata["command"] == "train.py loss=nt_xent"
    assert metadata["metrics"] == {"knn_top1": 50.0}
    assert "commit" not in metadata  # of a run outside git
    with safe_open(run[0] / "encoder.safetensors", "pt") as file:
        assert file.metadata()["format"] == "pt"


def test_the_shipped_encoder_has_the_figures_of_its_card():
    digits = make("dataset/digits")
    encoder, transform = load_encoder("digits")
    metadata = read_weights(SHIPPED / "digits/model.safetensors")[1]
    assert (metadata["command"], metadata["image_size"]) == ("train.py loss=debiased_pos tau_plus=0.1", [16, 16])
    assert metadata["data"] == fingerprint(digits)
    sets = encoded(encoder, digits, Normalize(transform.mean, transform.std)).feature_sets()
    for name, evaluator in {"knn": make("evaluator/knn", k=20), "linear": make("evaluator/linear")}.items():
        figure = evaluator(sets).test["top1"]
        assert figure == pytest.approx(metadata["metrics"][f"{name}_top1"], abs=0.6)  # two of 359 images
    card = (SHIPPED / "digits/README.md").read_text()
    cards = card, model_card(metadata, title="digits", license="mit")
    said, made = (text.partition("## Figures")[2] for text in cards)
    assert said == made  # how it is used is another matter: no code for transformers lies beside it


def test_a_vit_is_built_for_the_size_it_was_trained_on(tmp_path):
    pytest.importorskip("timm")
    vit = timm_encoder(name="test_vit", image_size=32)
    target = "contrastive.encoder.timm.timm_encoder"
    node = {"_target_": target, "name": "test_vit", "pretrained": True, "image_size": None}
    save_weights(tmp_path / "encoder.safetensors", vit, node=node, run={**RUN, "image_size": [32, 32]})
    encoder, transform = load_encoder(tmp_path)  # downloads nothing
    image = torch.randint(0, 256, (2, 3, 40, 50), dtype=torch.uint8)
    with torch.no_grad():
        assert torch.equal(encoder(transform(image)), vit.eval()(transform(image)))


EVIL = {"_target_": "os.system", "command": "true"}


@pytest.mark.parametrize("node", [EVIL, {**NODE, "width": EVIL}], ids=str)
def test_only_encoders_of_this_package_are_built_from_a_file(node, tmp_path):
    encoder = ResNet(width=2)
    save_weights(tmp_path / "encoder.safetensors", encoder, node=node, run=RUN)
    with pytest.raises(ConfigError, match="try load_encoder\\(PATH, encoder=module\\)"):
        load_encoder(tmp_path)
    own, _ = load_encoder(tmp_path, encoder=ResNet(width=2))
    assert torch.equal(own.conv1.weight, encoder.conv1.weight)


@pytest.mark.parametrize(
    ("old", "new"), [(b"[0.", b"[0!"), (b"nt_xent", b"nt_xenu"), (b'"mean":"[0.', b'"mean":"[1.'), (None, b"x")]
)
def test_damaged_files_are_never_used(run, old, new):
    """In the metadata, or in the last tensor."""
    file = run[0] / "encoder.safetensors"
    content = file.read_bytes()
    old = old or content[-100:-99]
    i = content.rindex(old) if len(old) == 1 else content.index(old)
    file.write_bytes(content[:i] + new + content[i + len(old) :])
    for use in (load_encoder, read_weights, read_tensors):
        with pytest.raises(
            ConfigError, match=r"is damaged or another run's: try copying it again, or remove result\.json"
        ):
            use(file)
    file.write_bytes(content[:-50])
    with pytest.raises(ConfigError, match=r"is damaged \("):
        load_encoder(file)


def test_weights_alone_are_no_encoder(tmp_path):
    save_file(ResNet(width=2).state_dict(), tmp_path / "bare.safetensors")
    with pytest.raises(ConfigError, match="does not say which encoder it belongs to"):
        load_encoder(tmp_path / "bare.safetensors")


def plain_transform(size: tuple[int, int]) -> Transform:
    return Transform(size=size, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))


def test_picture_becomes_the_pixels_of_an_image_folder(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (30, 41, 4), dtype=np.uint8)
    Image.fromarray(pixels, "RGBA").save(tmp_path / "image.png")
    expected = torch.from_numpy(decode((tmp_path / "image.png").read_bytes(), 12).copy())
    with Image.open(tmp_path / "image.png") as picture:
        result = plain_transform((12, 12))([picture, Image.new("L", (20, 30))])
    assert torch.equal((result[0] * 255).round().to(torch.uint8), expected)
    assert result.shape == (2, 3, 12, 12)


@pytest.mark.parametrize(("shape", "size"), [((3, 30, 41), (12, 12)), ((2, 3, 41, 30), (10, 16))])
def test_tensors_of_any_size_are_resized_and_cropped(shape, size):
    result = plain_transform(size)(torch.full(shape, 51, dtype=torch.uint8))
    assert result.shape == (shape[0] if len(shape) == 4 else 1, 3, *size)
    torch.testing.assert_close(result, torch.full_like(result, 0.2))


@pytest.mark.parametrize("image", [torch.rand(3, 8, 8), torch.zeros(8, 8, 3, dtype=torch.uint8)])
def test_other_tensors_are_refused(image):
    with pytest.raises(ConfigError, match="takes uint8 images"):
        plain_transform((8, 8))(image)


def test_the_transform_takes_paths_and_arrays_of_numpy(tmp_path: Path):
    encoder, transform = load_encoder("digits")
    pixels = np.random.default_rng(0).integers(0, 255, (20, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    expected = transform(Image.fromarray(pixels))
    for image in (tmp_path / "a.png", str(tmp_path / "a.png"), pixels):
        assert torch.equal(transform(image), expected)
    assert torch.equal(transform([tmp_path / "a.png", pixels]), expected.repeat(2, 1, 1, 1))
    assert transform(pixels[..., 0]).shape == expected.shape  # gray
    (tmp_path / "class").mkdir()
    (tmp_path / "a.png").rename(tmp_path / "class/a.png")
    images, _ = next(iter(DataLoader(ImageFolder(str(tmp_path), transform=transform))))
    with torch.no_grad():
        assert torch.equal(encoder(images), encoder(expected))
        assert torch.equal(encoder(x=expected), encoder(expected))
