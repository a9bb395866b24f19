"""Use a trained encoder: the network and the transform of its images from a run, or from its file alone."""

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2.functional import center_crop, resize

from contrastive.config.targets import resolve_builtin
from contrastive.dataset.folder.decode import resize_and_crop, to_rgb
from contrastive.errors import ConfigError
from contrastive.experiment.components import image_size, instantiate_node
from contrastive.run.files import ENCODER, HEAD, encoder_node, weights_path
from contrastive.run.kinds import HeadMetadata
from contrastive.run.weights import read_weights
from contrastive.training.precision import Normalize

SHIPPED = Path(__file__).resolve().parents[1] / "weights"  # a folder for each encoder of the package
MOST_NAMED = 8  # runs, of those to choose from
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

    Shapes: an image, or a list of them, → float32 (N, 3, H, W). An image is a path, a PIL image, or a uint8 array
    (h, w, 3) or (h, w) of numpy; tensors are uint8 (3, h, w) or (N, 3, h, w).
    """

    size: tuple[int, int]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __call__(self, image: Picture | list[Picture] | Tensor) -> Tensor:
        if isinstance(image, Tensor):
            batch = self._resized(_checked(image))
        else:
            images = image if isinstance(image, list) else [image]
            batch = torch.cat([self._resized(_pixels(item, self.size)) for item in images])
        return Normalize(self.mean, self.std, device=batch.device)(batch)

    def _resized(self, batch: Tensor) -> Tensor:
        height, width = batch.shape[-2:]
        if (height, width) == self.size:
            return batch
        scale = max(self.size[0] / height, self.size[1] / width)
        scaled = [max(self.size[0], round(height * scale)), max(self.size[1], round(width * scale))]
        resized: Tensor = resize(batch, scaled, InterpolationMode.BILINEAR, antialias=True)
        cropped: Tensor = center_crop(resized, list(self.size))
        return cropped


def _checked(image: Tensor) -> Tensor:
    """(3, h, w) or (N, 3, h, w) uint8 → (N, 3, h, w)."""
    if image.dtype != torch.uint8 or image.ndim not in (3, 4) or image.shape[-3] != 3:
        raise ConfigError(
            f"the transform takes uint8 images (3, H, W) or (N, 3, H, W), got {image.dtype} {tuple(image.shape)}: "
            "try (image * 255).round().to(torch.uint8)"
        )
    return image if image.ndim == 4 else image[None]


def _pixels(image: Picture, size: tuple[int, int]) -> Tensor:
    """An image → uint8 (1, 3, h, w), resized as `dataset=image_folder` does it."""
    if isinstance(image, str | Path):
        with Image.open(image) as file:
            picture = to_rgb(file)
    else:
        picture = to_rgb(Image.fromarray(image) if isinstance(image, np.ndarray) else image)
    if size[0] == size[1]:
        picture = resize_and_crop(picture, size[0])
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None]


def load_encoder(path: str | Path, encoder: nn.Module | None = None) -> tuple[nn.Module, Transform]:
    """The trained encoder of a run, in eval mode, and the transform of its images.

        encoder, transform = load_encoder("digits")  # or a run: "outputs/digits/nt_xent/default/seed=0"
        h = encoder(transform(image))  # (1, encoder.dim)

    The file says how its network is built. Only networks of this package are built from what a file says; nothing
    else that it names is imported or called.

    Args:
        path: a run directory, a folder with a single run below it, a folder by `contrastive export --huggingface`, or
            the .safetensors file of one alone. If nothing has that path, `digits` is the encoder that comes with the
            package: the default run with loss=debiased_pos tau_plus=0.1.
        encoder: the network to load the weights into, for networks of your own; None = build it.

    Raises:
        ConfigError: no such file, several runs below the folder, a damaged file or one of another run, without
            metadata, or of another package.
    """
    file = find_weights(path)
    tensors, metadata = read_weights(file)
    height, width = metadata["image_size"]
    if encoder is None:
        encoder = build_trusted(_without_download(encoder_node(metadata["node"], width)), "encoder")
    _load(encoder, tensors, file)
    return encoder.eval(), Transform(size=(height, width), mean=tuple(metadata["mean"]), std=tuple(metadata["std"]))


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


def run_below(folder: Path, name: str) -> Path:
    """The run directory that has a file called `name`: the folder itself, or the only one below it.

    Raises:
        ConfigError: there is none, or several: they are named.
    """
    if (folder / name).exists():
        return folder
    found = sorted(file.parent for file in folder.rglob(name))
    if not found:
        raise ConfigError(f'{folder} holds no finished run: try contrastive.pretrain(loss="debiased_pos") first')
    if len(found) > 1:
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise ConfigError(
            f"{folder} holds {len(found)} runs: try one of {', '.join(map(str, found[:MOST_NAMED]))}{more}"
        )
    return found[0]


def load_run_encoder(run: Path, config: dict[str, Any]) -> tuple[nn.Module, Transform]:
    """`load_encoder`, its network built as config.yaml says, which may name one of your own.

    Args:
        config: of the run, its targets checked.
    """
    node = encoder_node(config["encoder"], image_size(config["dataset"]))
    return load_encoder(weights_path(run), instantiate_node(_without_download(node)))


def load_head(path: str | Path) -> nn.Module:
    """The projection head of a run directory, or of the only one below a folder, in eval mode; raises ConfigError as
    `load_encoder` does."""
    file = run_below(Path(path), HEAD) / HEAD
    tensors, metadata = read_weights(file, HeadMetadata)
    head = build_trusted({**metadata["node"], "in_dim": metadata["in_dim"]}, "head")
    _load(head, tensors, file)
    return head.eval()


def _without_download(node: dict[str, Any]) -> dict[str, Any]:
    """The node of an encoder whose weights are replaced anyway."""
    return {**node, "pretrained": False} if "pretrained" in node else node


def _load(module: nn.Module, tensors: dict[str, Tensor], file: Path) -> None:
    """Raises ConfigError unless all names and shapes agree."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ConfigError(
            f"the weights of {file} do not fit {type(module).__name__} ({' '.join(str(error).split())[:300]}): "
            "try the network that they were trained with"
        ) from error


def build_trusted(node: dict[str, Any], group: str) -> nn.Module:
    """Build a network from what a file says, if its `_target_` lies in contrastive/<group>/ and arguments are plain."""
    arguments = {key: value for key, value in node.items() if key != "_target_"}
    plain = all(value is None or isinstance(value, bool | int | float | str) for value in arguments.values())
    target = resolve_builtin(node.get("_target_"), group)
    if target is None or not plain:
        raise ConfigError(
            f"the file's {group} {node.get('_target_')} is not part of contrastive and not built from a file: if you "
            f"trust it, build it yourself and try load_encoder(PATH, encoder=module)"
        )
    try:
        network: nn.Module = target(**arguments)
    except (AttributeError, TypeError, ValueError, RuntimeError) as error:  # the last: larger than the memory
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(
            f"the file's {group} cannot be built ({reason}): try load_encoder(PATH, encoder=module)"
        ) from error
    return network


def with_defaults(node: dict[str, Any]) -> dict[str, Any]:
    """What a file says of an encoder of this package, and the defaults of the arguments that it leaves out."""
    target = resolve_builtin(node["_target_"], "encoder")
    parameters = {} if target is None else inspect.signature(target).parameters
    return {**{name: parameter.default for name, parameter in parameters.items()}, **node}
