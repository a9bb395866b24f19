"""kNN of push 4 less that of NT-Xent on Biased-MNIST, where the linear probe has the same accuracy.

python studies/over_datasets/progress.py

The record of colored_pace has both curves of each run, every ten epochs. A curve is followed to where the probe first
reaches a level, on straight lines between its points. Means over seeds, with the interval of a paired t-test.
"""

import json
import lzma
from pathlib import Path

import numpy as np
from scipy.stats import t

RECORD = Path(__file__).parent / "colored_pace.json.xz"
LEVELS = (40, 50, 60, 65, 70)


def first_at(level: float, probe: np.ndarray, *curves: np.ndarray) -> list[float]:
    """The values of curves where the probe first reaches a level, which it does after the first point."""
    after = np.flatnonzero(probe >= level)[0]
    before = after - 1
    share = (level - probe[before]) / (probe[after] - probe[before])
    return [float(curve[before] + share * (curve[after] - curve[before])) for curve in curves]


def curves_of(name: str) -> list[list[np.ndarray]]:
    """The epochs, the probe and kNN of each run of a row."""
    rows = {row["name"]: row["runs"] for row in json.loads(lzma.decompress(RECORD.read_bytes()))["rows"]}
    runs = [run["curves"] for run in rows[name]]
    return [
        [np.array(run["test/linear_top1"]["epoch"])]
        + [np.array(run[f"test/{probe}_top1"]["value"]) for probe in ("linear", "knn")]
        for run in runs
    ]


def table() -> list[str]:
    """The rows of the page."""
    rows = []
    plain, pushed = curves_of("NT-Xent, 160 epochs"), curves_of("push 4, 160 epochs")
    for level in LEVELS:
        sides = [
            np.array([first_at(level, probe, epoch, knn) for epoch, probe, knn in runs]) for runs in (plain, pushed)
        ]
        lead = sides[1][:, 1] - sides[0][:, 1]
        half = t.ppf(0.975, len(lead) - 1) * lead.std(ddof=1) / len(lead) ** 0.5
        epochs = " | ".join(f"{side[:, 0].mean():.0f}" for side in sides)
        rows.append(
            f"| {level} % | {epochs} | {lead.mean():.1f} [{lead.mean() - half:.1f}, {lead.mean() + half:.1f}] |"
        )
    return rows


if __name__ == "__main__":
    print("\n".join(table()))
