"""Translate errors of Hydra, OmegaConf and the system into one sentence that ends in what to type."""

import errno
import re
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import get_type_hints

import yaml
from hydra.errors import HydraException, InstantiationException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException, ValidationError

from contrastive.config.check_types import described, typed
from contrastive.config.compose import config_dirs
from contrastive.config.mistaken import no_option, not_a_setting, unknown_setting
from contrastive.config.paths import LIBRARIES, PACKAGE
from contrastive.config.reference import defaults
from contrastive.config.settings import Settings
from contrastive.errors import ConfigError
from contrastive.text import printable

SEE_ALL = "try python train.py --help"
PLUGINS = {"submitit": "slurm", "ray": "ray"}  # of Hydra, and the extra that installs each
REFUSALS = (TypeError, ValueError, OverflowError, ZeroDivisionError, RuntimeError, IndexError)  # of a constructor
FULL = "free some space and run the same command again, or try {place} on another disk"
USABLE = "try {place}, a folder that can be written to"
LOCKS = "try {place} on a disk of this machine, whose files can be locked"
ADVICE = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: "the size of a file is limited here: try ulimit -f unlimited, or {place} on another disk",
    errno.ENAMETOOLONG: "try a shorter {place}",
    errno.EIO: "check the disk, then run the same command again",
    **dict.fromkeys((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP), LOCKS),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST), USABLE),
}
KNOBS = (
    "try a smaller batch_size, encoder.stem=large (of large images), grad_cache_chunk=128 (holds fewer activations), "
    "resident=false or graphs=false"
)


def user_message(error: BaseException, *, place: str = "hydra.run.dir=PATH", words: Sequence[str] = ()) -> str | None:
    """One line for the user; None for errors the user cannot fix, whose traceback says more.

    Args:
        place: what to type for another folder where the file system refuses one.
        words: what was typed: of its dataset, loss and so on are the defaults and the neighbors of a typo.
    """
    message = _message(error, place, words)
    return message and printable(message)


def _message(error: BaseException, place: str, words: Sequence[str]) -> str | None:
    chain = causes(error)
    for link in chain:
        if isinstance(link, ConfigError):
            return str(link)
        if isinstance(link, yaml.MarkedYAMLError):
            mark = link.problem_mark
            where = f"{mark.name}, line {mark.line + 1}," if mark else "a YAML"
            return f"{where} is not YAML ({link.problem}): compare it with configs/loss/nt_xent.yaml"
        if program := re.search(r'Could not detect "(\w+)", are you', str(link)):  # submitit's words
            return f"this launcher needs {program[1]}, which is not installed: try hydra/launcher=cores"
        if isinstance(link, ImportError) and "failed to map segment" in str(link):  # the dynamic linker's words
            return f"too little memory to load torch ({link}): try ulimit -v unlimited, or a job with more memory"
        if is_out_of_memory(link):
            return out_of_memory(link)
        if isinstance(link, OSError) and link.errno in ADVICE:
            file = f"{link.filename}: " if link.filename else ""
            return f"{file}{(link.strerror or 'error').lower()}: {ADVICE[link.errno].format(place=place)}"
    if isinstance(error, InstantiationException):
        return _instantiation(str(error), chain[-1])
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename} cannot be used ({error.strerror}): try {place} if it is to be written there"
    if isinstance(error, HydraException | OmegaConfBaseException):
        return _composition(error, chain, words)
    return None


