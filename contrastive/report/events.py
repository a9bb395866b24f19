"""The sample views and the histograms that a run wrote for TensorBoard."""

import base64
from pathlib import Path
from typing import Any

from contrastive.report.curves import short

HISTOGRAMS = "similarity/"  # cosine similarity of each kind of pair, on biased data


def views_as_png(run: Path) -> str | None:
    """The views of the first batch as a PNG in base64; None if the run has none."""
    events = _read_events(run)
    if events is None or "views" not in events.Tags()["images"]:
        return None
    return base64.b64encode(events.Images("views")[-1].encoded_image_string).decode()


def similarity_histograms(run: Path) -> dict[str, dict[str, list[float]]]:
    """{kind of pair: {limit: upper ends of the bins, share: of the pairs, in percent}} after training."""
    events = _read_events(run)
    names = [] if events is None else [name for name in events.Tags()["histograms"] if name.startswith(HISTOGRAMS)]
    histograms = {}
    for name in names:
        histogram = events.Histograms(name)[-1].histogram_value
        share = [short(100 * count / histogram.num) for count in histogram.bucket]
        limit = [short(value) for value in histogram.bucket_limit]
        histograms[name.removeprefix(HISTOGRAMS)] = {"limit": limit, "share": share}
    return histograms


def _read_events(run: Path) -> Any:
    """TensorBoard's reader of the run's newest images and histograms; None if the run has no events."""
    if not list((run / "tb").glob("events.*")):
        return None
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # late: slow to import

    kinds = ("images", "histograms", "scalars", "tensors", "compressedHistograms")
    events = EventAccumulator(str(run / "tb"), size_guidance=dict.fromkeys(kinds, 1))  # the newest of each; 0 keeps all
    events.Reload()
    return events
