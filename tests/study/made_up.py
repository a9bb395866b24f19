"""Comparisons whose runs are made up."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contrastive.run.run import Run
from contrastive.study.compare import engine
from contrastive.study.compare.contest import Contest, Method
from contrastive.study.compare.outcome import comparison_record
from contrastive.study.compare.plan import Plan, read_plan
from contrastive.study.compare.progress import Lines
from contrastive.study.compare.seal import seal
from contrastive.study.compare.space import read_knob
from contrastive.text import pack_bits
from tests.helpers import write_files, write_finished

MADE_OF = {"package": "made up", "contestants": {}}
KNOBS = [read_knob("temperature", "interval(0,1)"), read_knob("optimizer.lr", "interval(0,1)")]


class Made:
    """Runs without training: the accuracy of each contestant at a temperature, with the noise of a seed."""

    def __init__(self, contest: Contest, best: dict[str, float], *, seed_sd: float = 1.0, images: int = 400) -> None:
        self.contest, self.best, self.seed_sd, self.images = contest, best, seed_sd, images
        self.images_rng = np.random.default_rng(7).uniform(size=images)
        self.started: list[Run] = []
        self.refused: set[str] = set()  # runs whose training breaks down
        self.away: set[str] = set()  # runs that the machine ends

    def __call__(self, runs: list[Run]) -> dict[Run, str]:
        for run in runs:
            self.started.append(run)
            words = dict(word.split("=", 1) for word in run.overrides)
            name = run.name.partition(",")[0].removesuffix(" as it comes")
            if any(mark in str(run) for mark in self.away):
                continue
            if any(mark in str(run) for mark in self.refused):
                write_files(run.path, {"failure.json": '{"reason": "loss not finite"}'})
                continue
            rng = np.random.default_rng([int(words["seed"]), len(name), *name.encode()])
            t = float(words.get("temperature", 0.9))
            accuracy = self.best[name] - 20 * (t - 0.5) ** 2 + rng.normal(0, self.seed_sd)
            right = 100 * self.images_rng + rng.normal(0, 5, self.images) < accuracy
            value = {"knn_top1": 100 * float(right.mean())}
            is_final = "held_out" not in words
            write_finished(
                run.path,
                config={"seed": int(words["seed"]), "epochs": 1, "batch_size": 2, "n_views": 2, "temperature": t,
                        "optimizer": {"_target_": "x.Y", "lr": float(words.get("optimizer.lr", 0.001))}},
                environment={"overrides": [*run.overrides], "device": "cpu", "torch": "2", "python": "3",
                             "commit": None, "dirty": None, "precision": "fp32", "processor": "cpu"},
                **{"test" if is_final else "val": value}, correct={"knn_top1": pack_bits(right)},
                weights={"encoder.safetensors": str(run.path)},
            )  # fmt: skip
        return {run: "its data were away" for run in runs if any(mark in str(run) for mark in self.away)}


def contest_of(
    tmp_path: Path, *words: str, made_of: Mapping[str, Any] = MADE_OF, dataset: str = "digits", **best: float
) -> tuple[Contest, Made]:
    """A contest, and what makes up its runs.

    Args:
        words: of its plan, beside a loss for each contestant where they have no rows.
        best: what each contestant is worth at the best of its settings.
    """
    listed = [] if "rows" in str(words) else ["loss=" + ",".join(best)]
    plan: Plan = read_plan([*listed, "budget=12", *words])
    methods = [Method(name=own.name, words=own.words, knobs=KNOBS) for own in plan.contestants]
    base = tmp_path / plan.folder(dataset, plan.digest(made_of))
    contest = Contest(plan=plan, methods=methods, base=base, made_of=made_of, dataset=dataset)
    seal(contest, {})
    return contest, Made(contest, best)


def run_all(contest: Contest, made: Callable[[Sequence[Run]], dict[Run, str]]) -> list[str]:
    """Run a contest; returns what was not done."""
    return engine.run_all(Lines(contest), lambda _, runs: made(runs))


def outcome(tmp_path: Path, *words: str, **best: float) -> dict:
    contest, made = contest_of(tmp_path, *words, **best)
    assert run_all(contest, made) == []
    return comparison_record(contest)
