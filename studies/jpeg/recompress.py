"""Write the images of a folder once more as JPEG, of a lower quality.

python studies/jpeg/recompress.py data/cifar10_jpeg data/cifar10_jpeg_50 50
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image


def main(source: Path, dest: Path, quality: int) -> None:
    """Keep names and folders; chroma is 4:2:0, as in the source."""
    files = sorted(source.rglob("*.jpg"))
    for folder in {file.parent for file in files}:
        (dest / folder.relative_to(source)).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda file: recompress(file, dest / file.relative_to(source), quality), files))


def recompress(file: Path, dest: Path, quality: int) -> None:
    """One image."""
    with Image.open(file) as image:
        image.save(dest, quality=quality)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
