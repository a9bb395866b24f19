"""Check the bounds of the debiased papers numerically: python scripts/bounds.py [DIRECTORY [PRESET]]

Writes bounds.md, .json, .csv and .png into the directory (outputs/table/bounds unless given) and prints the table:
seconds on a CPU, no data. PRESET is paper, small or smoke, which draws a tenth of the anchors.

The finite-sample statements are measured on a population whose expectations are exact sums, at temperature 1 with unit
features, as the statements are: values e^s lie in [1/e, e]. Chuang et al. 2020 print the constant e^{3/2} sqrt(π / 2N),
from Hoeffding's inequality with the range e - 1/e not squared. A mean of N of them deviates by at most
(e - 1/e) / (2 sqrt N) on average, which the logarithm multiplies by at most e: `rate` is the constant that follows,
(e² - 1) / 2 = 3.19, where the printed one is 5.62. At temperature t it is (e^{2/t} - 1) / 2.

Theorem 2.1 of Troeshestova & Isachenko 2023 bounds |L~ - L^N| by a multiple of 1 / sqrt N, and is false: of two
opposite classes (s = 1 within one and -1 between, t = 1, tau+ = 0.5) the error grows to 2, 1.997 at N = 10,000 against
0.281. Step 2 of the proof takes the mean of eq. 13 for one that tends to E_p e^s; with negatives of other classes it
tends to E_(p-) e^s. The losses are trained in closed forms, which this does not touch.
"""

import csv
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from contrastive.files import write_text
from contrastive.seeding import generator
from contrastive.text import format_grid

DRAWS = {"paper": 2000, "small": 2000, "smoke": 200}
CHUNK = 250  # anchors at once
SIZES = (16, 64, 256, 1024, 4096)  # N
POSITIVES = (1, 2, 4, 16, 64, 256)  # M
MANY = 4096  # N while M varies
WIDE = (10, 100, 1000, 10_000, 100_000)  # N of Theorem 2.1, which needs no draws
FEW = (1, 2, 4, 8, 16, 32)  # N of the exact form
WEIGHTS = (1, 16, 256, 4096)  # Q while N = M = 256
STYLES = {  # line and legend of each quantity
    "printed_bound": ("k--", "printed bound"),
    "corrected_bound": ("k-", "corrected bound"),
    "deviation": ("o-", "mean deviation of a draw"),
    "error": ("s-", "error of the expectation"),
}


class Check(NamedTuple):
    """One measurement beside what the paper allows."""

    statement: str
    n: int  # negatives
    m: int  # positives
    error: float  # |difference of the two expectations|, which the statement bounds
    deviation: float  # mean |difference| of single draws, which its proof bounds: at least `error`
    printed_bound: float | None = None
    corrected_bound: float | None = None
    margin: float | None = None  # Lemma 1: left side - right side without its last term, at least -corrected_bound
    q: int | None = None  # the weight of the mean over negatives; None = n


@dataclass(frozen=True)
class Population:
    """A finite population of images with equally frequent classes.

    Args:
        similarity: (K, K), e^{f(x)·f(y)}. label: (K,), sorted, each class equally often.
    """

    similarity: Tensor
    label: Tensor

    @property
    def n_classes(self) -> int:
        return int(self.label[-1]) + 1

    @property
    def tau_plus(self) -> float:
        return 1 / self.n_classes

    def means(self) -> tuple[Tensor, Tensor, Tensor]:
        """(K,) each: the expectations of e^s over all images, over the anchor's class, and over the other classes."""
        same = (self.label[:, None] == self.label).double()
        positive = (self.similarity * same).sum(1) / same.sum(1)
        negative = (self.similarity * (1 - same)).sum(1) / (1 - same).sum(1)
        return self.similarity.mean(1), positive, negative


def random_population(generator: Generator, *, n_classes: int = 10, per_class: int = 20, dim: int = 8) -> Population:
    """Unit vectors scattered so widely around a direction for each class that classes overlap."""
    label = torch.arange(n_classes).repeat_interleave(per_class)
    centers = torch.randn(n_classes, dim, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(label), dim, generator=generator, dtype=torch.float64)
    features = F.normalize(centers[label] + noise, dim=1)
    return Population((features @ features.T).exp(), label)


def rate(n: int) -> float:
    """(e² - 1) / (2 sqrt n): how far the mean of n values moves the loss on average, at most."""
    return (math.e**2 - 1) / 2 / math.sqrt(n)


def printed_rate(n: int) -> float:
    """e^{3/2} sqrt(π / 2n), as printed."""
    return math.exp(1.5) * math.sqrt(math.pi / (2 * n))


