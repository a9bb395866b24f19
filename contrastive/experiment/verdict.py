"""What the test images say of training: intervals of accuracies, and one sentence on whether it helped."""

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrastive.bits import unpack
from contrastive.run.figures import KNN, LINEAR
from contrastive.text import marked
from contrastive.verdict import verdict

READ_OUTS = (LINEAR, KNN, "few_shot_top1")  # the first that both have is judged
Z = 1.959964  # of the 95 % interval


class Gain(NamedTuple):
    """Two accuracies on the same n images, their difference in points, and the ends of its 95 % interval."""

    before: float
    after: float
    n: int
    points: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        return verdict(self.low, self.high)


def gain(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> Gain:
    """The gain of `after` over `before`, each (N,): whether an image was classified right.

    The interval is that of a difference of paired proportions by Agresti & Min 2005 (Stat. Med. 24, 729-740): Wald's,
    with half an image added to each of the four cells. It holds for few images, too, and is never of length 0.
    """
    n, won, lost = len(before), int((~before & after).sum()), int((before & ~after).sum())
    center = (won - lost) / (n + 2)
    half = Z * math.sqrt(won + lost + 1 - (won - lost) ** 2 / (n + 2)) / (n + 2)
    accuracies = 100 * float(before.mean()), 100 * float(after.mean())
    return Gain(*accuracies, n, 100 * (won - lost) / n, 100 * (center - half), 100 * (center + half))


def gains(result: dict[str, Any], names: Iterable[str]) -> dict[str, Gain]:
    """{name: gain by training} of those accuracies whose answers to the test images are known before and after it."""
    before, after = answers(result, "untrained_correct"), answers(result, "correct")
    return {name: gain(before[name], after[name]) for name in names if name in before and name in after}


def answers(result: dict[str, Any], key: str) -> dict[str, NDArray[np.bool_]]:
    """{accuracy: which test images it is right about}; a text that holds no bits, as in a stranger's file, is none."""
    found = {}
    for name, text in result.get(key, {}).items():
        with suppress(ValueError):
            found[name] = unpack(text)
    return found


def wilson(percent: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share of n images, in percent (Wilson 1927): it stays within 0 and 100."""
    p = percent / 100
    center, half = p + Z**2 / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    return 100 * (center - half) / (1 + Z**2 / n), 100 * (center + half) / (1 + Z**2 / n)


def interval_column(result: dict[str, Any]) -> list[str]:
    """A column of a table of the accuracies in `test`: its head, and the interval of each; [] where none is known."""
    numbers = {name: len(right) for name, right in answers(result, "correct").items() if len(right)}
    shown = {name: value for name, value in result["test"].items() if name in numbers and 0 <= value <= 100}
    known = {name: wilson(value, numbers[name]) for name, value in shown.items()}
    cells = [f"{known[name][0]:.1f} to {known[name][1]:.1f}" if name in known else "-" for name in result["test"]]
    return [f"95 % over {max(numbers.values()):,} images", *cells] if known else []


def majority_text(record: dict[str, Any]) -> str:
    """What a guess gets where more than half of the test images are of one class; empty elsewhere."""
    if "majority" not in record:
        return ""
    percent, name = record["majority"]["percent"], record["majority"]["class"]
    guess = f"{percent:.2f} % of the test images are of one class, {name}: to guess it always gives that top-1"
    return f"{guess}; the evaluator class_audit gives the mean over classes"


def before_training(result: dict[str, Any]) -> str:
    """What the encoder was before training: untrained, or as loaded with weights."""
    return str(result.get("encoder", {}).get("before", "untrained"))


def verdict_text(result: dict[str, Any]) -> str | None:
    """Whether training helped, or where nobody can tell; None where it helped, as it should, an untrained encoder.

    Args:
        result: the content of result.json.
    """
    if "untrained_correct" not in result:
        return None
    if before_training(result) == "as loaded":
        return _of_weights(next(iter(gains(result, READ_OUTS).items()), None))
    found = gains(result, (KNN, LINEAR))
    of = {word: [name for name, own in found.items() if own.verdict == word] for word in ("worse", "undecided")}
    lines = []
    if of["worse"]:
        worse = (f"{name} ({found[name].after:.2f}, untrained {found[name].before:.2f})" for name in of["worse"])
        said = f"training made the encoder worse in {' and '.join(worse)}: try more epochs or another optimizer.lr"
        lines.append(marked(said, "yellow"))
    if of["undecided"]:
        n = found[of["undecided"][0]].n
        lines.append(f"not told from untrained by {n:,} test images: {' and '.join(of['undecided'])}")
    return "\n".join(lines) or None


def _of_weights(judged: tuple[str, Gain] | None) -> str:
    """Whether training helped an encoder that came with weights, by the first read-out that knows it."""
    if judged is None:
        return (
            "Whether it helped is not known, because no test image has a label: try a few hundred images in "
            "PATH/test/<class>/ and PATH/train/<class>/"
        )
    name, found = judged
    words = {
        "better": "It helped",
        "worse": "It got worse",
        "undecided": f"It did not help, as far as {found.n:,} test images tell",
    }[found.verdict]
    return (
        f"{words}: {name} is {found.after:.1f} and was {found.before:.1f} with the weights that it began "
        f"with, {found.points:+.1f} points ({found.low:+.1f} to {found.high:+.1f}, 95 % over {found.n:,} test images; "
        "another seed is not counted)"
    )
