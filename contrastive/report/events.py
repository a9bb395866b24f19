"""The sample views and the histograms that a run wrote for TensorBoard."""

import base64
from pathlib import Path
from typing import Any

from contrastive.report.curves import short
from contrastive.run.curve_names import OTHERS

PREFIX = f"{OTHERS['similarity']}/"  # histograms of cosine similarities by kind of pair
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
    if events is None:
        return {}
    from tensorboard.util.tensor_util import make_ndarray  # late: slow to import

    tags = [tag for tag in events.Tags()["tensors"] if tag.startswith(PREFIX)]
    return {
        tag.removeprefix(PREFIX): equal_bins(make_ndarray(events.Tensors(tag)[-1].tensor_proto).tolist())
        for tag in tags
    }


def equal_bins(bins: list[list[float]]) -> list[float]:
    """TensorBoard's histogram, rows of (lower edge, upper edge, count), as percent in 40 bins on [-1, 1].

    Each of its bins is taken to be filled evenly.
    """
    shares, total = [0.0] * N_BINS, sum(count for *_, count in bins)
    for lower, upper, count in bins:
        width = max(upper - lower, 1e-9)
        for i in range(N_BINS):
            left, right = 2 * i / N_BINS - 1, 2 * (i + 1) / N_BINS - 1
            overlap = max(0.0, min(right, lower + width) - max(left, lower))
            shares[i] += 100 * count / total * overlap / width
    return [short(share) for share in shares]


def _read_events(run: Path) -> Any:
    """TensorBoard's reader of the run's newest images and histograms; None if the run has no events."""
    if not list(run.glob("events.*")):
        return None
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # late: slow to import

    kinds = ("images", "tensors")
    events = EventAccumulator(str(run), size_guidance=dict.fromkeys(kinds, 1))  # the newest of each; 0 keeps all
    events.Reload()
    return events
