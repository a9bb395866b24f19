"""Draw the README's chart: what a loss gains over NT-Xent as it comes, and after an equal search.

    python scripts/readme_chart.py

It reads docs/results/gain.json, a comparison in which every loss ran both ways, and writes docs/gain.png.
"""

import json
from pathlib import Path

from contrastive.study.claims import judge
from contrastive.study.compare.outcome import AS_IT_COMES
from contrastive.study.palette import colors_of
from contrastive.study.record import record_frame
from contrastive.study.render.plot import new_figure

ROOT = Path(__file__).resolve().parents[1]
LOSSES = {
    "debiased_neg": "debiased negatives",
    "debiased_pos": "debiased positives",
    "sigmoid": "sigmoid",
    "push": "NT-Xent, push searched",
}
STATES = {AS_IT_COMES: "as it comes", "": "after an equal search"}
METRICS = {"knn_top1": "kNN", "linear_top1": "linear probe"}


def main() -> None:
    """Write the picture."""
    frame = record_frame(json.loads((ROOT / "docs/results/gain.json").read_text()))
    colors = colors_of(list(LOSSES))
    figure, panels = new_figure(len(METRICS))
    figure.set_size_inches(8, 3.2)
    rows = [(loss, state) for loss in LOSSES for state in STATES if (loss, state) != ("push", AS_IT_COMES)]  # NT-Xent
    for panel, (metric, title) in zip(panels, METRICS.items(), strict=True):
        claims = [
            {"better": f"{loss}{state}", "worse": f"nt_xent{state}", "metric": metric, "gap": 0.0}
            for loss, state in rows
        ]
        for y, ((loss, state), claim) in enumerate(zip(rows, judge(frame, claims, two_sided=True), strict=True)):
            panel.plot([claim["low"], claim["high"]], [y, y], color=colors[loss], linewidth=2)
            panel.plot(claim["effect"], y, "o", color=colors[loss], markerfacecolor="white" if state else colors[loss])
        panel.axvline(0, color="gray", linewidth=0.8)
        panel.set(title=title, xlabel="points over NT-Xent", yticks=range(len(rows)))
        labels = (
            [f"{LOSSES[loss]}, {STATES[state]}" for loss, state in rows] if panel is panels[0] else [""] * len(rows)
        )
        panel.set_yticklabels(labels)
        panel.margins(y=0.2)
        panel.invert_yaxis()
    figure.savefig(ROOT / "docs/gain.png", dpi=150)


if __name__ == "__main__":
    main()
