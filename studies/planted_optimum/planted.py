"""NT-Xent that works in a factor of two in temperature: a planted narrow optimum, level with that of NT-Xent."""

import math

from contrastive import NTXent

CENTER, HALF = 0.1414, 0.5  # of the interval of temperatures that work, 0.1 to 0.2; in octaves
STRETCH = 4.0  # octaves for each one outside


class NarrowNTXent(NTXent):
    """NT-Xent at the temperature that is set, if it lies within 0.1 to 0.2, else at one that is four times as far away.

    Args:
        temperature: t > 0.
    """

    def __init__(self, *, temperature: float = 0.5) -> None:
        octaves = math.log2(temperature / CENTER)
        outside = math.copysign(max(0.0, abs(octaves) - HALF), octaves)
        super().__init__(temperature=temperature * 2 ** ((STRETCH - 1) * outside))
