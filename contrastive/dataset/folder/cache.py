"""The images of a folder, decoded once; while no file changes, a later start reads and decodes none of them.

Three kinds of files lie in the cache. A manifest, named by the sha256 of the folder's listing (path, size and
modification time of every file), holds the sha256 of the contents. The pixels, and a record of their statistics, are
named by that content hash: files that were only touched or moved are hashed again but not decoded again.
"""

import hashlib
import json
import os
import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from contrastive.dataset.folder.decode import DecodedImages, decode_to_memmap
from contrastive.files import locked, write_text

FORMAT = 2  # of the cache: raise it when the same files would be decoded to other pixels or stored otherwise
SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}


class ImageFile(NamedTuple):
    """One line of a folder's listing."""

    path: str  # below the folder
    label: int
    size: int  # bytes
    mtime_ns: int


def list_images(folder: Path, classes: tuple[str, ...]) -> list[ImageFile]:
    """Every image file below folder/<class>, by class and path; reads metadata only."""
    return [file for label, name in enumerate(classes) for file in walk_images(folder, name, label=label)]


def walk_images(folder: Path, name: str = "", *, label: int = -1, skip: tuple[str, ...] = ()) -> list[ImageFile]:
    """Every image file below folder/name, sorted by path.

    Pipes, devices, links that lead nowhere, linked folders inside of it and folders that cannot be read are named in
    a warning and left out.

    Args:
        label: of all of them. skip: names of folders in `folder` that are left out.
    """
    files, start = [], len(f"{folder}{os.sep}")
    left_out = {str(folder / item) for item in skip}
    paths = []
    for top, folders, names in os.walk(folder / name, onerror=_warn_unreadable):
        folders[:] = [item for item in folders if os.path.join(top, item) not in left_out]  # os.walk enters the rest
        for item in folders:
            if os.path.islink(link := os.path.join(top, item)):
                warn_left_out(link, "it is a link to a folder: try a copy, or a link to each image")
        paths += [os.path.join(top, file) for file in names]
    paths = [path for path in paths if os.path.splitext(path)[1].lower() in SUFFIXES]
    for path in sorted(paths, key=lambda path: path.split(os.sep)):
        try:
            info = os.stat(path)
        except OSError as error:
            warn_left_out(path, error.strerror or "no such file")
            continue
        if not stat.S_ISREG(info.st_mode):
            warn_left_out(path, "it is no regular file")
            continue
        files.append(ImageFile(path[start:], label, size=info.st_size, mtime_ns=info.st_mtime_ns))
    return files


def _warn_unreadable(error: OSError) -> None:
    warn_left_out(error.filename, error.strerror or "it cannot be read")


def printable(path: str | Path) -> str:
    """A path as text; bytes of it that are no text are shown as \\xff."""
    return os.fsencode(path).decode(errors="backslashreplace")


def warn_left_out(path: str | Path, reason: str) -> None:
    """Say that an image is left out."""
    tqdm.write(f"warning: {printable(path)} cannot be read and is left out: {reason}")


def load_images(
    folder: Path, files: list[ImageFile], *, classes: tuple[str, ...], size: int, cache: Path
) -> DecodedImages:
    """The decoded files, in order.

    Args:
        files: the listing of `folder`, see `list_images`.
        size: side of the decoded images in pixels.
        cache: folder of the manifests and of the decoded images.
    """
    settings = repr((FORMAT, size, classes))
    listing = hashlib.sha256(f"{settings}{folder.resolve()}".encode(errors="surrogateescape"))
    for file in files:
        listing.update(os.fsencode(f"{file.path}\0{file.size}\0{file.mtime_ns}\n"))
    manifest = cache / f"image_folder-{listing.hexdigest()[:32]}.manifest.json"
    with locked(manifest.with_suffix(".lock")):  # one process hashes while others wait
        content = _read_manifest(manifest)
        if content is None:
            content = hash_contents(folder, files, settings)
            write_text(manifest, json.dumps({"folder": str(folder), "files": len(files), "content": content}))
    paths = [folder / file.path for file in files]
    return decode_to_memmap(paths, size, cache / f"image_folder-{content[:32]}.images")


def _read_manifest(path: Path) -> str | None:
    """The sha256 of the contents that an earlier start computed; None if there is none, or a damaged one."""
    try:
        content = json.loads(path.read_bytes())["content"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if isinstance(content, str) and re.fullmatch(r"[0-9a-f]{64}", content) else None


def hash_contents(folder: Path, files: list[ImageFile], settings: str) -> str:
    """sha256 of the settings and of the path and content of every file; reads all of them, in parallel."""
    digest = hashlib.sha256(settings.encode())

    def hash_file(file: ImageFile) -> bytes:
        try:
            with (folder / file.path).open("rb") as opened:
                return hashlib.file_digest(opened, "sha256").digest()
        except OSError:  # decoding it will fail for the same reason, and name it
            return b"unreadable"

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        contents = tqdm(pool.map(hash_file, files), total=len(files), desc="hashing", unit="file", mininterval=1)
        for file, content in zip(files, contents, strict=True):
            digest.update(os.fsencode(file.path) + content)
    return digest.hexdigest()
