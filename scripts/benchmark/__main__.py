"""Measure speed and memory beside the field's tools.

    python scripts/benchmark [only=NAME[,NAME]] [rounds=N] [malloc=tuned|default]

On a CPU every contestant is a process of its own, and three rounds interleave them, so that other load on the machine
affects all alike; a ratio is the median of the rounds' ratios. On a GPU, which nobody shares, there is one round unless
asked for more, and losses and probes, whose memory torch counts, run in this process: one costs seconds there. All
contestants use the same allocator settings (`tuned` is what train.py sets by itself). The samples of all contests go to
studies/speed/bench-<device>.json, those of a part to outputs/.
"""

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import torch
from contests import ON_CPU, ON_GPU, Contest
from table import HEADER, Sample, rows

from contrastive.distributed.hardware import device_name
from contrastive.files import write_text
from contrastive.text import format_grid

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
TUNED = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=2147483647"  # as keep_freed_memory does
USAGE = "usage: python scripts/benchmark [only=NAME[,NAME]] [rounds=N] [malloc=tuned|default]"


class Options(NamedTuple):
    """The command line."""

    contests: dict[str, Contest]
    rounds: int
    malloc: str


def parse(words: list[str], contests: dict[str, Contest], *, rounds: int) -> Options:
    """Options from KEY=VALUE words; exits with a sentence if one cannot be used."""
    if any("=" not in word for word in words):
        sys.exit(USAGE)
    options = {"only": ",".join(contests), "rounds": str(rounds), "malloc": "tuned"}
    typed = dict(word.split("=", 1) for word in words)
    unknown = [f"{key}=" for key in typed if key not in options]
    options |= typed
    names = options["only"].split(",")
    unknown += [f"only={name}" for name in names if name not in contests]
    unknown += [] if options["rounds"].isdigit() and int(options["rounds"]) else [f"rounds={options['rounds']}"]
    unknown += [] if options["malloc"] in ("tuned", "default") else [f"malloc={options['malloc']}"]
    if unknown:
        sys.exit(
            f"there is no {unknown[0]}, contests are {', '.join(contests)}: try only={next(iter(contests))} rounds=3"
        )
    return Options({name: contests[name] for name in names}, int(options["rounds"]), options["malloc"])


def run(words: str, setting: str) -> Sample:
    """Run one contestant in a process of its own and return what it measured."""
    tunables = TUNED if setting == "tuned" else ""
    script, *arguments = words.split()
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "GLIBC_TUNABLES": tunables},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{words} failed:\n{done.stderr}")
    sample: Sample = json.loads(done.stdout.splitlines()[-1])
    return sample


def run_here(words: str) -> Sample:
    """Run one contestant in this process and return what it measured."""
    script, *arguments = words.split()
    sample: Sample = import_module(Path(script).stem).main(*arguments)
    return sample


def run_rounds(name: str, contest: Contest, options: Options) -> dict[str, list[Sample]]:
    """The samples of each contestant, one a round."""
    samples: dict[str, list[Sample]] = {contestant: [] for contestant in contest.contestants}
    for i in range(options.rounds):
        for contestant, words in contest.contestants.items():
            print(f"{name}, round {i + 1} of {options.rounds}: {contestant}", file=sys.stderr)
            here = torch.cuda.is_available() and not contest.isolated
            samples[contestant].append(run_here(words) if here else run(words, options.malloc))
    return samples


def record_path(device: str, options: Options, *, complete: bool) -> Path:
    """File for the samples; a part of the contests must not replace the published record of all."""
    name = re.sub(r"[^\w]+", "-", device).strip("-").lower()
    suffix = "" if options.malloc == "tuned" else f"-malloc-{options.malloc}"
    return ROOT / ("studies/speed" if complete else "outputs") / f"bench-{name}{suffix}.json"


def heading(device: str, options: Options, *, ceiling: Sample, exactness: float | None) -> str:
    """What the table was measured on."""
    ceilings = ", ".join(f"{key} {value:,.0f}" for key, value in ceiling.items())
    return (
        f"{device}, {os.cpu_count()} cores, torch {torch.__version__}, malloc {options.malloc}, {options.rounds} "
        "interleaved rounds; faster and CPU time: the peer's (first line) over ours, median of the rounds\n\n"
        f"Ceilings: {ceilings}. Largest difference between augmentation and torchvision with the same parameters: "
        f"{exactness}"
    )


def main(words: list[str]) -> None:
    has_gpu = torch.cuda.is_available()
    contests = ON_GPU if has_gpu else ON_CPU
    options = parse(words, contests, rounds=1 if has_gpu else 3)
    device = device_name(torch.device("cuda" if has_gpu else "cpu"))
    path = record_path(device, options, complete=options.contests.keys() == contests.keys())
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True)
    ceiling = run("ceiling.py", options.malloc)
    exactness = None if has_gpu else run("augmenting.py exactness", options.malloc)["worst"]
    record = {
        "command": " ".join(["python", "scripts/benchmark", *words]),
        "commit": commit.stdout.strip(),
        "device": device,
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "malloc": options.malloc,
        "ceiling": ceiling,
        "exactness": exactness,
    }
    samples, table = {}, [HEADER]
    for name, contest in options.contests.items():
        samples[name] = run_rounds(name, contest, options)
        table += rows(contest, samples[name], ceiling)
        write_text(path, json.dumps({**record, "samples": samples}, indent=1) + "\n")  # a later contestant may fail
    print(f"\n{heading(device, options, ceiling=ceiling, exactness=exactness)}\n\n{format_grid(table)}")
    print(f"\nwritten to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
