"""Any classification network of torchvision without its classifier."""

from itertools import takewhile
from pickle import UnpicklingError
from typing import Any

import torch
from torch import nn
from torchvision import models

from contrastive.errors import ConfigError

CLASSIFIERS = ("fc", "classifier", "head", "heads")  # what torchvision calls the last module of its networks
WITH_AUXILIARY_OUTPUTS = ("googlenet", "inception_v3")  # they return several tensors while they train
OF_ONE_SIZE = "vit_"  # networks whose constructor must know the side of the images


def torchvision_encoder(
    *,
    name: str = "resnet18",
    pretrained: bool = False,
    image_size: int | None = None,
    in_channels: int = 3,
) -> nn.Module:
    """A network of `torchvision.models` up to its first classification layer; its parameters keep their names.

    The features are the input of the first linear layer of the classifier, without dropout: the pooled channels of
    ResNets, MobileNets and EfficientNets, the same after LayerNorm of ConvNeXts, the class token of ViTs.

    Args:
        name: such as resnet18, convnext_tiny, vit_b_16, mobilenet_v3_small.
        pretrained: start from torchvision's ImageNet weights, downloaded when missing.
        image_size: side of the images in pixels, which a ViT must know; None = that of the data, where the program
            knows it, else the network's own.
        in_channels: K, of the images. Another number than 3 gives the network a first convolution with new weights.

    Shapes: the network maps (N, K, H, W) to (N, F) with F = `dim`.

    Raises:
        ConfigError: no such network, one without a linear classifier, an argument that does not fit it, or weights that
            cannot be downloaded.
    """
    if name not in models.list_models(module=models) or name in WITH_AUXILIARY_OUTPUTS:
        raise ConfigError(
            f"encoder.name={name} is not a classification network of torchvision with a single output: "
            "try encoder.name=resnet18, convnext_tiny, vit_b_16 or mobilenet_v3_small"
        )
    network: Any = _build(name, pretrained=pretrained, image_size=image_size)
    if in_channels != 3:
        _replace_input(network, in_channels)
    layer, network.dim = _remove_classifier(network, name)
    network.feature = f"input of {layer} of torchvision's {name}"
    return network  # type: ignore[no-any-return]


def _build(name: str, *, pretrained: bool, image_size: int | None) -> Any:
    size = {"image_size": image_size} if image_size is not None and name.startswith(OF_ONE_SIZE) else {}
    if not pretrained:
        return models.get_model(name, weights=None, **size)
    try:
        url = models.get_model_weights(name).DEFAULT.url
        torch.hub.load_state_dict_from_url(url, map_location="cpu", check_hash=True, weights_only=True)  # no program
        return models.get_model(name, weights="DEFAULT", **size)
    except (OSError, RuntimeError, ValueError, UnpicklingError) as error:
        raise ConfigError(
            f"the pretrained weights of {name} cannot be used ({' '.join(str(error).split())[:200]}): "
            "try encoder.weights=FILE, a file of them, or dataset.size=224"
        ) from error


def _replace_input(network: nn.Module, channels: int) -> None:
    """The first convolution for images of so many channels, with new weights."""
    name, old = next((name, layer) for name, layer in network.named_modules() if isinstance(layer, nn.Conv2d))
    window: tuple[Any, Any, Any] = (old.kernel_size, old.stride, old.padding)
    new = nn.Conv2d(channels, old.out_channels, *window, bias=old.bias is not None)
    nn.init.kaiming_normal_(new.weight, mode="fan_out", nonlinearity="relu")
    network.set_submodule(name, new)


def _remove_classifier(network: nn.Module, name: str) -> tuple[str, int]:
    """Cut the network before its first classification layer; returns that layer's name and its inputs' number."""
    for place, module in network.named_children():
        if place not in CLASSIFIERS:
            continue
        layers = list(module.named_children()) or [("", module)]
        before = list(takewhile(lambda layer: not isinstance(layer[1], nn.Linear), layers))
        if len(before) == len(layers):
            break
        key, linear = layers[len(before)]
        kept = [layer for _, layer in before if not isinstance(layer, nn.Dropout)]
        setattr(network, place, nn.Sequential(*kept) if kept else nn.Identity())
        return ".".join(filter(None, (place, key))), int(linear.in_features)  # type: ignore[arg-type]
    raise ConfigError(f"{name} has no linear classifier whose input could be the features: try encoder.name=resnet18")
