"""What lies below a folder: its images, and what is left out, by reason."""

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from contrastive.listing.names import PICTURES, by_suffix, is_image, is_of_a_tool

NO_IMAGE = "no image by its suffix"
OF_A_TOOL = "left behind by a program"
SUFFIXES_SHOWN = 4  # of files that are no images


class LeftOut(defaultdict[str, list[str]]):
    """{reason: paths}."""

    def __init__(self) -> None:
        super().__init__(list)


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
        suffixes = by_suffix(names)
        shown = ", ".join(f"{suffix or 'without one'} {n:,}" for suffix, n in [*suffixes.items()][:SUFFIXES_SHOWN])
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
