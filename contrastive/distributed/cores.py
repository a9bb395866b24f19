"""The cores that this process may use. Imports no torch."""

import os


def usable_cores() -> set[int]:
    """Their numbers."""
    try:
        return os.sched_getaffinity(0)
    except AttributeError:  # on macOS
        return set(range(os.cpu_count() or 1))


def n_cores() -> int:
    """How many there are."""
    return len(usable_cores())