def theorem3(
    population: Population, generator: Generator, *, n: int, m: int, draws: int, q: int | None = None
) -> Check:
    """|L~ - L^{N,M}| of the debiased loss (Chuang et al. 2020, Theorem 3), N negatives and M positives.

        L^{N,M} = E[ -log( e^{s+} / (e^{s+} + Q g) ) ],  g = max( (mean_i e^{u_i} - τ⁺ mean_j e^{v_j}) / τ⁻, 1/e )

    with u_i drawn from all images and v_j from the anchor's class; L~ has Q E_{p-} e^s in place of Q g. The theorem has
    Q = N. Its bound holds for every Q of their eqs. 5 and 6, because d log(e^{s+} + Q g) <= d log g.
    """
    tau, weight = population.tau_plus, q or n
    _, _, negative = population.means()
    differences = []
    for x, s_plus in _anchors(population, generator, draws):
        drawn, extra = _draw(population, x, n, generator), _draw(population, x, m, generator, same_class=True)
        g = ((drawn.mean(1) - tau * extra.mean(1)) / (1 - tau)).clamp(min=math.exp(-1))
        differences.append(_loss(s_plus, weight * negative[x]) - _loss(s_plus, weight * g))
    printed, corrected = (f(n) / (1 - tau) + tau * f(m) / (1 - tau) for f in (printed_rate, rate))
    return Check("Theorem 3", n, m, *_error_and_deviation(differences), printed, corrected, q=q)


def exact_form(population: Population, generator: Generator, *, n: int, draws: int) -> Check:
    """The unbiased loss with N negatives, written without them (Chuang et al. 2020, eq. 4), against itself.

        E_{p-} l(x_1, ..., x_N) = 1/(τ⁻)^N Σ_k C(N, k) (-τ⁺)^k E l(k draws of the anchor's class, N - k of all images)

    A draw of the right side: each of the N is of the anchor's class with probability τ⁺/(1 + τ⁺), else of all images.
    An odd number of the first changes the sign, and ((1 + τ⁺)/τ⁻)^N, the sum of all |coefficients|, is the weight.
    """
    tau = population.tau_plus
    weight = ((1 + tau) / (1 - tau)) ** n
    differences = []
    for x, s_plus in _anchors(population, generator, draws):
        own = torch.rand(len(x), n, generator=generator) < tau / (1 + tau)
        values = torch.where(
            own, _draw(population, x, n, generator, same_class=True), _draw(population, x, n, generator)
        )
        sign = 1 - 2 * (own.sum(1) % 2)
        unbiased = _loss(s_plus, _draw(population, x, n, generator, same_class=False).sum(1))
        differences.append(weight * sign * _loss(s_plus, values.sum(1)) - unbiased)
    return Check("The exact form", n, 0, *_error_and_deviation(differences))


def lemma1(population: Population, generator: Generator, *, n: int, draws: int) -> Check:
    """The biased loss against its limit in N, and by how much Lemma 1 holds (Chuang et al. 2020).

        L_biased >= L_unbiased + E_x[ min(0, log(E_{p+} e^s / E_{p-} e^s)) ] - e^{3/2} sqrt(π / 2N)

    Its last term bounds the distance of L_biased from its limit: `error`. `margin` is what the rest leaves.
    """
    everything, positive, negative = population.means()
    differences, margins = [], []
    for x, s_plus in _anchors(population, generator, draws):
        biased = _loss(s_plus, _draw(population, x, n, generator).sum(1))
        unbiased = _loss(s_plus, _draw(population, x, n, generator, same_class=False).sum(1))
        differences.append(biased - _loss(s_plus, n * everything[x]))
        margins.append(biased - unbiased - (positive / negative).log().clamp(max=0)[x])
    margin = torch.cat(margins).mean().item()
    return Check("Lemma 1", n, 1, *_error_and_deviation(differences), printed_rate(n), rate(n), margin)


def theorem21(*, n: int, tau_plus: float = 0.5) -> Check:
    """|L~ - L^N| of debiased positives on two antipodal classes (Troeshestova & Isachenko 2023, Theorem 2.1, M = 1).

        bound = e^{3/2} [ (1 + τ⁻/τ⁺) sqrt(π / 2N) + (1 + 1/τ⁺) sqrt(π / (2N + 2)) ]      (eq. 15 without its δ)

    Every image of a class is the same vector, so nothing is random: s = 1 within a class and -1 between them. P_emp
    averages N negatives, one positive and the anchor, so it tends to the mean over negatives, not to the mean over
    all images that the proof puts in its place: L^N tends to log(1 + N), L~ is log(1 + N / e²).
    """
    within, between = math.e, 1 / math.e
    p_emp = (n * between + 2 * within) / (n + 2)
    everything = tau_plus * within + (1 - tau_plus) * between
    limit, finite = (
        math.log(p + (n * tau_plus - (1 - tau_plus)) * between) - math.log(p - (1 - tau_plus) * between)
        for p in (everything, p_emp)
    )
    bound = printed_rate(n) / tau_plus + (1 + 1 / tau_plus) * printed_rate(n + 1)
    return Check("Theorem 2.1", n, 1, abs(limit - finite), abs(limit - finite), bound)


