"""The known name that a mistyped one stands for."""

from collections.abc import Iterable
from difflib import get_close_matches


def neighbors(word: str, known: Iterable[str]) -> list[str]:
    """Up to three of the known names, the nearest first; `lr` is near to `optimizer.lr`."""
    names = list(dict.fromkeys(known))
    last = [name for name in names if "." in name and name.rpartition(".")[2] == word]
    return [*dict.fromkeys([*last, *get_close_matches(word, names, n=3, cutoff=0.7)])][:3]


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
