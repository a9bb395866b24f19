"""Measure speed and memory beside the field's tools.

    python scripts/benchmark.py [only=NAME[,NAME]] [rounds=3] [malloc=tuned|default]

Every contestant is a process of its own; rounds interleave them, so that a busy machine is busy for all. A ratio is
the median of the rounds' ratios. Everybody gets the same malloc settings (train.py sets `tuned` by itself). The figures
go to docs/results/bench-<device>.json and, as a table, to the screen.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from contrastive.atomic import write_text
from contrastive.program import malloc
from contrastive.report.sweep import format_grid
from contrastive.run.environment import device_name

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "scripts" / "benchmark"
GPU = torch.cuda.is_available()
Sample = dict[str, float]


class Contest(NamedTuple):
    """What is compared: {contestant: words after `python scripts/benchmark/`}, the peer first."""

    title: str
    contestants: dict[str, str]
    figure: str = "views"  # views: per second, more is better; seconds: less is better
    floor: str = ""
    goal: str = ""


def training(depth: int, width: int, batch: int, steps: int, *ours: tuple[str, str]) -> dict[str, str]:
    peer = f"training.py lightly {depth} {width} {batch}"
    return {
        "lightly, as documented (fp32)": f"{peer} fp32 {steps}",
        "lightly under bf16 autocast": f"{peer} bf16 {steps}",
        **{
            f"ours, {name}": f"training.py {who} {depth} {width} {batch} {precision} {steps}"
            for who, precision in ours
            for name in [precision + (", compiled" if who == "compiled" else "")]
        },
    }


EAGER = ("ours", "bf16"), ("ours", "fp32")
BOTH = (*EAGER, ("compiled", "bf16"))
CONTESTS = {
    "resnet18": Contest(
        "SimCLR, ResNet-18, 128 × 2 views, end to end",
        training(18, 64, 128, 4, *EAGER),
        floor="bf16 2×, fp32 1.25×",
        goal="3×, 1.6×",
    ),
    "narrow": Contest(
        "SimCLR, ResNet-18 of width 16, 128 × 2 views, end to end",
        training(18, 16, 128, 16, *EAGER),
        floor="5×",
        goal="10×",
    ),
    "augmentation": Contest(
        "Augmentation, 32 px",
        {
            "PIL, 2 workers": "augmenting.py pil",
            "ours": "augmenting.py ours",
            "ours, compiled": "augmenting.py compiled",
        },
        floor="6×",
        goal="10×",
    ),
    **{
        f"loss_{n}": Contest(
            f"NT-Xent, {n:,} anchors × 128, forward + backward",
            {"lightly": f"loss.py lightly {n}", "ours": f"loss.py ours {n}"},
            "seconds",
            *(("2×, 200 MiB", "3.3×") if n == 16384 else ()),
        )
        for n in (1024, 4096, 16384)
    },
    "probe": Contest(
        "Linear probe, 50,000 × 512",
        {"Adam, 100 epochs": "probe.py adam", "ours": "probe.py ours"},
        "seconds",
        floor="4×, accuracy ± 0.1",
        goal="8×",
    ),
}
ON_GPU = {
    "resnet18": Contest(
        "SimCLR, ResNet-18, 512 × 2 views, end to end",
        training(18, 64, 512, 60, *BOTH),
        floor="68,000 views/s; 4×",
        goal="89,000; 6×",
    ),
    "resnet50": Contest(
        "SimCLR, ResNet-50, 512 × 2 views, end to end",
        training(50, 64, 512, 30, *BOTH),
        floor="19,000 views/s",
        goal="24,000",
    ),
    **{name: contest for name, contest in CONTESTS.items() if name.startswith(("augmentation", "loss", "probe"))},
}


def run(words: str, setting: str) -> Sample:
    """One contestant, one process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLIBC_TUNABLES": malloc.TUNED if setting == "tuned" else ""}
    script, *rest = words.split()
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), *rest], env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{words} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def score(contest: Contest, sample: Sample) -> float:
    return sample["views"] / sample["seconds"] if contest.figure == "views" else sample["seconds"]


