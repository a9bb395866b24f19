"""Errors of Hydra, OmegaConf and the system in one sentence that ends in what to type."""

import errno
import sysconfig
import traceback
from collections.abc import Sequence
from inspect import formatannotation
from pathlib import Path
from typing import get_type_hints

import yaml
from hydra.errors import HydraException, InstantiationException, MissingConfigException, OverrideParseException
from omegaconf.errors import ConfigAttributeError, OmegaConfBaseException, ValidationError

from contrastive.config import LIBRARIES, PACKAGE
from contrastive.config.compose import config_dirs
from contrastive.config.reference import Setting, every_setting, option_files
from contrastive.config.settings import Settings
from contrastive.config.words import SYNONYMS, no_option, no_setting, typed
from contrastive.errors import ConfigError
from contrastive.text import printable

SEE_ALL = "try python train.py --help"
OF_THE_DISK = {
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENAMETOOLONG, errno.EIO, errno.ENOLCK, errno.ENOSYS,
    errno.EOPNOTSUPP, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST,
}  # fmt: skip
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
            return f"a YAML cannot be read ({said(link)}): compare it with configs/loss/nt_xent.yaml"
        if is_out_of_memory(link):
            return f"too little memory ({said(link)}): {KNOBS}"
        if isinstance(link, OSError) and (link.errno in OF_THE_DISK or (link is error and link.filename)):
            file = f"{link.filename}: " if link.filename else ""
            why = (link.strerror or "error").lower()
            return f"{file}{why}: mend that and run the same command again, or try {place} in another place"
    if isinstance(error, InstantiationException):  # a bug in code of a component has a traceback
        last = traceback.extract_tb(chain[-1].__traceback__)[-1:]
        return f"{said(error)}: {SEE_ALL}" if all(map(_is_library, last)) else None
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


def said(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())


def _composition(error: BaseException, chain: list[BaseException], words: Sequence[str]) -> str:
    """An error of Hydra or OmegaConf: by its fields, else in the library's own words."""
    folders = config_dirs(words)[0]
    for link in chain:
        if isinstance(link, ValidationError) and link.full_key in (hints := get_type_hints(Settings)):
            key, kind = link.full_key, formatannotation(hints[link.full_key])
            return f"{key} must be {kind}, got {typed(link.value)}: try python train.py --help {key}"
        if isinstance(link, ConfigAttributeError) and link.full_key:
            return _unknown(link.full_key, words, [*every_setting(folders)])
        if isinstance(link, MissingConfigException) and link.missing_cfg_file and "/" in link.missing_cfg_file:
            group, _, name = link.missing_cfg_file.rpartition("/")
            return no_option(group, name, option_files(group, folders))
    if isinstance(error, OverrideParseException):
        cause = f" ({said(chain[-2])})" if len(chain) > 2 else ""  # the last is of the parser's own
        remedy = "try it without blanks, or in quotes as 'evaluator=[knn,linear]'"
        return f"{error.override} is not KEY=VALUE{cause}: {remedy}"
    cause = said(error.__cause__) if error.__cause__ and isinstance(error, HydraException) else ""
    return f"{f'{said(error)} {cause}'.strip()}: {SEE_ALL}"


def _unknown(key: str, words: Sequence[str], everywhere: Sequence[tuple[str, Setting]]) -> str:
    """The sentence for a setting that the chosen options lack: other options have it, or its neighbors."""
    group = key.partition(".")[0]
    having = [
        option for option, item in everywhere if option.startswith(f"{group}=") and f"{item.key}.".startswith(f"{key}.")
    ]
    if having and key not in SYNONYMS:
        return f"{key} is of options that are not chosen: try {' or '.join(dict.fromkeys(having))} with it"
    value = next((word.partition("=")[2] for word in words if word.startswith(f"{key}=")), "VALUE")
    return no_setting(key, [item.key for _, item in everywhere], value)


STANDARD = Path(sysconfig.get_path("stdlib"))
# The words of a RuntimeError: of the host's allocator; of CUDA (a context, pinned memory) and NCCL; of cuBLAS and cuDNN
OUT_OF_MEMORY = ("can't allocate memory", "std::bad_alloc", "out of memory", "STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the host or on a GPU."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, RuntimeError) and any(words in str(error) for words in OUT_OF_MEMORY))
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    )


def in_a_line(error: BaseException) -> str:
    """The last line of the traceback of what caused an error, and its last place in code that is of no library."""
    while error.__cause__ is not None and error.__cause__.__traceback__ is not None:  # a process of a pool has none
        error = error.__cause__
    last = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_library(frame)][-1:]
    place = "".join(f" ({frame.filename}, line {frame.lineno}, in {frame.name})" for frame in last)
    return f"{type(error).__name__}: {said(error)}{place}: try the same command once that is mended"


def _is_library(frame: traceback.FrameSummary) -> bool:
    """Whether it is of an installed package, or of Python itself."""
    file = Path(frame.filename)
    is_ours = file.is_relative_to(PACKAGE)
    return not is_ours and (bool(LIBRARIES.intersection(file.parts)) or file.is_relative_to(STANDARD))
