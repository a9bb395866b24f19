"""Draw the README's chart: what a loss gains over NT-Xent as it comes, and after an equal search.

    python scripts/readme_chart.py

It reads docs/results/debiased_tuned.json, where both kinds of rows ran in one setting, and writes docs/gain.png.
"""

import json
from pathlib import Path

from contrastive.study.claims import judge
from contrastive.study.palette import colors_of
from contrastive.study.record import record_frame
from contrastive.study.render.plot import new_figure

ROOT = Path(__file__).resolve().parents[1]
LOSSES = ("Debiased negatives", "Debiased positives")
STATES = {"t 0.5": "as it comes", "tuned": "after an equal search"}
METRICS = {"knn_top1": "kNN", "linear_top1": "linear probe"}


def main() -> None:
    """Write the picture."""
    frame = record_frame(json.loads((ROOT / "docs/results/debiased_tuned.json").read_text()))
    colors = colors_of(LOSSES)
    figure, panels = new_figure(len(METRICS))
    figure.set_size_inches(8, 2.2)
    for panel, (metric, title) in zip(panels, METRICS.items(), strict=True):
        rows = [(loss, state) for loss in LOSSES for state in STATES]
        claims = [
            {"better": f"{loss}, {state}", "worse": f"NT-Xent, {state}", "metric": metric, "gap": 0.0}
            for loss, state in rows
        ]
        for y, ((loss, state), claim) in enumerate(zip(rows, judge(frame, claims, two_sided=True), strict=True)):
            fill = colors[loss] if state == "tuned" else "white"
            panel.plot([claim["low"], claim["high"]], [y, y], color=colors[loss], linewidth=2)
            panel.plot(claim["effect"], y, "o", color=colors[loss], markerfacecolor=fill, markersize=7)
        panel.axvline(0, color="gray", linewidth=0.8)
        panel.set(title=title, xlabel="points over NT-Xent", yticks=range(len(rows)))
        labels = [f"{loss}, {STATES[state]}" for loss, state in rows] if panel is panels[0] else [""] * len(rows)
        panel.set_yticklabels(labels)
        panel.margins(y=0.2)
        panel.invert_yaxis()
    figure.savefig(ROOT / "docs/gain.png", dpi=150)


if __name__ == "__main__":
    main()