def rows(contest: Contest, samples: dict[str, list[Sample]], ceiling: Sample) -> list[list[str]]:
    """Table rows of one contest: a line for each contestant, its ratio against the first."""
    peers = next(iter(samples.values()))
    out = []
    for name, mine in samples.items():
        faster = [
            score(contest, m) / score(contest, p)
            if contest.figure == "views"
            else score(contest, p) / score(contest, m)
            for m, p in zip(mine, peers, strict=True)
        ]
        cpu = [
            p["cpu_seconds"] / p.get("views", 1) / (m["cpu_seconds"] / m.get("views", 1))
            for m, p in zip(mine, peers, strict=True)
            if m["cpu_seconds"]
        ]
        values = [score(contest, m) for m in mine]
        unit, best = ("views/s", max(values)) if contest.figure == "views" else ("s", min(values))
        notes = []
        peak = ceiling.get("fma_gflops" if "fp32" in name else "bf16_gemm_gflops")
        if "flops" in mine[0] and peak:
            notes.append(f"{max(m['flops'] / m['seconds'] for m in mine) / peak / 1e7:.0f} % of the ceiling")
        if "augmentation_share" in mine[0]:
            notes.append(f"augmentation {100 * median(m['augmentation_share'] for m in mine):.1f} % of the step")
        if "host_syncs" in mine[0]:
            notes.append(f"{max(m['host_syncs'] for m in mine):g} host syncs a step")
        if "peak_mib" in mine[0]:
            notes.append(f"{median(m['peak_mib'] for m in mine):,.0f} MiB")
        if "accuracy" in mine[0]:
            notes.append(f"accuracy {median(m['accuracy'] for m in mine):.2f} %")
        first = name == next(iter(samples))
        out.append(
            [
                contest.title if first else "",
                name,
                f"{median(values):,.3g} {unit}",
                f"{best:,.3g} {unit}",
                "" if first else f"{median(faster):.2f}×",
                f"{median(cpu):.2f}×" if cpu and not first else "",
                ", ".join(notes),
                f"{contest.floor} → {contest.goal}".strip(" →") if first else "",
            ]
        )
    return out


def main(options: dict[str, str]) -> int:
    contests = ON_GPU if GPU else CONTESTS
    unknown = [f"{key}={value}" for key, value in options.items() if key not in ("only", "rounds", "malloc")]
    chosen = options.get("only", ",".join(contests)).split(",")
    unknown += [name for name in chosen if name not in contests]
    setting, rounds = options.get("malloc", "tuned"), options.get("rounds", "3")
    unknown += [] if rounds.isdigit() and int(rounds) else [f"rounds={rounds}"]
    unknown += [] if setting in ("tuned", "default") else [f"malloc={setting}"]
    if unknown:
        print(f"there is no {unknown[0]}: try only={next(iter(contests))} rounds=3 malloc=tuned", file=sys.stderr)
        return 2
    device = device_name(torch.device("cuda" if GPU else "cpu"))
    name = re.sub(r"[^\w]+", "-", device).strip("-").lower()
    out = ROOT / "docs" / "results" / f"bench-{name}{'' if setting == 'tuned' else '-malloc-' + setting}.json"
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)
    ceiling = run("ceiling.py", setting)
    exact = None if GPU else run("augmenting.py exactness", setting)["worst"]
    found: dict[str, Any] = {
        "command": " ".join(["python", "scripts/benchmark.py", *sys.argv[1:]]),
        "commit": commit.stdout.strip(),
        "device": device,
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "malloc": setting,
        "ceiling": ceiling,
        "exactness": exact,
        "samples": {},
    }
    table = [["what", "who", "median", "best", "faster", "CPU time", "", "floor → goal"]]
    for key in chosen:
        contest = contests[key]
        samples: dict[str, list[Sample]] = {name: [] for name in contest.contestants}
        for i in range(int(rounds)):
            for name, words in contest.contestants.items():
                print(f"{key}, round {i + 1} of {rounds}: {name}", file=sys.stderr)
                samples[name].append(run(words, setting))
        found["samples"][key] = samples
        table += rows(contest, samples, ceiling)
        write_text(out, json.dumps(found, indent=1) + "\n")  # as it stands: a later contestant may fail
    text = "\n".join(
        [
            f"{device}, {os.cpu_count()} cores, torch {torch.__version__}, malloc {setting}, {rounds} interleaved "
            "rounds; faster and CPU time: the peer's (first line) over ours, median of the rounds",
            "",
            f"Ceilings: {', '.join(f'{k} {v:,.0f}' for k, v in ceiling.items())}. Largest difference between "
            f"augmentation and torchvision with the same parameters: {exact}",
            "",
            format_grid(table),
        ]
    )
    print(f"\n{text}\n\nwritten to {out.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    if any("=" not in word for word in sys.argv[1:]):
        sys.exit("usage: python scripts/benchmark.py [only=NAME[,NAME]] [rounds=3] [malloc=tuned|default]")
    sys.exit(main(dict(word.split("=", 1) for word in sys.argv[1:])))
