"""Pictures of runs, drawn from their metrics.jsonl."""

import json
from pathlib import Path


def curve(run: Path, key: str) -> tuple[list[float], list[float]]:
    """(epochs, values) of one logged metric."""
    points = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    points = [p for p in points if key in p]
    return [p["epoch"] for p in points], [p[key] for p in points]


def draw(runs: dict[str, Path], key: str, title: str, out: Path) -> None:
    """One line for each named run, against the epoch, into a PNG or SVG.

    Raises:
        ValueError: a run never logged the metric.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, run in runs.items():
        epochs, values = curve(run, key)
        if not values:
            raise ValueError(f"{run} has no {key}")
        axes.plot(epochs, values, marker="o", markersize=3, label=name)
    axes.set(xlabel="epoch", ylabel=key, title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=120)
    plt.close(figure)
