"""The cores that this process may use. Imports no torch."""

import os


def n_cores() -> int:
    """How many there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # on macOS
        return os.cpu_count() or 1
