"""Use a trained encoder: the network and the transform of its images from a run, or from its file alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2.functional import center_crop, resize

from contrastive.config.compose import importable
from contrastive.config.targets import check_targets, find_component
from contrastive.dataset.folder.decode import RGB_8, Kind, pixels
from contrastive.errors import ConfigError
from contrastive.experiment.components import image_size, instantiate_node
from contrastive.run.files import ENCODER, HEAD, RESULT, encoder_node, read_config, run_below, weights_path
from contrastive.run.weights import channels_of, read_weights
from contrastive.training.precision import Normalize
from contrastive.types import LEVELS

SHIPPED = Path(__file__).resolve().parents[1] / "weights"  # a folder for each encoder of the package
PUBLISHED = "model.safetensors"  # what the Hub calls the encoder's file


Picture = str | Path | Image.Image | np.ndarray[Any, Any]


@dataclass(frozen=True, kw_only=True)
class Transform:
    """Images of any size → the float batch that an encoder was evaluated on.

    The shorter side is resized with antialiasing, the center cropped; images that have the size already keep their
    pixels. Then channels are standardized.

    Args:
        size: (H, W) of the result.
        mean: per channel, of images scaled to [0, 1].
        std: per channel, of images scaled to [0, 1].
        dtype: of the images, uint8 or uint16.

    Shapes: an image, or a list of them, → float32 (N, K, H, W) with as many channels K as `mean` has. An image is a
    path, a PIL image, or an array (h, w, K) or (h, w) of numpy; tensors are (K, h, w) or (N, K, h, w). Only images of
    RGB with 8 bits may have another mode: they become RGB.
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    dtype: torch.dtype = torch.uint8

    def __call__(self, image: Picture | list[Picture] | Tensor) -> Tensor:
        if isinstance(image, Tensor):
            batch = self._resized(self._checked(image))
        else:
            images = image if isinstance(image, list) else [image]
            batch = torch.cat([self._resized(self._pixels(item)) for item in images])
        return Normalize(self.mean, self.std, device=batch.device)(batch)

    def _resized(self, batch: Tensor) -> Tensor:
        height, width = batch.shape[-2:]
        if (height, width) == self.size:
            return batch
        scale = max(self.size[0] / height, self.size[1] / width)
        scaled = [max(self.size[0], round(height * scale)), max(self.size[1], round(width * scale))]
        resizable = batch if self.dtype == torch.uint8 else batch.float()  # torch resizes no uint16
        resized: Tensor = resize(resizable, scaled, InterpolationMode.BILINEAR, antialias=True)
        cropped: Tensor = center_crop(resized if self.dtype == torch.uint8 else resized.round(), list(self.size))
        return cropped.to(self.dtype)

    @property
    def kind(self) -> Kind:
        """Of the images."""
        return Kind(len(self.mean), np.dtype(str(self.dtype).removeprefix("torch.")))

    def _checked(self, image: Tensor) -> Tensor:
        """(K, h, w) or (N, K, h, w) → (N, K, h, w)."""
        if image.dtype != self.dtype or image.ndim not in (3, 4) or image.shape[-3] != len(self.mean):
            name, k = self.kind.dtype.name, len(self.mean)
            raise ConfigError(
                f"the transform takes {name} images ({k}, H, W) or (N, {k}, H, W), got {image.dtype} "
                f"{tuple(image.shape)}: try (image * {LEVELS[self.dtype] - 1}).round().to(torch.{name}) of [0, 1]"
            )
        return image if image.ndim == 4 else image[None]

    def _pixels(self, image: Picture) -> Tensor:
        """An image → (1, K, h, w), read and resized as `dataset=image_folder` does it."""
        if isinstance(image, Tensor) or (isinstance(image, np.ndarray) and image.ndim > 3):
            raise ConfigError(
                f"the transform takes one tensor of all images, got {type(image).__name__} {tuple(image.shape)}: "
                "try torch.stack(images), or torch.from_numpy(images)"
            )
        if isinstance(image, np.ndarray) and self.kind == RGB_8:  # which may be gray
            image = Image.fromarray(image)
        side = self.size[0] if self.size[0] == self.size[1] else None
        return torch.from_numpy(np.array(pixels(image, side, self.kind)))[None]


