"""Whether training helped an encoder that came with weights: one sentence, with an interval over the test images."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrastive.bits import unpack
from contrastive.run.figures import KNN, LINEAR
from contrastive.verdict import verdict

READ_OUTS = (LINEAR, KNN, "few_shot_top1")  # the first that both have is judged
Z = 1.959964  # of the 95 % interval


class Gain(NamedTuple):
    """A difference of two accuracies on the same images, in points, and the ends of its 95 % interval."""

    points: float
    low: float
    high: float


def gain(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> Gain:
    """The gain of `after` over `before`, each (N,): whether an image was classified right.

    The interval is that of a difference of paired proportions by Agresti & Min 2005 (Stat. Med. 24, 729-740): Wald's,
    with half an image added to each of the four cells. It holds for few images, too, and is never of length 0.
    """
    n, won, lost = len(before), int((~before & after).sum()), int((before & ~after).sum())
    center = (won - lost) / (n + 2)
    half = Z * math.sqrt(won + lost + 1 - (won - lost) ** 2 / (n + 2)) / (n + 2)
    return Gain(100 * (won - lost) / n, 100 * (center - half), 100 * (center + half))


def verdict_text(result: dict[str, Any]) -> str | None:
    """Whether training helped, of a run that started from weights and was trained; None of any other.

    Args:
        result: the content of result.json.
    """
    bits, after = result.get("untrained_correct"), result.get("correct", {})
    if bits is None:
        return None
    name = next((name for name in READ_OUTS if name in bits and name in after), None)
    if name is None:
        return (
            "Whether it helped is not known, because no test image has a label: try a few hundred images in "
            "PATH/test/<class>/ and PATH/train/<class>/"
        )
    before, now = unpack(bits[name]), unpack(after[name])
    found = gain(before, now)
    words = {
        "better": "It helped",
        "worse": "It got worse",
        "undecided": f"It did not help, as far as {len(now):,} test images tell",
    }[verdict(found.low, found.high)]
    return (
        f"{words}: {name} is {100 * now.mean():.1f} and was {100 * before.mean():.1f} with the weights that it began "
        f"with, {found.points:+.1f} points ({found.low:+.1f} to {found.high:+.1f}, 95 % over {len(now):,} test images; "
        "another seed is not counted)"
    )