def _loss(s_plus: Tensor, negatives: Tensor) -> Tensor:
    """-log( e^{s+} / (e^{s+} + negatives) ), with e^{s+} given."""
    return torch.log1p(negatives / s_plus)


def _anchors(population: Population, generator: Generator, draws: int) -> list[tuple[Tensor, Tensor]]:
    """Chunks of anchors drawn from the population, each with e^{s+} of a positive."""
    x = torch.randint(len(population.label), (draws,), generator=generator)
    s_plus = _draw(population, x, 1, generator, same_class=True).squeeze(1)
    return list(zip(x.split(CHUNK), s_plus.split(CHUNK), strict=True))


def _draw(
    population: Population, x: Tensor, count: int, generator: Generator, *, same_class: bool | None = None
) -> Tensor:
    """(anchors, count): e^s of independent draws from all images, from the anchor's class, or from the others."""
    total = len(population.label)
    size = total // population.n_classes
    start = population.label[x, None] * size
    if same_class is None:
        y = torch.randint(total, (len(x), count), generator=generator)
    elif same_class:
        y = start + torch.randint(size, (len(x), count), generator=generator)
    else:
        y = (start + size + torch.randint(total - size, (len(x), count), generator=generator)) % total
    return population.similarity[x[:, None], y]


def _error_and_deviation(differences: list[Tensor]) -> tuple[float, float]:
    values = torch.cat(differences)
    return abs(values.mean().item()), values.abs().mean().item()


class Panel(NamedTuple):
    """One picture: a statement against N or M."""

    title: str
    axis: str  # `n`, `m` or `q`
    checks: list[Check]


def measure(draws: int) -> list[Panel]:
    """Every check, with so many anchors for each expectation."""
    rng = generator("cpu", 0, "bounds")
    population = random_population(rng)
    return [
        Panel("Lemma 1: the biased loss", "n", [lemma1(population, rng, n=n, draws=draws) for n in SIZES]),
        Panel("Theorem 3, M = N", "n", [theorem3(population, rng, n=n, m=n, draws=draws) for n in SIZES]),
        Panel(f"Theorem 3, N = {MANY}", "m", [theorem3(population, rng, n=MANY, m=m, draws=draws) for m in POSITIVES]),
        Panel("Theorem 2.1: debiased positives", "n", [theorem21(n=n) for n in WIDE]),
        Panel(
            "Theorem 3, Q in place of N",
            "q",
            [theorem3(population, rng, n=256, m=256, draws=draws, q=q) for q in WEIGHTS],
        ),
        Panel("The exact form", "n", [exact_form(population, rng, n=n, draws=draws) for n in FEW]),
    ]


def write_page(folder: Path, *, draws: int) -> str:
    """Measure, write bounds.md, .json, .csv and .png into the folder, and return the table."""
    panels = measure(draws)
    table = markdown(panels)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "bounds.md", table + "\n")
    records = [{"panel": panel.title, **check._asdict()} for panel in panels for check in panel.checks]
    write_text(folder / "bounds.json", json.dumps({"draws": draws, "checks": records}, indent=1) + "\n")
    with (folder / "bounds.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, records[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    draw(panels, folder / "bounds.png")
    return table


def markdown(panels: list[Panel]) -> str:
    """A row for each check."""
    rows = [
        ["statement", "N", "M", "Q", "error", "mean deviation", "corrected bound", "printed bound", "holds", "margin"]
    ]
    for panel in panels:
        for check in panel.checks:
            numbers = (check.error, check.deviation, check.corrected_bound, check.printed_bound)
            holds = "" if check.printed_bound is None else "yes" if check.error <= check.printed_bound else "no"
            cells = [_decimal(number) for number in numbers]
            drawn = [str(check.n), str(check.m or ""), str(check.q or check.n)]
            rows.append([panel.title, *drawn, *cells, holds, _decimal(check.margin)])
    return format_grid(rows)


def draw(panels: list[Panel], path: Path) -> None:
    """Error and bound of every panel on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(10.8, 6.6), layout="constrained")
    for ax, panel in zip(axes.flat, panels, strict=True):
        x = [getattr(check, panel.axis) for check in panel.checks]
        for field, (style, label) in STYLES.items():
            y = [getattr(check, field) for check in panel.checks]
            if None not in y:
                ax.loglog(x, y, style, label=label)
        ax.set(title=panel.title, xlabel=panel.axis.upper())
        ax.grid(alpha=0.3, which="both")
    for ax in axes[:, 0]:
        ax.set_ylabel("difference of losses")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _decimal(number: float | None) -> str:
    return "" if number is None else f"{number:.4f}"


if __name__ == "__main__":
    directory, preset = [*sys.argv[1:], *["outputs/table/bounds", "paper"][len(sys.argv) - 1 :]][:2]
    if len(sys.argv) > 3 or preset not in DRAWS or directory.startswith("-"):
        sys.exit(__doc__)
    print(write_page(Path(directory), draws=DRAWS[preset]))
    print(f"\nwritten to {directory}")
