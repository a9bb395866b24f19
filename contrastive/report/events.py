"""The sample views and the histograms that a run wrote for TensorBoard."""

import base64
from pathlib import Path
from typing import Any

from contrastive.report.curves import short

PREFIX = "similarity/"  # histograms of cosine similarities by kind of pair, on biased data
N_BINS = 40  # of equal width, on [-1, 1]


def views_as_png(run: Path) -> str | None:
    """The views of the first batch as a PNG in base64; None if the run has none."""
    events = _read_events(run)
    if events is None or "views" not in events.Tags()["images"]:
        return None
    return base64.b64encode(events.Images("views")[-1].encoded_image_string).decode()


def similarity_histograms(run: Path) -> dict[str, list[float]]:
    """{kind of pair: percent of its pairs in each of 40 bins of cosine similarity on [-1, 1]}, after training."""
    events = _read_events(run)
    names = [] if events is None else [name for name in events.Tags()["histograms"] if name.startswith(PREFIX)]
    return {name.removeprefix(PREFIX): equal_bins(events.Histograms(name)[-1].histogram_value) for name in names}


def equal_bins(histogram: Any) -> list[float]:
    """TensorBoard's histogram, whose bins grow with the distance from 0, as percent in bins of equal width.

    Each of its bins is taken to be filled evenly.
    """
    shares, lower = [0.0] * N_BINS, histogram.min
    for upper, count in zip(histogram.bucket_limit, histogram.bucket, strict=True):
        upper = min(max(upper, lower), 1.0)
        width = max(upper - lower, 1e-9)
        for i in range(N_BINS):
            left, right = 2 * i / N_BINS - 1, 2 * (i + 1) / N_BINS - 1
            overlap = max(0.0, min(right, lower + width) - max(left, lower))
            shares[i] += 100 * count / histogram.num * overlap / width
        lower = upper
    return [short(share) for share in shares]


def _read_events(run: Path) -> Any:
    """TensorBoard's reader of the run's newest images and histograms; None if the run has no events."""
    if not list((run / "tb").glob("events.*")):
        return None
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # late: slow to import

    kinds = ("images", "histograms", "scalars", "tensors", "compressedHistograms")
    events = EventAccumulator(str(run / "tb"), size_guidance=dict.fromkeys(kinds, 1))  # the newest of each; 0 keeps all
    events.Reload()
    return events
