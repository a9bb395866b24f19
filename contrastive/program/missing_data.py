"""Which data a configuration needs that is not on this machine. Imports no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What torchvision looks for below dataset.root: the unpacked folder or the archive that it unpacks.
FILES = {
    "cifar10": ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    "cifar100": ("cifar-100-python", "cifar-100-python.tar.gz"),
    "stl10": ("stl10_binary", "stl10_binary.tar.gz"),
    "mnist": ("MNIST/raw", "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"),
    "biased_mnist": ("MNIST/raw", "MNIST/raw with its four files (train-images-idx3-ubyte and so on)"),
}


@dataclass(frozen=True)
class Missing:
    """Data that a dataset needs: `what` in words, to be put into the folder `where`."""

    what: str
    where: str
    downloads: bool  # whether building the dataset tries to download it

    def __str__(self) -> str:
        return f"data missing: put {self.what} into {self.where}"


def missing_data(dataset: dict[str, Any]) -> Missing | None:
    """What the dataset's node needs and does not find; None when all is there, or when that is not known.

    Args:
        dataset: the resolved node of the dataset.
    """
    name = str(dataset["_target_"]).rpartition(".")[2]
    root = dataset.get("root")
    if name == "image_folder":
        if root is None:
            return Missing("train/<class>/ and test/<class>/", 'PATH and add ARGS="dataset.root=PATH"', downloads=False)
        has_test = any((Path(root) / name).is_dir() for name in ("test", "val"))
        return (
            None
            if has_test and (Path(root) / "train").is_dir()
            else Missing("train/<class>/ and test/<class>/", str(root), downloads=False)
        )
    if name not in FILES or any((Path(str(root)) / file).exists() for file in FILES[name]):
        return None
    return Missing(FILES[name][1], str(Path(str(root)).resolve()), downloads=True)
