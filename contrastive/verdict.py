"""The words for a difference, the same for a claim of a table, a pair of a comparison and one run before and after."""

# failed: there is nothing to judge, for a run broke down
VERDICTS = ("better", "worse", "equal", "undecided", "failed")


def verdict(low: float | None, high: float | None, *, gap: float = 0.0, margin: float = 0.0) -> str:
    """What an interval of a difference says: that it is above the gap (better), below minus the gap (worse), smaller
    than the margin (equal), or none of these (undecided).

    Args:
        low: its lower end; None where there is no interval.
        high: its upper end.
        gap: what a difference must exceed, such as that of a claim.
        margin: what counts as equal.
    """
    if low is None or high is None:
        return "undecided"
    if low > gap or high < -gap:
        return "better" if low > gap else "worse"
    return "equal" if -margin < low and high < margin else "undecided"
