"""The words for a difference, the same for a claim of a table, a pair of a comparison and one run before and after."""

VERDICTS = ("better", "worse", "equal", "undecided", "failed")  # failed: a run broke down, so that nothing is judged


def verdict(low: float | None, high: float | None, *, gap: float = 0.0, margin: float = 0.0) -> str:
    """What an interval of a difference says: that it is above the gap (better), below minus the gap (worse), smaller
    than the margin (equal), or none of these (undecided).

    Args:
        low: its lower end; None where there is no interval.
        high: its upper end.
        gap: what a difference must exceed to be called better or worse.
        margin: within which a difference is called equal.
    """
    if low is None or high is None:
        return "undecided"
    if low > gap or high < -gap:
        return "better" if low > gap else "worse"
    return "equal" if -margin < low and high < margin else "undecided"
