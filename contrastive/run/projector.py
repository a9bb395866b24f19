"""Files of TensorBoard's projector: feature vectors as points, each with its labels and a thumbnail."""

import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch.nn.functional as F
from torch import Tensor
from torchvision.utils import make_grid, save_image

from contrastive.atomic import atomic, write_text

FOLDER, CONFIG = "projector", "projector_config.pbtxt"  # TensorBoard looks for this name beside the event files
THUMBNAIL = 32  # pixels, at most


def write_projector(path: Path, vectors: Tensor, columns: Mapping[str, Sequence[str]], images: Tensor) -> None:
    """Write the points of the run in `path` and, last, the file that announces them; an earlier set is replaced.

    Args:
        vectors: (n, F). columns: {name: n words}, shown as labels and colors. images: (n, 3, H, W) uint8.
    """
    folder = path / FOLDER
    rows = ("\t".join(f"{value:.4g}" for value in row) for row in vectors.tolist())
    write_text(folder / "vectors.tsv", "\n".join(rows) + "\n")
    names = list(columns)
    header = ["\t".join(names)] if len(names) > 1 else []  # a single column has no header
    lines = ["\t".join(map(_cell, cells)) for cells in zip(*columns.values(), strict=True)]
    write_text(folder / "labels.tsv", "\n".join([*header, *lines]) + "\n")
    size = write_sprite(folder / "sprite.png", images)
    write_text(
        path / CONFIG,
        'embeddings {\n  tensor_name: "test features"\n'
        f'  tensor_path: "{FOLDER}/vectors.tsv"\n  metadata_path: "{FOLDER}/labels.tsv"\n'
        f'  sprite {{ image_path: "{FOLDER}/sprite.png" single_image_dim: {size} single_image_dim: {size} }}\n}}\n',
    )


def _cell(name: str) -> str:
    """A name without tabs and line breaks, which separate the columns and rows."""
    return " ".join(name.split())


def write_sprite(path: Path, images: Tensor) -> int:
    """One square picture of all images, row by row; returns the size of each."""
    size = min(THUMBNAIL, images.shape[-1])
    small = F.interpolate(images.float().cpu() / 255, size=(size, size), mode="bilinear", antialias=True)
    per_row = math.ceil(math.sqrt(len(small)))
    square = F.pad(small, (0, 0, 0, 0, 0, 0, 0, per_row**2 - len(small)))
    with atomic(path) as part:
        save_image(make_grid(square, nrow=per_row, padding=0), part, format="png")
    return size


def remove_projector(path: Path) -> None:
    """Remove the points of the run in `path`."""
    (path / CONFIG).unlink(missing_ok=True)
    shutil.rmtree(path / FOLDER, ignore_errors=True)
