"""Small datasets on disk, in the formats that the loaders read."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from contrastive.dataset.image_folder import image_folder
from contrastive.types import Data

REAL = Path(__file__).resolve().parents[2] / "shared" / "data"  # real images, where they are beside the checkout
MODES = [("RGB", (12, 12, 3)), ("L", (12, 12)), ("RGBA", (16, 12, 4)), ("RGB", (9, 30, 3))]


def write_image_folder(root: Path) -> Path:
    """20 training and 4 test images of each of two classes, in several modes and shapes."""
    rng = np.random.default_rng(0)
    for part, n in (("train", 20), ("test", 4)):
        for c, name in enumerate(("ant", "bee")):
            (root / part / name).mkdir(parents=True)
            for i in range(n):
                mode, shape = MODES[i % 4]
                pixels = rng.integers(0, 200, shape, dtype=np.uint8) + 50 * c
                Image.fromarray(pixels.astype(np.uint8), mode).save(root / part / name / f"{i:03}.png")
    return root


def load_image_folder(folder: Path, **options: Any) -> Data:
    """The folder at 12 pixels, decoded into a cache inside it."""
    return image_folder(**{"root": str(folder), "size": 12, "cache": str(folder / "cache"), **options})
