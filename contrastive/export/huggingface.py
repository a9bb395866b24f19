"""A folder in the layout of the Hugging Face Hub, with a model card written from the run; nothing is uploaded.

timm loads it where it has the network: torchvision's ResNets with their own stem, and networks of timm.
"""

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

from contrastive.encoder.timm import size_argument
from contrastive.errors import ConfigError
from contrastive.experiment.encoder import with_defaults
from contrastive.files import atomic, write_text
from contrastive.run.files import RGB, weights_path
from contrastive.run.weights import read_weights
from contrastive.text import printable

OURS = "contrastive.encoder.resnet.ResNet"
TORCHVISIONS = "contrastive.encoder.torchvision.torchvision_encoder"
TIMMS = "contrastive.encoder.timm.timm_encoder"
FIELDS = ("image_size", "mean", "std", "classes", "dataset", "loss")
RECORDED = ("data", "command", "commit", "code", "sha256")
CARD = """\
---
license: {license}
library_name: {library}
pipeline_tag: image-feature-extraction
tags: [contrastive, contrastive-learning, self-supervised-learning]
---

# {title}

An image encoder. Loss: `{loss}`. Data: `{dataset}`. Epochs: {epochs}. Start: {start}. Features: {features}.

## Use

The package is `debiased-contrastive`, in a checkout of its project: `pip install PATH_OF_THE_CHECKOUT`.
`contrastive` on PyPI is another project.

```python
from contrastive import load_encoder

encoder, transform = load_encoder("model.safetensors")
features = encoder(transform(image))  # a PIL image, or {dtype} (N, {channels}, H, W)
```
{timm}
Images are resized to {height} x {width} pixels, scaled to [0, 1] and standardized with mean {mean} and standard
deviation {std}.

## Figures

{figures}

{protocols}

## Data

`{dataset}`, {n_classes} classes: {classes}. sha256 of images and labels: `{data}`. The weights may be subject to the
terms of that data; this card does not know them.

## Training

Command: `{command}`. Commit `{commit}`, code `{code}`. Device: {device}; torch {torch}. sha256 of weights and
metadata: `{sha256}`.
"""
TIMM_USE = """
Or with timm:

```python
import timm

encoder = timm.create_model("local-dir:PATH", pretrained=True).eval()  # PATH is this folder; hf-hub:NAME on the Hub
```
"""


def export_huggingface(path: str | Path, folder: Path, *, license: str) -> Path:
    """Write model.safetensors, config.json and README.md into `folder`, and return it.

    Args:
        path: a run directory, or its encoder.safetensors alone.
        license: identifier for the model card, such as mit.

    Raises:
        ConfigError: the folder holds other files already, or the encoder's file has no metadata.
    """
    file = weights_path(path)
    metadata = read_weights(file).metadata
    others = {item.name for item in folder.glob("*")} - {"model.safetensors", "config.json", "README.md"}
    if others:
        raise ConfigError(f"{folder} holds other files ({min(others)}): try another DIR")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic(folder / "model.safetensors") as part:
        shutil.copyfile(file, part)
    config = {"encoder": metadata["node"], **{key: metadata[key] for key in FIELDS}, **timm_config(metadata)}
    write_text(folder / "config.json", json.dumps(config, indent=2) + "\n")
    write_text(folder / "README.md", model_card(metadata, title=folder.resolve().name, license=license))
    return folder


def timm_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """What timm reads in config.json; {} for a network that timm does not have, such as a ResNet with a small stem."""
    node, size = with_defaults(metadata["node"]), metadata["image_size"]
    name = str(node.get("name"))
    is_whole = node["_target_"] == OURS and (node["width"], node["stem"]) == (64, "large")
    is_resnet = node["_target_"] == TORCHVISIONS and re.fullmatch(r"resnet\d+", name) and node["stem"] is None
    if not (is_whole or is_resnet or node["_target_"] == TIMMS):
        return {}
    arguments = size_argument(name, node["image_size"] or size[0]) if node["_target_"] == TIMMS else {}
    channels = len(metadata["mean"])
    return {
        "architecture": f"resnet{node['depth']}" if is_whole else name,
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
    metrics = metadata["metrics"].items()
    figures = [
        "| test split, percent where it is an accuracy | |",
        "|---|---|",
        *(f"| {plain(name)} | {value:.2f} |" for name, value in metrics),
    ]
    is_timms = bool(timm_config(metadata))
    came_with = "its pretrained weights" if metadata["node"].get("pretrained") else "random weights"
    return CARD.format(
        title=title,
        library="timm" if is_timms else "contrastive",
        timm=TIMM_USE if is_timms else "",
        license=license,
        loss=code(metadata["loss"].rpartition(".")[2]),
        dataset=code(metadata["dataset"].rpartition(".")[2]),
        epochs=metadata["encoder"]["epochs"],
        start=plain(metadata["encoder"]["weights"] or came_with),
        dtype="uint16" if metadata.get("dtype") == "uint16" else "uint8",
        channels=len(metadata["mean"]),
        features=plain(metadata["encoder"]["features"]),
        height=height,
        width=width,
        mean=_rounded(metadata["mean"]),
        std=_rounded(metadata["std"]),
        figures="\n".join(figures),
        protocols="\n".join(f"- {plain(name)}: {plain(text)}" for name, text in metadata["protocol"].items()),
        n_classes=len(metadata["classes"]),
        classes=", ".join(map(plain, metadata["classes"][:20])) + (", ..." if len(metadata["classes"]) > 20 else ""),
        **{key: plain(metadata.get(key, "unknown")) for key in ("device", "torch")},
        **{key: code(metadata.get(key, "unknown")) for key in RECORDED},
    )


def plain(text: str) -> str:
    """One line of Markdown that reads as the text: no markup, link, cell or front matter of its own."""
    return re.sub(r"([\\`|\[\]])", r"\\\1", html.escape(printable(text), quote=False))


def code(text: str) -> str:
    """The same between backticks, where nothing but a backtick has a meaning; of HTML no tag opens even there."""
    return printable(text).replace("`", "'").replace("<", "&lt;")


def _rounded(values: list[float]) -> str:
    return f"({', '.join(f'{value:.4f}' for value in values)})"
