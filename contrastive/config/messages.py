"""Translate errors of Hydra, OmegaConf and the system into one sentence that ends in what to type."""

import errno
import re
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

import yaml
from hydra.errors import HydraException, InstantiationException
from omegaconf.errors import OmegaConfBaseException

from contrastive.config.check_types import typed
from contrastive.config.compose import folders_in
from contrastive.config.identity import LISTS
from contrastive.config.mistaken import INSTEAD
from contrastive.config.neighbors import did_you_mean, no_setting
from contrastive.config.paths import LIBRARIES, PACKAGE
from contrastive.config.reference import GROUPS, defaults, option_files
from contrastive.errors import ConfigError
from contrastive.text import printable

SEE_ALL = "try python train.py --help"
PLUGINS = {"submitit": "slurm", "ray": "ray"}  # of Hydra, and the extra that installs each
KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false",
         "Union[bool, str]": "auto, true or false"}  # fmt: skip
REFUSALS = (TypeError, ValueError, OverflowError, ZeroDivisionError, RuntimeError, IndexError)  # of a constructor
FULL = "free some space and run the same command again, or try {place} on another disk"
USABLE = "try {place}, a folder that can be written to"
ADVICE = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: "the size of a file is limited here: try ulimit -f unlimited, or {place} on another disk",
    errno.ENAMETOOLONG: "try a shorter {place}",
    errno.ENOLCK: "try {place} on a disk of this machine, whose files can be locked",
    errno.EIO: "check the disk, then run the same command again",
} | dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST), USABLE)
KNOBS = "try a smaller batch_size, grad_cache_chunk=128 (holds fewer activations), resident=false or graphs=false"


def user_message(error: BaseException, *, place: str = "hydra.run.dir=PATH", words: Sequence[str] = ()) -> str | None:
    """One line for the user; None for errors the user cannot fix, whose traceback says more.

    Args:
        place: what to type for another folder where the file system refuses one.
        words: what was typed: of its dataset, loss and so on are the defaults and the neighbors of a typo.
    """
    message = _message(error, place, words)
    return message and printable(message)


def _message(error: BaseException, place: str, words: Sequence[str]) -> str | None:
    chain = _causes(error)
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


def _causes(error: BaseException) -> list[BaseException]:
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
    """An error of Hydra or OmegaConf: what people mistype in their words, else what the library says."""
    text, folders = "\n".join(str(link) for link in chain), folders_in(words)
    if message := _wrong_type(text, words):
        return message
    if unknown := re.search(r"Could not (?:override|append)[^']*'([^']+)'", text):
        if "An item is already at" in text:
            return f"the setting {unknown[1]} exists already: try it without the +"
        return _no_setting(unknown[1], words, folders)
    if "sweep type : INTERVAL" in text:  # of Hydra's own sweeper
        return "a sweep takes values, not intervals: try contrastive compare loss=NAME, which searches them"
    if choice := re.search(r"Could not (?:find|load) '([^']+)/([^'/]*)'", text):
        if extra := PLUGINS.get(choice[2].partition("_")[0]):
            return f"{choice[2]} is not installed: try pip install -e '.[{extra}]'"
        if instead := INSTEAD.get(f"{choice[1]}={choice[2]}".lower()):
            return f"there is no {choice[1]}={choice[2]}: try {instead}"
        names = option_files(choice[1], folders)
        if near := did_you_mean(choice[2], names, typed=f"{choice[1]}={{}}"):
            return f"there is no {choice[1]}={choice[2]}: {near} try python train.py --help {choice[1]}"
        listed = f", known are {', '.join(names)}" if names else ""
        own = "try --config-dir DIR (in Python config_dir=) for one of your own"
        return f"there is no {choice[1]}={choice[2]}{listed}: {own if choice[1] in GROUPS else SEE_ALL}"
    if several := re.search(r"Ambiguous value for argument '([^']+)'", text):
        return (
            f"{several[1]} lists several values: try python train.py -m {several[1]}{_with_a_point(several[1], words)}"
        )
    if word := re.search(r"Error parsing override '([^']*)'\s+missing EQUAL", text):
        return f"{word[1]} is not KEY=VALUE: try {_joined(word[1], words) or 'python train.py --help'}"
    if "Cannot find primary config" in text:
        return f"{str(error).split('.')[0]}: try it without --config-name, or experiment=NAME"
    if missing := re.search(r"Additional config directory '([^']+)' not found", text):
        return f"{missing[1]} is no folder: try --config-dir DIR, a folder that holds such as loss/my_loss.yaml"
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    cause = "" if chain[-1] is error else " ".join(str(chain[-1]).split())
    return f"{f'{first} {cause}'.strip()}: try python train.py --help"


def _no_setting(key: str, words: Sequence[str], folders: Sequence[Path]) -> str:
    """A setting that does not exist, or that belongs to an option which is not chosen."""
    if "accumul" in key:
        return (
            "plain gradient accumulation is another loss, whose anchors see the negatives of their own chunk only: "
            "try grad_cache_chunk=128, which has the gradient of the whole batch"
        )
    known = defaults(words)
    group, name = [*key.split("."), ""][:2]
    chosen = dict.fromkeys(other.split(".")[1] for other in known if other.startswith(f"{group}."))
    if group in LISTS and name in option_files(group, folders) and name not in chosen:
        return f"{key} is of a {group} that is not chosen: try '{group}=[{','.join([*chosen, name])}]'"
    return no_setting(key, [*GROUPS, *known])


def _with_a_point(word: str, words: Sequence[str]) -> str:
    """What was meant by temperature=0,5; nothing for a setting that is no fraction."""
    key, _, value = word.partition("=")
    default = typed(defaults(words).get(key, ""))
    is_one_number = re.fullmatch(r"\d+,\d+", value) and re.fullmatch(r"[\d.e-]*[.e][\d.e-]*", default)
    return f", or {key}={value.replace(',', '.')} with a point" if is_one_number else ""


def _joined(word: str, words: Sequence[str]) -> str:
    """loss=nt_xent of `loss nt_xent` and of `loss = nt_xent`; nothing where the word is no setting or ends all."""
    rest = [other for other in words[list(words).index(word) + 1 :] if other != "="] if word in words else []
    return f"{word}={rest[0].lstrip('=')}" if rest and word in {*GROUPS, *defaults(())} else ""


def _wrong_type(text: str, words: Sequence[str]) -> str | None:
    """A value of another type than the schema's."""
    key = re.search(r"full_key: (\S+)", text)
    kind = re.search(
        r"could not be converted to (\w+)|not a valid (bool)|is incompatible with type hint '([^']+)'", text
    )
    if key is None or "Key '" in text or (kind is None and "is not Optional" not in text):
        return None
    value = re.search(r"Error merging override [^=]+=(.*)", text)
    expected = KINDS.get(next(filter(None, kind.groups())), "another type") if kind else "set"
    default = typed(defaults(words).get(key[1], "..."))
    given = (value[1] or "nothing") if value else "?"
    return f"{key[1]} must be {expected}, got {given}: try {key[1]}={default}"


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
