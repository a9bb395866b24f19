"""Any network of timm without its classifier."""

import logging
from typing import Any

from torch import nn

from contrastive.errors import ConfigError


def timm_encoder(
    *,
    name: str = "vit_tiny_patch16_224",
    pretrained: bool = False,
    image_size: int | None = None,
    in_channels: int = 3,
) -> nn.Module:
    """A network of timm (Wightman 2019) with `num_classes=0`; its parameters keep their names.

    The features are what timm pools before the classifier: the average over positions, the class token of most ViTs.

    Args:
        name: such as vit_tiny_patch16_224, convnext_atto, resnet18.
        pretrained: start from timm's weights, downloaded when missing.
        image_size: side of the images in pixels, for networks that must know it; None = that of the data, where the
            program knows it, else the network's own.
        in_channels: K, of the images. timm adds up or repeats pretrained weights of three channels where K is another.

    Shapes: the network maps (N, K, H, W) to (N, F) with F = `dim`.

    Raises:
        ConfigError: timm is not installed, has no such network, the network does not fit the image size, or the weights
            cannot be downloaded.
    """
    timm = _package()
    if not timm.is_model(name):  # also refuses hf-hub: and local-dir: names, which read files from elsewhere
        known = timm.list_models(f"*{name.split('_')[0]}*")[:5]
        raise ConfigError(f"timm has no network {name}: try encoder.name={known[0] if known else 'resnet18'}")
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # two lines for each of its dozen tries
    try:
        size = size_argument(name, image_size)
        network: Any = timm.create_model(name, pretrained=pretrained, num_classes=0, in_chans=in_channels, **size)
    except Exception as error:  # timm raises many kinds
        said, other = " ".join(str(error).split())[:200], "encoder.image_size=224 with dataset.size=224"
        advice = "encoder.weights=FILE, a file of its weights, or encoder.pretrained=false" if pretrained else other
        raise ConfigError(f"timm cannot build {name} ({said}): try {advice}") from error
    network.dim = int(network.num_features if network.head_hidden_size is None else network.head_hidden_size)
    network.feature = f"pooled features of timm's {name}"
    return network  # type: ignore[no-any-return]


def size_argument(name: str, image_size: int | None) -> dict[str, int]:
    """What timm's constructor is told about the side of the images: nothing for networks that take any."""
    config = _package().models.get_pretrained_cfg(name)
    return {"img_size": image_size} if image_size is not None and config and config.fixed_input_size else {}


def _package() -> Any:
    try:
        import timm
    except ImportError as error:
        raise ConfigError(
            "encoder=timm needs the package timm, which is not installed: try pip install timm"
        ) from error
    return timm
