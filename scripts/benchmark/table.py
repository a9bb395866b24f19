"""Rows of the benchmark's table."""

from statistics import median

from contests import Contest

Sample = dict[str, float]  # the line of JSON that one process printed
HEADER = ["what", "who", "median", "best", "faster", "CPU time", "", "floor → goal"]


def rows(contest: Contest, samples: dict[str, list[Sample]], ceiling: Sample) -> list[list[str]]:
    """A row for each contestant; ratios are the median over rounds of the peer's (first contestant) over its own.

    Args:
        samples: one sample a round, by contestant.
        ceiling: what `ceiling.py` measured.
    """
    peer, *_ = samples.values()
    table = []
    for name, own in samples.items():
        values = [score(contest, sample) for sample in own]
        best = max(values) if contest.unit == "views/s" else min(values)
        row = ["", name, f"{median(values):,.3g} {contest.unit}", f"{best:,.3g} {contest.unit}"]
        if own is peer:
            row[0], ratios, target = contest.title, ["", ""], f"{contest.floor} → {contest.goal}".strip(" →")
        else:
            ratios, target = [speedup(peer, own), cpu_ratio(peer, own)], ""
        table.append([*row, *ratios, notes(name, own, ceiling), target])
    return table


def score(contest: Contest, sample: Sample) -> float:
    """Views a second, or seconds."""
    return sample["views"] / sample["seconds"] if contest.unit == "views/s" else sample["seconds"]


def speedup(peer: list[Sample], own: list[Sample]) -> str:
    """Median ratio of wall-clock time per view (or of a whole task)."""
    return f"{median(_per_view(p, 'seconds') / _per_view(o, 'seconds') for p, o in zip(peer, own, strict=True)):.2f}×"


def cpu_ratio(peer: list[Sample], own: list[Sample]) -> str:
    """Median ratio of processor time; empty if it was too short to be counted."""
    ratios = [
        _per_view(p, "cpu_seconds") / _per_view(o, "cpu_seconds")
        for p, o in zip(peer, own, strict=True)
        if o["cpu_seconds"]
    ]
    return f"{median(ratios):.2f}×" if ratios else ""


def _per_view(sample: Sample, key: str) -> float:
    return sample[key] / sample.get("views", 1)


def notes(name: str, own: list[Sample], ceiling: Sample) -> str:
    """Everything else that a contestant measured."""
    texts = []
    peak = ceiling.get("fma_gflops" if "fp32" in name else "bf16_gemm_gflops")
    if "flops" in own[0] and peak and name not in ("one_thread", "reproducible"):  # the ceiling is that of all cores
        texts.append(f"{max(s['flops'] / s['seconds'] for s in own) / peak / 1e7:.0f} % of the ceiling")
    if "augmentation_share" in own[0]:
        texts.append(f"augmentation {100 * median(s['augmentation_share'] for s in own):.1f} % of the step")
    if "host_syncs" in own[0]:
        texts.append(f"{max(s['host_syncs'] for s in own):g} host syncs a step")
    if "peak_mib" in own[0]:
        texts.append(f"{median(s['peak_mib'] for s in own):,.0f} MiB")
    if "accuracy" in own[0]:
        texts.append(f"accuracy {median(s['accuracy'] for s in own):.2f} %")
    return ", ".join(texts)
