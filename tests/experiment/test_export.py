"""python -m contrastive export: ONNX, a program, a folder for the Hub; and the file itself in torchvision's network."""

import json
import re
from unittest.mock import Mock

import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file
from torchvision.models import resnet18

from contrastive import load_encoder
from contrastive.cli.export import main
from contrastive.encoder.resnet import ResNet
from contrastive.experiment.encoder import build_trusted
from contrastive.export.formats import export_huggingface
from contrastive.run import provenance
from contrastive.run.files import encoder_node
from contrastive.run.weights import save_weights
from tests.helpers import ROOT, further

RUN = {
    "image_size": [8, 8], "mean": [0.1, 0.2, 0.3], "std": [0.2, 0.3, 0.4], "classes": ["ant", "bee"],
    "dataset": "contrastive.dataset.digits.digits", "loss": "contrastive.loss.nt_xent.NTXent", "data": "d4d4",
    "encoder": {"features": "average of layer4", "weights": None, "epochs": 3}, "metrics": {"knn_top1": 51.234},
    "protocol": {"knn": "cosine, k=20"}, "command": "train.py loss=nt_xent", "code": "c0de",
}  # fmt: skip
RESNET = {"_target_": "contrastive.encoder.resnet.ResNet", "depth": 18, "width": 64, "stem": "large"}
NARROW = {**RESNET, "width": 2, "stem": "small"}
CONVNET = {"_target_": "contrastive.encoder.simple_convnet.SimpleConvNet", "width": 2}
TORCHVISION = {"_target_": "contrastive.encoder.torchvision.torchvision_encoder", "name": "resnet18"}
TIMM = {"_target_": "contrastive.encoder.timm.timm_encoder", "image_size": None}


def saved(path, node=NARROW, side=8):
    """The encoder of a run directory that holds its file alone."""
    torch.manual_seed(0)
    encoder = build_trusted(encoder_node(node, side), "encoder")
    encoder(torch.randn(4, 3, side, side))
    save_weights(path / "encoder.safetensors", encoder, node=node, run={**RUN, "image_size": [side, side]})
    return encoder.eval()


def check_features(program, run):
    """`program` maps images in [0, 1] of other batches than it was traced with to the features of the run."""
    encoder, transform = load_encoder(run)
    for n in (1, 5):
        image = torch.randint(0, 256, (n, 3, 8, 8), dtype=torch.uint8)
        with torch.no_grad():
            torch.testing.assert_close(program(image / 255), encoder(transform(image)), atol=1e-4, rtol=1e-4)


