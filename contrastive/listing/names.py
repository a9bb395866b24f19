"""What the names of files, folders and splits mean, for folders, tables, `pack` and shards alike, and what lies below
a folder: its images, and what is left out, by reason."""

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping
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

NO_IMAGE = "no image by its suffix"
OF_A_TOOL = "left behind by a program"
SUFFIXES_SHOWN = 4  # of files that are no images
LeftOut = defaultdict[str, list[str]]  # {reason: paths}


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


def image_paths(folder: Path, left_out: LeftOut, *, skip: tuple[str, ...] = ()) -> list[str]:
    """The image files below a folder but for the folders `skip`, sorted; other files are added to `left_out`."""
    files = []
    for top, folders, names in os.walk(folder, onerror=lambda e: left_out[e.strerror or ""].append(str(e.filename))):
        for name in filter(is_of_a_tool, folders):
            left_out[OF_A_TOOL].append(os.path.join(top, name))
        folders[:] = [n for n in folders if not is_of_a_tool(n) and not (top == str(folder) and n in skip)]
        for name in folders:
            if os.path.islink(path := os.path.join(top, name)):  # os.walk does not enter it: it could be a circle
                left_out["a link to a folder: try a copy, or a link to each image"].append(path)
        for name in names:
            path = os.path.join(top, name)
            if is_of_a_tool(name):
                left_out[OF_A_TOOL].append(path)
            elif not is_image(name):
                left_out[NO_IMAGE].append(path)
            elif os.path.isfile(path):
                files.append(path)
            else:  # a pipe, a device, a link that leads nowhere
                left_out["not a file"].append(path)
    return sorted(files, key=lambda path: path.split(os.sep))


def below(base: Path, left_out: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """The names of what is left out as they are below the folder, and the suffixes of what is no image."""
    relative = {why: [os.path.relpath(path, base) for path in sorted(paths)] for why, paths in left_out.items()}
    if (names := relative.pop(NO_IMAGE, None)) is not None:
        suffixes = Counter(sorted(Path(name).suffix.lower() for name in names))
        shown = ", ".join(f"{suffix or 'without one'} {n:,}" for suffix, n in suffixes.most_common(SUFFIXES_SHOWN))
        relative[f"{NO_IMAGE}: {shown}{', ...' if len(suffixes) > SUFFIXES_SHOWN else ''}"] = names
    return relative


def subfolders(folder: Path) -> tuple[str, ...]:
    """Names of the folders in a folder but for those of tools, sorted; none if it does not exist."""
    if not folder.is_dir():
        return ()
    with os.scandir(folder) as entries:  # which asks the disk about no file, of which there may be a million
        return tuple(sorted(entry.name for entry in entries if not is_of_a_tool(entry.name) and entry.is_dir()))


def has_pictures(folder: Path) -> bool:
    """Whether a picture lies in the folder itself."""
    return any(path.suffix.lower() in PICTURES and not is_of_a_tool(path.name) for path in folder.iterdir())


def has_an_image(folder: Path) -> bool:
    """Whether there is an image below the folder, at whatever depth."""
    return any(is_image(name) and not is_of_a_tool(name) for _, _, names in os.walk(folder) for name in names)
