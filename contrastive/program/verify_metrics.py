"""Compare the figures that a run recorded with those that were computed again."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

TOLERANCE = 0.01  # relative, on another device or with another torch


class Check(NamedTuple):
    """One line of the report; `passed` is None for what cannot be checked here."""

    name: str
    passed: bool | None
    details: str


def compare(name: str, recorded: Any, computed: Any, *, exact: bool, has_all: bool = True) -> Iterator[Check]:
    """A check for each number of two nested records.

    Args:
        exact: whether they must agree but for rounding. has_all: whether everything recorded can be computed.
    """
    if isinstance(recorded, dict):
        found = computed if isinstance(computed, dict) else {}
        if not has_all and recorded.get("read_out") != found.get("read_out"):  # of the checkpoint's classifier
            found = {}
        if not recorded and computed is not None and computed != {}:
            yield Check(name, False, "computed, but not in result.json")
        for key in dict.fromkeys([*recorded, *found]):
            if key not in recorded:
                yield Check(f"{name}.{key}", False, "computed, but not in result.json")
                continue
            yield from compare(f"{name}.{key}", recorded[key], found.get(key), exact=exact, has_all=has_all)
    elif isinstance(recorded, str | list | bool) or recorded is None:
        yield Check(name, recorded == computed if has_all or computed is not None else None, str(computed))
    elif not isinstance(computed, int | float):
        reason = "nothing computes it" if has_all else "not computed without the checkpoint"
        yield Check(name, False if has_all else None, f"{recorded} recorded; {reason}")
    else:
        same = math.isclose(recorded, computed, rel_tol=1e-9 if exact else TOLERANCE, abs_tol=0 if exact else TOLERANCE)
        yield Check(name, same, f"{computed:.6g}" if same else f"{computed:.6g} computed, {recorded:.6g} recorded")