@pytest.mark.slow
def test_onnx_gives_the_same_features(tmp_path, capsys):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    saved(tmp_path)
    assert main([str(tmp_path), "--onnx"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "encoder.onnx")
    session = runtime.InferenceSession(tmp_path / "encoder.onnx", providers=["CPUExecutionProvider"])
    told = {name: json.loads(text) for name, text in session.get_modelmeta().custom_metadata_map.items()}
    assert told == {"image_size": [8, 8], "classes": RUN["classes"], "mean": RUN["mean"], "std": RUN["std"]}
    check_features(lambda image: torch.from_numpy(session.run(["features"], {"image": image.numpy()})[0]), tmp_path)


@pytest.mark.parametrize("node", [NARROW, *further(CONVNET)], ids=["narrow", "convnet"])
def test_torch_alone_loads_the_program(node, tmp_path, capsys):
    saved(tmp_path, node)
    assert main([str(tmp_path), "--pt2"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "encoder.pt2")
    check_features(torch.export.load(tmp_path / "encoder.pt2").module(), tmp_path)


@pytest.mark.parametrize("node", [RESNET, {**RESNET, "stem": "small"}, TORCHVISION], ids=["large", "small", "own"])
def test_torchvisions_network_loads_the_file(node, tmp_path):
    encoder = saved(tmp_path, node, side=16)
    network = resnet18()
    if node.get("stem") == "small":
        page = (ROOT / "docs/encoders.md").read_text()
        exec("\n".join(re.findall(r"^network\.(?:conv1|maxpool) = .*", page, re.MULTILINE)))
    keys = network.load_state_dict(load_file(tmp_path / "encoder.safetensors"), strict=False)
    assert (keys.missing_keys, keys.unexpected_keys) == (["fc.weight", "fc.bias"], [])
    network.fc = torch.nn.Identity()
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(network.eval()(x), encoder(x))


def test_the_folder_for_the_hub_has_weights_config_and_card(tmp_path, capsys):
    encoder, folder = saved(tmp_path), tmp_path / "ants"
    assert main([str(tmp_path), "--huggingface", str(folder), "--license", "mit"]) == 0
    assert capsys.readouterr().out.strip() == str(folder)
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", "config.json", "README.md"}
    loaded, _ = load_encoder(folder / "model.safetensors")
    assert torch.equal(loaded.conv1.weight, encoder.conv1.weight)
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert file.metadata()["format"] == "pt"
    assert json.loads((folder / "config.json").read_text())["encoder"]["width"] == 2
    assert "architecture" not in json.loads((folder / "config.json").read_text())  # timm has no such stem
    card = (folder / "README.md").read_text()
    assert "timm" not in card
    assert "library_name: contrastive" in card
    assert "The package `contrastive` on PyPI is another project" in card
    assert yaml.safe_load(card.split("---")[1])["license"] == "mit"
    for text in ("| knn_top1 | 51.23 |", "cosine, k=20", "loss=nt_xent", "d4d4", "ant, bee", "(0.1000, 0.2000"):
        assert text in card
    assert main([str(tmp_path), "--huggingface", str(folder)]) == 0  # written again
    (folder / "notes.txt").write_text("mine")
    assert main([str(tmp_path), "--huggingface", str(folder)]) == 2
    assert "notes.txt" in capsys.readouterr().err


def test_a_model_card_shows_what_a_stranger_wrote_as_text(tmp_path):
    evil = "x\n---\nlicense: mine\n---\n<script>x</script> | ![y](http://z) ` \x1b[31m"
    run = {**RUN, **dict.fromkeys(("dataset", "loss", "command", "device", "data", "dtype"), evil), "classes": [evil]}
    run |= {
        "metrics": {evil: 1.0},
        "protocol": {evil: evil},
        "encoder": {"features": evil, "weights": evil, "epochs": 1},
    }
    save_weights(tmp_path / "encoder.safetensors", ResNet(width=2), node={**RESNET, "width": 2}, run=run)
    card = (export_huggingface(tmp_path, tmp_path / "hub", license="mit") / "README.md").read_text()
    assert [i for i, line in enumerate(card.splitlines()) if line == "---"] == [0, 5]
    outside = re.sub(r"(?<!\\)`[^`\n]*`", "", card.partition("# hub")[2].replace("```", "").replace("[0, 1]", ""))
    assert "\x1b" not in card
    assert "<script" not in card
    assert not re.findall(r"(?<!\\)[\[\]`]", outside)
    assert {line.replace(r"\|", "").count("|") for line in card.splitlines() if line.startswith("|")} == {3}


def test_the_card_says_how_to_install_this_package_without_a_token(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "_git", lambda root, *words: "https://me:token@example.com/us/it.git")
    saved(tmp_path)
    card = (export_huggingface(tmp_path, tmp_path / "hub", license="mit") / "README.md").read_text()
    assert "pip install git+https://example.com/us/it.git\n" in card


@pytest.mark.parametrize(
    "node",
    [RESNET, TORCHVISION, TIMM | {"name": "test_vit"}, TIMM | {"name": "test_resnet"}],
    ids=["resnet", "torchvision", "vit", "timm"],
)
def test_timm_loads_the_folder_for_the_hub(node, tmp_path):
    timm = pytest.importorskip("timm")
    encoder = saved(tmp_path, node, side=32)
    folder = export_huggingface(tmp_path, tmp_path / "hub", license="mit")
    network = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    settings = timm.data.resolve_model_data_config(network)
    assert (tuple(settings["input_size"]), settings["mean"]) == ((3, 32, 32), RUN["mean"])
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(network(x), encoder(x))
    assert "library_name: timm" in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("words", "fault", "said"),
    [
        ([".", "--onnx"], ImportError("No module named 'onnxscript'"), "try pip install onnx onnxscript onnxruntime"),
        ([".", "--onnx"], torch.onnx.OnnxExporterError("no\nODD"), "as ONNX (no ODD): try encoder.safetensors"),
        ([".", "--huggingface", "FILE"], None, "FILE: file exists: "),
        (["."], None, "try --onnx"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence(tmp_path, monkeypatch, capsys, words, fault, said):
    saved(tmp_path)
    (tmp_path / "FILE").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.onnx, "export", Mock(side_effect=fault))
    assert main(words) == 2
    assert said in capsys.readouterr().err
