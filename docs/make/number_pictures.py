"""Draw the pictures of docs/numbers.md: what each figure of a run measures, one SVG each in docs/numbers/.

    python docs/make/number_pictures.py [FOLDER]

kNN, the probe, the push and the floor are computed by the code that a run uses, on small made-up features. The worst
group is the one that docs/biased.md prints, the errors of the estimates are those of docs/numbers/estimates.csv.
"""

import csv
import math
import re
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import contrastive
from contrastive.evaluator.knn import nearest, vote
from contrastive.evaluator.linear import fit_logistic, logits
from contrastive.files import atomic
from contrastive.report.curves import COLORS, colors_of

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
from plot import new_figure

ROOT = Path(__file__).resolve().parents[2]
CENTERS = (20.0, 75.0, 130.0)  # of three classes, in degrees


def points(n: int = 14) -> tuple[torch.Tensor, torch.Tensor]:
    """Features (3n, 2) of three overlapping classes around a corner, and their labels."""
    rng = torch.Generator().manual_seed(2)
    label = torch.arange(3).repeat_interleave(n)
    angle = torch.deg2rad(torch.tensor(CENTERS)[label] + 20 * torch.randn(3 * n, generator=rng))
    radius = 1 + 0.12 * torch.randn(3 * n, generator=rng)
    return radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1), label


def scatter(panel: Any, h: torch.Tensor, label: torch.Tensor) -> None:
    """The points in the colors of their classes, without axes."""
    for c in range(3):
        panel.scatter(*h[label == c].T, color=COLORS[c], marker="os^"[c], s=22, zorder=3)
    panel.set(aspect="equal", xticks=[], yticks=[])
    panel.spines[:].set_visible(False)
    panel.grid(visible=False)


def knn(panel: Any) -> None:
    h, label = points()
    query = torch.tensor([[math.cos(0.9), math.sin(0.9)]])
    similarity, index = nearest(h, query, k=7)
    scores = vote(similarity, label[index], n_classes=3, temperature=0.03)[0]
    scatter(panel, h, label)
    for i, cosine in zip(index[0], similarity[0], strict=True):
        panel.plot(*torch.stack([query[0], h[i]]).T, color="gray", linewidth=4 * math.exp((cosine - 1) / 0.03))
    panel.plot(*query[0], "*", color="black", markersize=13, zorder=4)
    shares = dict(zip(("circles", "squares", "triangles"), 100 * scores / scores.sum(), strict=True))
    panel.set_title("; ".join(f"{name} {share:.0f} %" for name, share in shares.items()))


def probe(panel: Any) -> None:
    h, label = points()
    weight = fit_logistic(h, label, n_classes=3, l2=1e-2, max_iter=100)
    xs, ys = torch.linspace(-1.3, 1.5, 250), torch.linspace(-0.6, 1.5, 190)
    grid = torch.cartesian_prod(ys, xs).flip(1)
    won = logits(weight, grid).argmax(1).view(len(ys), len(xs))
    panel.contourf(xs, ys, won, levels=[-0.5, 0.5, 1.5, 2.5], colors=COLORS[:3], alpha=0.15)
    scatter(panel, h, label)
    right = (logits(weight, h).argmax(1) == label).float().mean()
    panel.set_title(f"straight borders: {100 * float(right):.0f} % on their side")


def worst_group(panel: Any) -> None:
    text = (ROOT / "docs/biased.md").read_text()
    printed = re.findall(r"^  (\w+, \w+) +\d+ +([\d.]+) +([\d.]+)$", text, re.MULTILINE)
    groups, values = [name for name, *_ in printed], [[float(row[i]) for row in printed] for i in (1, 2)]
    for i, (name, own) in enumerate(zip(("linear probe", "DFR"), values, strict=True)):
        panel.bar([x + 0.38 * i for x in range(len(own))], own, width=0.36, color=COLORS[i], label=name)
        worst = own.index(min(own))
        panel.text(worst + 0.38 * i, own[worst] + 1, f"{own[worst]:.0f}", ha="center", fontsize=8)
    panel.set(ylim=(0, 119), ylabel="percent right", title="the lowest bar is the worst group")
    panel.set_xticks([x + 0.19 for x in range(len(groups))], [name.replace(", ", "\n") for name in groups])
    panel.legend(fontsize=7, frameon=False, ncols=2, loc="upper center")
    panel.grid(visible=False, axis="x")


