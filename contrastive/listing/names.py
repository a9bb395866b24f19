"""What the names of files, folders and splits mean, for folders, tables, `pack` and shards alike."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from contrastive.errors import ConfigError

# What Pillow reads within `decode.FORMATS`, whatever a program called it.
PICTURES = (
    ".apng", ".bmp", ".dib", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".mpo", ".pbm", ".pgm", ".png", ".pnm", ".ppm",
    ".tif", ".tiff", ".webp",
)  # fmt: skip
SUFFIXES = (*PICTURES, ".npy")  # an array beside class folders may be anything, and does not speak against them
SPLITS = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "tst"),
}
# words of a split's folder that add nothing: training_set, seg_train, test-images, Train2017
EMPTY_WORDS = ("set", "data", "dataset", "split", "image", "images", "img", "imgs", "seg", "pred")
SECRET = re.compile(r"(?<=://)(?:[^/@]*|[^@]*:[^@]*)@|[?][^/]*=.*")  # in a URL; keys may have a /
TOOLS = (
    "__macosx", "__pycache__", "@eadir", "$recycle.bin", "lost+found", "system volume information",
    "outputs", "multirun",  # runs, of a program that was started in the folder of the images: they hold pictures
)  # fmt: skip


def split_of(name: str) -> str | None:
    """`train`, `val` or `test` where a name means one of them, in any spelling: Train, training_set, seg_test; else
    None."""
    words = _words(name)
    meant = [split for split, spelled in SPLITS.items() for word in words if word in spelled]
    rest = [word for word in words if word not in EMPTY_WORDS]
    return meant[0] if len(meant) == 1 and len(rest) == 1 else None


def part_of_split(name: str) -> str | None:
    """The split whose word is in a name: `train` of imagenet1k-train-0000.tar; None of none and of several."""
    meant = {split for split, spelled in SPLITS.items() if not set(spelled).isdisjoint(_words(name))}
    return meant.pop() if len(meant) == 1 else None


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def is_of_a_tool(name: str) -> bool:
    """Whether a file or folder belongs to a program and not to the data: ._cat.jpg, .ipynb_checkpoints, __MACOSX."""
    return name.startswith(".") or name.lower() in TOOLS


def composed(name: str) -> str:
    """The name in the Unicode form that most systems write (NFC): macOS may list the same letters decomposed."""
    return unicodedata.normalize("NFC", name)


def is_image(name: str) -> bool:
    """Whether a file is taken for an image, by its suffix."""
    return Path(name).suffix.lower() in SUFFIXES


def by_suffix(names: Iterable[str]) -> dict[str, int]:
    """{suffix: how many}, the most frequent first; of files without one under ''."""
    counts = Counter(Path(name).suffix.lower() for name in names)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def name_of(root: str) -> str:
    """The name of a data set by its folder or pattern: of S, S/train and S/train/{000..099}.tar it is S."""
    folder = Path(root).resolve()
    folder = folder.parent if folder.suffix == ".tar" else folder
    return folder.parent.name if split_of(folder.name) and folder.parent.name else folder.name


def check_no_secrets(place: str) -> None:
    """Raise ConfigError for a URL with a key in it, which logs and the records of a run would keep."""
    bare = SECRET.sub("", place) if "://" in place else place
    if bare != place:
        raise ConfigError(
            f"{bare} has a key in its URL, which the records of a run would keep: "
            "try it without, and the key in an environment variable"
        )
