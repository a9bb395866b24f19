"""A trained encoder in the formats of others: ONNX, a program that torch alone loads, a folder for the Hub.

timm loads the folder where timm has the network, and this package loads every one; nothing is uploaded.
"""

import contextlib
import html
import io
import json
import re
import shutil
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from contrastive.config.targets import find_component
from contrastive.encoder.timm import size_argument
from contrastive.errors import ConfigError
from contrastive.experiment.encoder import open_encoder
from contrastive.files import atomic, write_text
from contrastive.run.files import RGB, weights_path
from contrastive.run.provenance import repository
from contrastive.run.weights import read_weights
from contrastive.text import printable

TOLD = ("image_size", "mean", "std", "classes")  # in an ONNX file's metadata, as JSON
SHAPES = {"image": {0: torch.export.Dim("N")}}  # what of an exported graph is free
TIMMS = "contrastive.encoder.timm.timm_encoder"
TORCHVISIONS = "contrastive.encoder.torchvision.torchvision_encoder"
RESNET = "contrastive.encoder.resnet.ResNet"
FIELDS = ("image_size", "mean", "std", "classes", "dataset", "loss")
RECORDED = ("data", "command", "commit", "code", "sha256")
WRITTEN = ("model.safetensors", "config.json", "README.md")


class FromPixels(nn.Module):
    """Images in [0, 1] of the encoder's size → features."""

    mean: Tensor
    std: Tensor

    def __init__(self, encoder: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("std", torch.tensor(std)[:, None, None].clamp(min=1e-6))

    def forward(self, image: Tensor) -> Tensor:
        features: Tensor = self.encoder((image - self.mean) / self.std)
        return features


def export_onnx(path: str | Path, folders: Sequence[Path] = ()) -> Path:
    """Write encoder.onnx beside the encoder's file, and return its path.

    Its input `image` is float32 (N, K, H, W) in [0, 1], of the size that the encoder was evaluated on; its output is
    `features` (N, F). N is free. onnxruntime's `get_modelmeta().custom_metadata_map` has size, mean, std and classes.

    Args:
        path: a run directory, or its encoder.safetensors alone.
        folders: of the module of a network of one's own.

    Raises:
        ConfigError: the packages of the extra `export` are not installed, the network has a part that ONNX lacks, or
            `load_encoder` refuses the file.
    """
    target = weights_path(path).with_suffix(".onnx")
    network, example = _traceable(path, folders)
    with _explained("ONNX"), warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(
            network, (example,), input_names=["image"], output_names=["features"], dynamic_shapes=SHAPES, dynamo=True
        )
    assert program is not None
    metadata = read_weights(weights_path(path))[1]
    program.model.metadata_props.update({name: json.dumps(metadata[name]) for name in TOLD})
    with atomic(target) as part:
        program.save(part)
    return target


def export_pt2(path: str | Path, folders: Sequence[Path] = ()) -> Path:
    """Write encoder.pt2 beside the encoder's file, and return its path.

        encoder = torch.export.load("encoder.pt2").module()
        features = encoder(image)  # float32 (N, K, H, W) in [0, 1] of the encoder's size → (N, F)

    Args:
        path: a run directory, or its encoder.safetensors alone.
        folders: of the module of a network of one's own.

    Raises:
        ConfigError: the network cannot be traced, or `load_encoder` refuses the file.
    """
    target = weights_path(path).with_suffix(".pt2")
    network, example = _traceable(path, folders)
    with _explained("a program of torch.export"):
        program = torch.export.export(network, (example,), dynamic_shapes=SHAPES)
    with atomic(target) as part, part.open("wb") as out:
        torch.export.save(program, out)
    return target


def _traceable(path: str | Path, folders: Sequence[Path]) -> tuple[FromPixels, Tensor]:
    """The network of an encoder's file, in eval mode, and two images to trace it with."""
    encoder, transform = open_encoder(weights_path(path), folders)
    example = torch.rand(2, len(transform.mean), *transform.size)
    return FromPixels(encoder, transform.mean, transform.std).eval(), example


@contextlib.contextmanager
def _explained(kind: str) -> Iterator[None]:
    """Turn what torch raises at a network that it cannot write, or for want of a package, into one sentence."""
    try:
        yield
    except ImportError as error:
        raise ConfigError(f"{kind} needs a package ({error}): try pip install onnx onnxscript onnxruntime") from error
    except RuntimeError as error:
        reason = " ".join(str(error.__cause__ or error).split())[:200]
        raise ConfigError(
            f"torch cannot write this network as {kind} ({reason}): "
            "try encoder.safetensors with contrastive.load_encoder"
        ) from error


def export_huggingface(path: str | Path, folder: Path, *, license: str) -> Path:
    """Write model.safetensors, config.json and README.md into `folder`, and return it.

    Args:
        path: a run directory, or its encoder.safetensors alone.
        license: identifier for the model card, such as mit.

    Raises:
        ConfigError: the folder holds other files already, or the encoder's file has no metadata.
    """
    file = weights_path(path)
    metadata = read_weights(file)[1]
    others = {item.name for item in folder.glob("*")} - {*WRITTEN}
    if others:
        raise ConfigError(f"{folder} holds other files ({min(others)}): try another DIR")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic(folder / "model.safetensors") as part:
        shutil.copyfile(file, part)
    config = {"encoder": metadata["node"], **{key: metadata[key] for key in FIELDS}, **timm_config(metadata)}
    write_text(folder / "config.json", json.dumps(config, indent=2) + "\n")
    write_text(folder / "README.md", model_card(metadata, title=folder.resolve().name, license=license))
    return folder


def timm_name(node: dict[str, Any]) -> str | None:
    """What timm calls a network; None for one that it does not have, such as a ResNet with a small stem."""
    if node["_target_"] == RESNET:
        return f"resnet{node['depth']}" if (node.get("width"), node.get("stem")) == (64, "large") else None
    name = str(node.get("name"))
    is_torchvisions = node["_target_"] == TORCHVISIONS and re.fullmatch(r"resnet\d+", name)
    return name if is_torchvisions or node["_target_"] == TIMMS else None


def timm_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """What timm reads in config.json; {} for a network that it does not have."""
    node, size = metadata["node"], metadata["image_size"]
    if (name := timm_name(node)) is None:
        return {}
    arguments = size_argument(name, node.get("image_size") or size[0]) if node["_target_"] == TIMMS else {}
    channels = len(metadata["mean"])
    return {
        "architecture": name,
        "num_classes": 0,
        "model_args": arguments if channels == RGB else {**arguments, "in_chans": channels},
        "pretrained_cfg": {
            "input_size": [channels, *size],
            "fixed_input_size": bool(arguments),
            "mean": metadata["mean"],
            "std": metadata["std"],
            "interpolation": "bilinear",
            "crop_pct": 1.0,
            "crop_mode": "center",
            "num_classes": 0,
        },
    }


def model_card(metadata: dict[str, Any], *, title: str, license: str) -> str:
    """The README.md of the folder, from the metadata of encoder.safetensors."""
    height, width = metadata["image_size"]
    figures = [f"| {plain(name)} | {value:.2f} |" for name, value in metadata["metrics"].items()]
    is_timms = bool(timm_config(metadata))
    is_ours = find_component(metadata["node"].get("_target_"), ("contrastive.encoder",)) is not None
    came_with = "its pretrained weights" if metadata["node"].get("pretrained") else "random weights"
    return _card("model").format(
        title=title,
        library="timm" if is_timms else "contrastive",
        own=_card("timm") if is_timms else "",
        install=f"git+{url}" if (url := repository()) else "PATH_OF_THE_CHECKOUT",
        license=license,
        loss=code(metadata["loss"].rpartition(".")[2]),
        dataset=code(metadata["dataset"].rpartition(".")[2]),
        epochs=metadata["encoder"]["epochs"],
        start=plain(metadata["encoder"]["weights"] or came_with),
        network="" if is_ours else ", encoder=YOUR_NETWORK",
        dtype="uint16" if metadata.get("dtype") == "uint16" else "uint8",
        channels=len(metadata["mean"]),
        features=plain(metadata["encoder"]["features"]),
        height=height,
        width=width,
        mean=_rounded(metadata["mean"]),
        std=_rounded(metadata["std"]),
        figures="\n".join(["| test split, percent where it is an accuracy | |", "|---|---|", *figures]),
        protocols="\n".join(f"- {plain(name)}: {plain(text)}" for name, text in metadata["protocol"].items()),
        n_classes=len(metadata["classes"]),
        classes=", ".join(map(plain, metadata["classes"][:20])) + (", ..." if len(metadata["classes"]) > 20 else ""),
        **{key: plain(metadata.get(key, "unknown")) for key in ("device", "torch")},
        **{key: code(metadata.get(key, "unknown")) for key in RECORDED},
    )


def _card(name: str) -> str:
    """A text of the folder cards/: the model card, or how timm loads the network."""
    return Path(__file__).with_name("cards").joinpath(f"{name}.md").read_text(encoding="utf-8")


def plain(text: str) -> str:
    """One line of Markdown that reads as the text: no markup, link, cell or front matter of its own."""
    return re.sub(r"([\\`|\[\]])", r"\\\1", html.escape(printable(text), quote=False))


def code(text: str) -> str:
    """The same between backticks, where nothing but a backtick has a meaning; of HTML no tag opens even there."""
    return printable(text).replace("`", "'").replace("<", "&lt;")


def _rounded(values: list[float]) -> str:
    return f"({', '.join(f'{value:.4f}' for value in values)})"
