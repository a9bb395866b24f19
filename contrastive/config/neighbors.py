"""The known name that a mistyped one stands for."""

from collections.abc import Iterable
from difflib import get_close_matches


def neighbors(word: str, known: Iterable[str]) -> list[str]:
    """Up to three of the known names, the nearest first: `lr` is near to `optimizer.lr`, `NTXent` to `nt_xent`."""
    names = list(dict.fromkeys(known))
    last = [name for name in names if "." in name and name.rpartition(".")[2] == word]
    plain = {name: _plain(name) for name in names}
    same = [name for name in names if plain[name] == _plain(word)]
    near = [*last, *same, *get_close_matches(word, names, n=3, cutoff=0.7)]
    parts = [name for name in names if len(word) > 2 and _plain(word) in plain[name]]
    return [*dict.fromkeys(near or parts)][:3]


def _plain(name: str) -> str:
    """A name as it is heard, without case, - and _."""
    return name.lower().replace("_", "").replace("-", "")


def did_you_mean(word: str, known: Iterable[str], *, typed: str = "{}") -> str:
    """`did you mean tau_plus?`, or nothing.

    Args:
        typed: how a name is typed, such as `loss={}`.
    """
    names = [typed.format(name) for name in neighbors(word, known)]
    return f"did you mean {' or '.join(names)}?" if names else ""


def no_setting(key: str, known: Iterable[str]) -> str:
    """The sentence for a setting that does not exist: which one was meant, and where they stand."""
    near = did_you_mean(key, known)
    return f"there is no setting {key}:{near and f' {near}'} try python train.py --help"
