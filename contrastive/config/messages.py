"""Translate errors of Hydra, OmegaConf and the file system into one sentence that ends in what to type."""

import errno
import re

from hydra.errors import HydraException, InstantiationException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from contrastive.config.paths import CONFIGS, options
from contrastive.errors import ConfigError

SEE_ALL = "try python train.py --cfg job"
PATH_ERRORS = (errno.ELOOP, errno.ENOENT, errno.EILSEQ, errno.EINVAL)  # besides those of system_errors.py
REFUSALS = (TypeError, ValueError, OverflowError, ZeroDivisionError, RuntimeError, IndexError)  # of a constructor


def user_message(error: BaseException, *, place: str = "hydra.run.dir=PATH") -> str | None:
    """One line for the user; None for errors the user cannot fix, whose traceback says more.

    Args:
        place: what to type for another folder where the file system refuses one.
    """
    message = _message(error, place)
    return None if message is None else _printable(message)


def _printable(message: str) -> str:
    """The message with control characters, which values may hold, as \\x1b: a terminal would obey them."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in message)


def _message(error: BaseException, place: str) -> str | None:
    chain = _causes(error)
    for link in chain:
        if isinstance(link, ConfigError):
            return str(link)
    if message := system_error(chain, place=place):
        return message
    if isinstance(error, InstantiationException):
        return _instantiation(str(error), chain[-1])
    if isinstance(error, OSError) and error.errno in PATH_ERRORS and error.filename:
        advice = f"try {place} if a run shall not be written there"
        return f"{error.filename} cannot be used ({error.strerror}): {advice}"
    if not isinstance(error, HydraException | OmegaConfBaseException):
        return None
    text = "\n".join(str(link) for link in chain)
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    for explain in (_wrong_type, _unknown_key, _missing_plugin, _unknown_option, _needs_multirun, _not_an_override):
        if message := explain(text):
            return message
    last = chain[-1]
    return f"{first} {'' if last is error else ' '.join(str(last).split())}".strip() + f": {SEE_ALL}"


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
    wrong_arguments = isinstance(root, TypeError) and re.search(r"unexpected keyword|missing \d+ req", str(root))
    if wrong_arguments or isinstance(root, ImportError):
        return f"{' '.join(str(root).split())}: {SEE_ALL}"
    target = re.search(r"target '((?:contrastive|torch|torchvision)\.[\w.]+)'", text)
    if target and isinstance(root, REFUSALS):
        return f"{target[1]} refuses these settings ({' '.join(str(root).split())}): {SEE_ALL}"
    return None


def _wrong_type(text: str) -> str | None:
    """A value of another type than the schema's."""
    key = re.search(r"full_key: (\S+)", text)
    if key is None or "Key '" in text:
        return None
    kind = re.search(
        r"could not be converted to (\w+)|not a valid (bool)|is incompatible with type hint '([^']+)'", text
    )
    value = re.search(r"Error merging override [^=]+=(.*)", text)
    if kind is None and "is not Optional" not in text:
        return None
    names = {
        "Integer": "a whole number",
        "Float": "a number",
        "bool": "true or false",
        "Union[bool, str]": "auto, true or false",
    }
    expected = names.get(next((word for word in kind.groups() if word), ""), "another type") if kind else "set"
    default = OmegaConf.select(OmegaConf.load(CONFIGS / "train.yaml"), key[1], default="...")
    given = (value[1] or "nothing") if value else "?"
    return f"{key[1]} must be {expected}, got {given}: try {key[1]}={str(default).lower()}"


def _unknown_key(text: str) -> str | None:
    unknown = re.search(r"Could not (?:override|append|delete)[^']*'([^']+)'", text)
    if unknown is None:
        return None
    if "An item is already at" in text:
        return f"there is a setting {unknown[1]} already: try it without the +"
    if "The value of" in text:
        return f"{unknown[1]} has another value and is not left out: try ~{unknown[1]} without a value"
    if "accumul" in unknown[1]:
        return (
            "plain gradient accumulation is another loss, whose anchors see the negatives of their own chunk only: "
            "try grad_cache_chunk=128, which has the gradient of the whole batch"
        )
    return f"there is no setting {unknown[1]}: {SEE_ALL} to see them all"


def _missing_plugin(text: str) -> str | None:
    for plugin, extra in (("submitit", "slurm"), ("ray", "ray"), ("optuna", "search")):
        if re.search(rf"Could not (find|load) 'hydra/\w+/{plugin}", text):
            return f"{plugin} is not installed: try pip install -e '.[{extra}]'"
    return None


def _unknown_option(text: str) -> str | None:
    choice = re.search(r"Could not (?:find|load) '([^/']+)/([^']*)'", text)
    if choice is None:
        return None
    names = options(choice[1])
    known = f", known are {', '.join(names)}" if names else ""
    return f"there is no {choice[1]}={choice[2]}{known}: try python train.py --help"


def _needs_multirun(text: str) -> str | None:
    ambiguous = re.search(r"Ambiguous value for argument '([^']+)'", text)
    return f"{ambiguous[1]} lists several values: try python train.py -m {ambiguous[1]}" if ambiguous else None


def _not_an_override(text: str) -> str | None:
    word = re.search(r"Error parsing override '([^']*)'\s+missing EQUAL", text)
    return f"{word[1]} is not KEY=VALUE: try python train.py --help" if word else None


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