def push(panel: Any) -> None:
    cosine = torch.linspace(0, 1, 21)
    losses = {
        "nt_xent": contrastive.NTXent(temperature=0.5),
        "debiased_pos, t 0.5": contrastive.DebiasedPos(temperature=0.5, tau_plus=0.1),
        "debiased_pos, t 0.2": contrastive.DebiasedPos(temperature=0.2, tau_plus=0.1),
    }
    rng = torch.Generator().manual_seed(0)
    for (name, loss), color in zip(losses.items(), colors_of(list(losses)).values(), strict=True):
        ratios = [float(loss.diagnostics(pairs_at(float(c), rng), None, None)["pairs/push_ratio"]) for c in cosine]
        panel.plot(cosine, ratios, color=color, label=name)
    panel.set(yscale="log", xlabel="cosine of the two views", ylabel="push ratio", title="push, by how close views are")
    panel.set_xticks([0, 0.25, 0.5, 0.75, 1])
    panel.legend(fontsize=7, frameon=False)


def pairs_at(cosine: float, rng: torch.Generator, n: int = 64, dim: int = 32) -> torch.Tensor:
    """Projections (n, 2, dim) of random images whose two views have this cosine."""
    first, other = (F.normalize(torch.randn(n, dim, generator=rng), dim=1) for _ in range(2))
    across = F.normalize(other - (other * first).sum(1, keepdim=True) * first, dim=1)
    return torch.stack([first, cosine * first + math.sqrt(1 - cosine**2) * across], 1)


def clamped(panel: Any) -> None:
    shares = torch.linspace(0.01, 0.5, 50)
    z = pairs_at(0.8, torch.Generator().manual_seed(0), n=128, dim=16)
    for i, t in enumerate((0.2, 0.5, 1.0)):
        losses = [contrastive.DebiasedNeg(temperature=t, tau_plus=float(tau)) for tau in shares]
        floor = [100 * float(loss.diagnostics(z, None, None)["pairs/clamped"]) for loss in losses]
        panel.plot(shares, floor, color=COLORS[i], label=f"temperature {t}")
    panel.set_xticks([0, 0.1, 0.2, 0.3, 0.4, 0.5])
    panel.set(xlabel="tau_plus", ylabel="anchors on the floor, %", title="too large a tau_plus subtracts everything")
    panel.legend(fontsize=7, frameon=False)


def estimate(panel: Any) -> None:
    with (ROOT / "docs/numbers/estimates.csv").open() as file:
        lines = [line for line in csv.DictReader(file) if line["metric"] == "debiasing/negative_error"]
    names = list(dict.fromkeys(line["method"] for line in lines))
    for name, color in colors_of(names).items():
        own = [line for line in lines if line["method"] == name]
        epochs, errors = ([float(line[key]) for line in own] for key in ("epoch", "mean"))
        panel.plot(epochs, errors, color=color, label=name)
    panel.axhline(0, color="gray", linewidth=0.8)
    panel.set(xlabel="epoch", ylabel="estimate minus oracle, log", title="at 0 the estimate is what the labels say")
    panel.legend(fontsize=7, frameon=False)


def main(folder: Path) -> None:
    """Write all pictures."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = "contrastive"
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (knn, probe, worst_group, push, clamped, estimate):
        figure, (panel,) = new_figure(1)
        figure.set_size_inches(4.2, 2.9)
        draw(panel)
        with atomic(folder / f"{draw.__name__}.svg") as part:
            figure.savefig(part, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/numbers")