def causes(error: BaseException) -> list[BaseException]:
    """The error, what caused it, what caused that, ..."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    return chain


def _instantiation(text: str, root: BaseException) -> str | None:
    """An argument that a constructor does not have or refuses; None for a bug inside a class of the user's own."""
    said = " ".join(str(root).split())
    found = re.search(r"target '([\w.]+)'", text)
    target = found[1] if found else ""
    is_own = bool(target) and not target.startswith(("contrastive.", "torch.", "torchvision."))
    if isinstance(root, ImportError | InstantiationException):
        return f"{said}: {SEE_ALL}"
    if isinstance(root, TypeError) and (odd := re.search(r"unexpected keyword|missing .*?'(\w+)'", said)):
        if not is_own:
            return f"{said}: {SEE_ALL}"
        called = target.rpartition(".")[2]
        if not said.startswith((f"{called}.", f"{called}(")):  # of something that it calls
            return None
        if "'in_channels'" in said:
            return f"{said}: try in_channels in it, the channels of images that are not RGB"
        return f"{said}: try {f'a line `{odd[1]}: VALUE` in its YAML' if odd[1] else 'it without that setting'}"
    if isinstance(root, OSError) and root.filename and target:
        return f"{target} cannot use {root.filename} ({root.strerror}): try a path that is there"
    if target and not is_own and isinstance(root, REFUSALS):
        return f"{target} refuses these settings ({said}): {SEE_ALL}"
    return None


def _composition(error: BaseException, chain: list[BaseException], words: Sequence[str]) -> str:
    """An error of Hydra or OmegaConf: by its fields, by the words that were typed, else in the library's own words."""
    for link in chain:
        if isinstance(link, ValidationError) and link.full_key in (hints := get_type_hints(Settings)):
            key, default = link.full_key, defaults(words).get(link.full_key, "...")
            expected = " or ".join(described(hints[key]))
            return f"{key} must be {expected}, got {typed(link.value)}: try {key}={typed(default)}"
        if isinstance(link, MissingConfigException) and link.missing_cfg_file and "/" in link.missing_cfg_file:
            group, _, name = link.missing_cfg_file.rpartition("/")
            if extra := PLUGINS.get(name.partition("_")[0]):
                return f"{name} is not installed: try pip install -e '.[{extra}]'"
            return no_option(group, name, config_dirs(words)[0])
    is_grammar = isinstance(error, OverrideParseException)
    if said := (is_grammar and not_a_setting(words)) or unknown_setting(words):
        return said
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    cause = "" if chain[-1] is error else " ".join(str(chain[-1]).split())
    return f"{f'{first} {cause}'.strip()}: {SEE_ALL}"


STANDARD = Path(sysconfig.get_path("stdlib"))
# The words of a RuntimeError: of the host's allocator; of CUDA (a context, pinned memory) and NCCL; of cuBLAS and cuDNN
OUT_OF_MEMORY = ("can't allocate memory", "std::bad_alloc", "out of memory", "STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the host or on a GPU."""
    text = str(error)
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and any(words in text for words in OUT_OF_MEMORY))
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    )


def out_of_memory(error: BaseException) -> str:
    """The sentence for a failed allocation."""
    size = re.search(r"[Tt]ried to allocate (\d[\d.]* ?\w+)", str(error))
    where = "the GPU" if re.search("cuda|cudnn|cublas", str(error), re.IGNORECASE) else "this machine"
    wanted = f" ({size[1]} more were asked for)" if size else ""
    return f"{where} has too little memory{wanted}: {KNOBS}"


def in_a_line(error: BaseException) -> str:
    """The last line of the traceback of what caused an error, and the last place in code of one's own, else in ours."""
    while error.__cause__ is not None and error.__cause__.__traceback__ is not None:  # a process of a pool has none
        error = error.__cause__
    files = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_library(Path(frame.filename))]
    is_ours = [Path(frame.filename).is_relative_to(PACKAGE) for frame in files]
    called = files[is_ours.index(True) :] if any(is_ours) else files  # without the script that called us
    yours = [frame for frame in called if not Path(frame.filename).is_relative_to(PACKAGE)]
    said = " ".join(f"{type(error).__name__}: {error}".split())
    place = "".join(f" ({last.filename}, line {last.lineno}, in {last.name})" for last in (yours or called)[-1:])
    return f"{said}{place}: try the same command once that is mended"


def _is_library(file: Path) -> bool:
    """Whether a frame is of an installed package, or of Python itself."""
    return bool(LIBRARIES.intersection(file.parts)) or str(file).startswith("<") or file.is_relative_to(STANDARD)
