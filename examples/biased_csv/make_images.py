"""Draw logs on sand and posts in the sea, and the table that says which is which: data for docs/biased.md.

    python examples/biased_csv/make_images.py data/beach

Of twenty training images nineteen show what belongs there: a log on sand, a post in the sea. Half of the validation and
test images do.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIDE = 32  # pixels
SHAPES = {"log": (9, 3), "post": (3, 9)}  # half the width and the height
BACKGROUNDS = {"sand": (194, 178, 128), "sea": (70, 130, 180)}
N = {"train": 1000, "val": 200, "test": 400}
ALIGNED = {"train": 0.95, "val": 0.5, "test": 0.5}  # of a split's images


def draw(shape: str, background: str, rng: np.random.Generator) -> Image.Image:
    """A bar of random place and brightness, lying or upright, on a noisy background."""
    width, height = SHAPES[shape]
    x, y = rng.uniform(width, SIDE - width), rng.uniform(height, SIDE - height)
    pixels = np.array(BACKGROUNDS[background]) + rng.normal(0, 20, (SIDE, SIDE, 3))
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    grey = int(rng.integers(40, 220))
    ImageDraw.Draw(image).rectangle((x - width, y - height, x + width, y + height), (grey,) * 3)
    return image


def main(folder: Path) -> None:
    """Write the images and `images.csv`."""
    rng = np.random.default_rng(0)
    lines = [["file", "label", "background", "fold"]]
    for split, n in N.items():
        (folder / split).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            shape = i % 2
            background = shape if rng.random() < ALIGNED[split] else 1 - shape
            words = [f"{split}/{i:04}.png", list(SHAPES)[shape], list(BACKGROUNDS)[background], split]
            draw(words[1], words[2], rng).save(folder / words[0])
            lines.append(words)
    with (folder / "images.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
