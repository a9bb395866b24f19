"""The folder of the YAML files, found from any working directory, and what follows from the images that they name.

Imports nothing slow: the command line uses it.
"""

import os
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
_INSTALLED = PACKAGE / "configs"

LIBRARIES = {"site-packages", "dist-packages"}  # folders of modules that are not the user's own
# Inside the package when installed from a wheel, beside it in a checkout.
CONFIGS = _INSTALLED if _INSTALLED.is_dir() else PACKAGE.parent / "configs"


LARGE = 64  # pixels, from which on views are large for a ResNet
VIEWS = 200_000  # images that are seen in a training whose epochs follow from the data
USUAL_COUNT = 10_000  # images, where nothing is known of their number


def n_files(folder: str | None) -> int:
    """Files in and below a folder, but for hidden ones; 10,000 without a folder."""
    if folder is None:
        return USUAL_COUNT
    return sum(not name.startswith(".") for _, _, names in os.walk(folder) for name in names) or USUAL_COUNT


def batch_for(folder: str | None) -> int:
    """A batch for the images below a folder: the largest power of two of at most an eighth of them, from 16 to 256."""
    return max(16, min(256, 1 << (n_files(folder) // 16).bit_length()))


def epochs_for(folder: str | None) -> int:
    """Epochs in which some 200,000 images are seen, from 5 to 100."""
    return max(5, min(100, round(VIEWS / n_files(folder))))


def stem_for(*sides: Any) -> str:
    """The stem of a ResNet, `small` or `large`, for views of the first side that is known; without any `small`."""
    return "large" if next((side for side in sides if isinstance(side, int)), 0) >= LARGE else "small"
