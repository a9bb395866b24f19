"""Draw the README's chart: what three losses gain over NT-Xent, over equal searches of each.

    python docs/make/readme_chart.py

It reads the records of studies/fair_search and studies/push_searched_noise and writes docs/searched.png.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from contrastive.study.compare.judge import judge_comparison
from contrastive.study.compare.plan import Contestant, plan_from_dict
from contrastive.study.compare.stages import search_of
from contrastive.study.frame import record_frame
from contrastive.study.palette import colors_of

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
from plot import new_figure

ROOT = Path(__file__).resolve().parents[2]
RECORDS = {
    "fair_search": "no false positives\n3 searches of 32 points",
    "push_searched_noise": "30 % false positives\n5 searches of 8 points",
}
LOSSES = {"debiased_pos": "debiased positives", "sigmoid": "sigmoid", "push": "NT-Xent with a searched push"}
METRIC = "knn_top1"


def main() -> None:
    """Write the picture."""
    colors = colors_of(list(LOSSES))
    figure, panels = new_figure(len(RECORDS))
    figure.set_size_inches(8, 2.5)
    for panel, (name, title) in zip(panels, RECORDS.items(), strict=True):
        record = json.loads((ROOT / f"studies/{name}/record.json").read_text())
        for y, loss in enumerate(LOSSES):
            claim = over_nt_xent(record, loss)
            panel.plot([claim["low"], claim["high"]], [y, y], color=colors[loss], linewidth=2)
            panel.plot(claim["effect"], y, "o", color=colors[loss])
            each = of_each_search(record, loss) - of_each_search(record, "nt_xent")
            panel.plot(each, [y + 0.25] * len(each), "|", color=colors[loss], markersize=6)
        panel.axvline(0, color="gray", linewidth=0.8)
        panel.set(title=title, xlabel="points over NT-Xent by kNN", xlim=(-2, 6), yticks=range(len(LOSSES)))
        panel.set_yticklabels(LOSSES.values() if panel is panels[0] else [""] * len(LOSSES))
        panel.margins(y=0.2)
        panel.invert_yaxis()
    figure.savefig(ROOT / "docs/searched.png", dpi=150)


def over_nt_xent(record: dict[str, Any], loss: str) -> dict[str, Any]:
    """The verdict on a loss against NT-Xent, as a comparison of these two gives it."""
    plan = plan_from_dict(record["comparison"]["plan"])
    pair = tuple(Contestant(name=name, words=()) for name in ("nt_xent", loss))
    rows = {row["name"]: row["runs"] for row in record["rows"]}
    return judge_comparison(replace(plan, contestants=pair, metric=METRIC), rows, {}, record["comparison"]["searches"])[
        0
    ]


def of_each_search(record: dict[str, Any], loss: str) -> np.ndarray:
    """(searches,), the mean of the final seeds of each, in percent."""
    table = record_frame(record).table
    own = table[table["name"] == loss]
    return np.asarray(own.groupby(own["seed"].map(search_of))[METRIC].mean())


if __name__ == "__main__":
    main()