def load_encoder(path: str | Path, encoder: nn.Module | None = None) -> tuple[nn.Module, Transform]:
    """The trained encoder of a run, in eval mode, and the transform of its images.

        encoder, transform = load_encoder("digits")  # or a run: "outputs/digits/nt_xent/default/seed=0"
        h = encoder(transform(image))  # (1, encoder.dim)

    The file says how its network is built. Only networks of this package are built from what a file says; nothing
    else that it names is imported or called.

    A single image is a batch of one, and the encoder takes what a DataLoader collates of such, (B, 1, K, H, W), too: so
    `ImageFolder(PATH, transform=transform)` works.

    Args:
        path: a run directory, a folder with a single run below it, a folder by `contrastive export --huggingface`, or
            the .safetensors file of one alone. If nothing has that path, `digits` is the encoder that comes with the
            package: the default run with loss=debiased_pos tau_plus=0.1.
        encoder: the network to load the weights into, for networks of your own; None = build it.

    Raises:
        ConfigError: no such file, several runs below the folder, a damaged file, one of another run, without
            metadata, or of another package.
        RuntimeError: the weights do not fit `encoder`.
    """
    file = find_weights(path)
    tensors, metadata = read_weights(file)
    height, width = metadata["image_size"]
    if encoder is None:
        node = encoder_node(metadata["node"], width, len(metadata["mean"]))
        encoder = build_trusted(_without_download(node), "encoder")
    encoder.load_state_dict(tensors)
    dtype = torch.uint16 if metadata.get("dtype") == "uint16" else torch.uint8
    mean, std = tuple(metadata["mean"]), tuple(metadata["std"])
    encoder.register_forward_pre_hook(_as_batch)
    return encoder.eval(), Transform(size=(height, width), mean=mean, std=std, dtype=dtype)


def _as_batch(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Images (N, K, H, W); those that a DataLoader has collated to (N, 1, K, H, W) are that, too."""
    return tuple(x.squeeze(1) if x.dim() == 5 else x for x in inputs)


def find_weights(path: str | Path) -> Path:
    """The encoder's file that `load_encoder` reads."""
    place = Path(path).expanduser()
    shipped = sorted(folder.name for folder in SHIPPED.iterdir())
    if not place.exists():
        if str(path) not in shipped:
            raise ConfigError(
                f'there is no weights file {path}: try the path of a finished run, or load_encoder("{shipped[0]}")'
            )
        place = SHIPPED / str(path)
    if (place / PUBLISHED).is_file():
        return place / PUBLISHED
    return weights_path(run_below(place, ENCODER) if place.is_dir() else place)


def open_encoder(path: str | Path, folders: Sequence[Path] = ()) -> tuple[nn.Module, Transform]:
    """`load_encoder`, of a run also with a network of one's own.

    Args:
        folders: of modules that the run's configuration may name, those of --config-dir.
    """
    run = find_weights(path).parent
    if not (run / RESULT).exists():
        return load_encoder(path)
    with importable(folders):
        config = read_config(run)
        check_targets({"encoder": config["encoder"]}, folders)
        return load_run_encoder(run, config)


def load_run_encoder(run: Path, config: dict[str, Any]) -> tuple[nn.Module, Transform]:
    """`load_encoder`, its network built as config.yaml says, which may name one of your own.

    Args:
        config: of the run, its targets checked.
    """
    file = weights_path(run)
    node = encoder_node(config["encoder"], image_size(config["dataset"]), channels_of(file))
    return load_encoder(file, instantiate_node(_without_download(node)))


def load_head(path: str | Path) -> nn.Module:
    """The projection head of a run directory, or of the only one below a folder, in eval mode; raises ConfigError as
    `load_encoder` does."""
    file = run_below(Path(path), HEAD) / HEAD
    tensors, metadata = read_weights(file)
    head = build_trusted({**metadata["node"], "in_dim": metadata["in_dim"]}, "head")
    head.load_state_dict(tensors)
    return head.eval()


def _without_download(node: dict[str, Any]) -> dict[str, Any]:
    """The node of an encoder whose weights are replaced anyway."""
    return {**node, "pretrained": False} if "pretrained" in node else node


def build_trusted(node: dict[str, Any], group: str) -> nn.Module:
    """Build a network from what a file says, if its `_target_` lies in contrastive/<group>/ and arguments are plain."""
    arguments = {key: value for key, value in node.items() if key != "_target_"}
    plain = all(value is None or isinstance(value, bool | int | float | str) for value in arguments.values())
    target = find_component(node.get("_target_"), (f"contrastive.{group}",))
    if target is None or not plain:
        raise ConfigError(
            f"the file's {group} {node.get('_target_')} is not part of contrastive and not built from a file: if you "
            "trust it, build it yourself and try load_encoder(PATH, encoder=module)"
        )
    network: nn.Module = target(**arguments)
    return network
