"""Make the small data sets of this study from MNIST and from CIFAR-10 as JPEG, in data/small.

python studies/over_datasets/make_data.py data

small/mnist/            16 pixels, the first 300 digits of each class; all test digits
small/animals/          links: images 500 to 799 of six classes
small/vehicles/         likewise, of four classes
small/tail/             images 800 to 1,099 of all ten; dataset.imbalance makes the tail
small/biased/           the same digits in color, 95 % in the color of their class; all test digits, in any color
small/unbiased/         likewise, every color equally likely in every class
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from contrastive.dataset.biased_mnist import UNBIASED, biased_mnist
from contrastive.dataset.mnist import mnist
from contrastive.types import Data

VEHICLES = ("airplane", "automobile", "ship", "truck")
SIDE, PER_CLASS = 16, 300


def main(root: Path) -> None:
    """Write what is not there."""
    digits = mnist(root=str(root))
    folder = root / "small/mnist"
    folder.mkdir(parents=True, exist_ok=True)
    label = digits.pretrain.label.numpy()
    rows = np.concatenate([np.flatnonzero(label == k)[:PER_CLASS] for k in range(10)])
    for name, split, chosen in (("train", digits.pretrain, rows), ("test", digits.test, slice(None))):
        images = split.image[:].numpy()[chosen, 0]
        small = [np.asarray(Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BILINEAR)) for image in images]
        np.save(folder / f"{name}.npy", np.stack(small))
        np.save(folder / f"{name}_labels.npy", split.label.numpy()[chosen])
    for name, rho in (("biased", 0.95), ("unbiased", UNBIASED)):
        save(biased_mnist(root=str(root), size=SIDE, per_class=PER_CLASS, rho=rho), root / "small" / name)
    cifar = root / "cifar10_jpeg"
    classes = sorted(path.name for path in (cifar / "train").iterdir())
    link(cifar, root / "small/animals", [name for name in classes if name not in VEHICLES], first=500)
    link(cifar, root / "small/vehicles", [name for name in classes if name in VEHICLES], first=500)
    link(cifar, root / "small/tail", classes, first=800)


def save(data: Data, dest: Path) -> None:
    """Each image as a PNG, in folders of classes."""
    for part, split in (("train", data.pretrain), ("test", data.test)):
        for i, (image, label) in enumerate(zip(split.image[:], split.label.tolist(), strict=True)):
            (dest / part / str(label)).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(dest / part / str(label) / f"{i:05}.png")


def link(source: Path, dest: Path, classes: list[str], *, first: int) -> None:
    """Links to some training images of each class, and to all test images."""
    for name in classes:
        train = sorted((source / "train" / name).iterdir())[first : first + PER_CLASS]
        for part, files in (("train", train), ("test", sorted((source / "test" / name).iterdir()))):
            (dest / part / name).mkdir(parents=True, exist_ok=True)
            for file in files:
                (dest / part / name / file.name).unlink(missing_ok=True)
                (dest / part / name / file.name).symlink_to(file.resolve())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
