"""Draw the README's chart: what four losses gain over NT-Xent after equal searches of each.

    python docs/make/readme_chart.py

It reads the record of studies/fair_search and writes docs/searched.svg, in light or dark colors as the reader has them.
"""

import json
from pathlib import Path
from typing import Any

from contrastive.study.render.effects import claims_of, differences

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "studies/fair_search/record.json"
LOSSES = {
    "push": "NT-Xent with a push",
    "sigmoid": "sigmoid loss",
    "debiased_pos": "debiased positives",
    "debiased_neg": "debiased negatives",
}
WIDTH, ROW, LEFT, RIGHT = 400, 40, -4, 7  # pixels, and points at the two edges
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328; }
.small { font-size: 12px; fill: #59636e; }
.line { stroke: #0969da; stroke-width: 2.5; }
.dot { fill: #0969da; }
.tick { stroke: #1f2328; stroke-width: 1.5; }
.grid { stroke: #8c959f; stroke-opacity: 0.35; }
.zero { stroke: #59636e; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .small { fill: #9198a1; } .line { stroke: #4493f8; } .dot { fill: #4493f8; }
  .tick { stroke: #f0f6fc; } .zero { stroke: #9198a1; }
}
"""


def main() -> None:
    """Write the picture."""
    record = json.loads(RECORD.read_text())
    bottom = ROW * len(LOSSES) + 8
    parts = [f'<text class="small" x="{x(points):.1f}" y="{bottom + 16}" text-anchor="middle">{points:+d}</text>'
             for points in range(-2, 7, 2)]  # fmt: skip
    parts += [f'<line class="{"grid" if points else "zero"}" x1="{x(points):.1f}" x2="{x(points):.1f}" y1="4" '
              f'y2="{bottom}"/>' for points in range(-2, 7, 2)]  # fmt: skip
    parts += [part for i, (loss, name) in enumerate(LOSSES.items()) for part in row(record, loss, name, ROW * i)]
    legend = (
        "points of kNN over tuned NT-Xent",
        "dot, line: at their best, 95 % interval; tick: one search",
    )
    parts += [f'<text class="small" x="4" y="{bottom + 34 + 17 * i}">{line}</text>' for i, line in enumerate(legend)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="480" viewBox="0 0 {WIDTH} {bottom + 58}" role="img">'
    title = "<title>Points of kNN over tuned NT-Xent, with 95 % intervals</title>"
    text = "\n".join([head, title, f"<style>{STYLE}</style>", *parts, "</svg>"])
    (ROOT / "docs/searched.svg").write_text(text + "\n")


def row(record: dict[str, Any], loss: str, name: str, top: int) -> list[str]:
    """The label of a loss, its interval, and a tick for each of its searches."""
    (pair,) = (claim for claim in claims_of(record) if (claim["name"], claim["against"]) == (loss, "nt_xent"))
    low, effect, high = (x(pair[key]) for key in ("low", "effect", "high"))
    ticks = differences(record, pair)
    return [
        f'<text x="4" y="{top + 18}">{name}</text>',
        *(f'<line class="tick" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{top + 23}" y2="{top + 39}"/>' for t in ticks),
        f'<line class="line" x1="{low:.1f}" x2="{high:.1f}" y1="{top + 31}" y2="{top + 31}"/>',
        f'<circle class="dot" cx="{effect:.1f}" cy="{top + 31}" r="4.5"/>',
    ]


def x(points: float) -> float:
    """Where so many points stand, in pixels."""
    return WIDTH * (points - LEFT) / (RIGHT - LEFT)


if __name__ == "__main__":
    main()
