"""One sentence for what the operating system refuses: a full disk, no permission, a bad path, no memory.

Imports no torch: the command line uses it before torch is there.
"""

import errno
import re

ADVICE = {
    errno.ENOSPC: "free some space and run the same command again, or try {place} on another disk",
    errno.EDQUOT: "free some space and run the same command again, or try {place} on another disk",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f), or try {place} on another disk",
    errno.EROFS: "try {place} that can be written to",
    errno.EACCES: "try {place} that may be read and written by you",
    errno.EPERM: "try {place} that may be read and written by you",
    errno.ENAMETOOLONG: "try a shorter {place}",
    errno.ENOTDIR: "try {place} whose every part is a folder",
    errno.EEXIST: "try {place} whose every part is a folder",
    errno.EISDIR: "move the folder away, or try {place}",
    errno.ENOLCK: "try {place} on a disk of this machine, whose files can be locked",
    errno.ENOSYS: "try {place} on a disk of this machine, whose files can be locked",
    errno.EOPNOTSUPP: "try {place} on a disk of this machine, whose files can be locked",
    errno.EIO: "check the disk, then run the same command again",
}
KNOBS = "try a smaller batch_size, grad_cache_chunk=128 (exact, and holds fewer activations), or resident=false"


def system_error(chain: list[BaseException], *, place: str) -> str | None:
    """The sentence for an error and its causes; None if the system is not to blame.

    Args:
        place: what to type for another folder, such as `hydra.run.dir=PATH`.
    """
    for link in chain:
        if is_out_of_memory(link):
            return out_of_memory(link, "")
    for link in chain:
        if isinstance(link, OSError) and link.errno in ADVICE:
            file = "" if link.filename is None else f"{link.filename}: "
            return f"{file}{(link.strerror or 'error').lower()}: {ADVICE[link.errno].format(place=place)}"
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the host or on a GPU."""
    text = str(error)
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and ("can't allocate memory" in text or "std::bad_alloc" in text))
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    )


def out_of_memory(error: BaseException, consumers: str) -> str:
    """The sentence for a failed allocation.

    Args:
        consumers: what holds most memory, as far as it is known.
    """
    size = re.search(r"[Tt]ried to allocate (\d[\d.]* ?\w+)", str(error))
    where = "the GPU" if "CUDA" in str(error) else "this machine"
    wanted = f" ({size[1]} more were asked for)" if size else ""
    return f"{where} has too little memory{wanted}{consumers}: {KNOBS}"
