"""What train.py says before and after a run."""

import math
import shutil
import sys
from pathlib import Path
from typing import Any

from contrastive.program import malloc
from contrastive.program.build import Built
from contrastive.run.directory import Run

ROWS = (("kNN", "knn"), ("linear probe", "linear"))


def near(path: Path) -> str:
    """The path as one would type it from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def command(name: str) -> str:
    """What to type for a program of this environment, which may not be activated: `.venv/bin/python`."""
    ours = Path(sys.prefix) / "bin" / name
    found = shutil.which(name)
    return name if (found and Path(found) == ours) or not ours.exists() else near(ours)


def named(group: str, metrics: dict[str, float]) -> dict[str, float]:
    """Metric names as curves are grouped: group/name."""
    return {f"{group}/{key}": value for key, value in metrics.items()}


def flat(group: str, nested: dict[str, Any]) -> dict[str, float]:
    """A nested record as curves: group/outer/inner."""
    out: dict[str, float] = {}
    for key, value in nested.items():
        out |= flat(f"{group}/{key}", value) if isinstance(value, dict) else {f"{group}/{key}": value}
    return out


def heading(built: Built, run: Run) -> None:
    data, trainer = built.evaluator.data, built.trainer
    n = sum(p.numel() for p in trainer.encoder.parameters())
    print(
        f"{len(data.pretrain):,} training images of {data.pretrain.image.shape[-1]} px in {len(data.classes)} "
        f"classes, encoder of {n / 1e6:.2f} M parameters, {trainer.epochs} epochs of {len(built.loader)} batches, "
        f"{built.precision} on {built.device}{', malloc tuned' if malloc.tuned() else ''}\n"
        f"run directory {near(run.path)}"
    )


def finished(run: Run, environment: dict[str, Any], shots: int) -> None:
    """The result, where it lies and what to type next."""
    assert run.result is not None
    test, untrained = run.result["test"], run.result["untrained"]
    print(f"\nTest accuracy in percent (last epoch)   untrained      trained\n{'':32}top-1  top-5  top-1  top-5")
    for title, key in ROWS:
        print(f"  {title:<30}{_two(untrained, key)}{_two(test, key)}")
    print(f"  {f'few-shot probe ({shots} per class)':<30}{_two(untrained, 'few_shot')}{_two(test, 'few_shot')}")
    if "classifier_top1" in test:
        print(f"  {'classifier trained along':<30}{_two({}, 'classifier')}{_two(test, 'classifier')}")
    _audited(run.result["audit"])
    path = near(run.path)
    print(f"\nrun directory   {path}\ncurves          {command('tensorboard')} --logdir {path}")
    words = environment["command"].split()
    if not any(word.startswith(("dataset=", "experiment=")) for word in words):
        method = [word for word in words if word.startswith(("loss", "tau_plus=", "temperature="))]
        print("paper's setting " + " ".join([command("python"), "train.py dataset=cifar10", *method]))


def _audited(audit: dict[str, Any]) -> None:
    """The groups of biased data, a line for each read-out."""
    if not audit:
        return
    print(f"\nBy bias{'':25}aligned  conflicting  mean of cells  worst cell")
    for key, title in (("linear", "linear probe"), ("classifier", "classifier trained along")):
        if key in audit:
            a = audit[key]
            cells = (("aligned_top1", 9), ("conflicting_top1", 13), ("cell_mean_top1", 15), ("worst_cell_top1", 12))
            print(f"  {title:<28}" + "".join(f"{a[k]:{n}.2f}" if k in a else f"{'-':>{n}}" for k, n in cells))
    print(f"  the bias itself can be read from the features for {audit['bias_top1']:.2f} % of the test images")


def already_done(run: Run, shots: int) -> None:
    print(f"{near(run.path)} is done already: this is its result. rerun=true starts it over.")
    if run.stale:
        print(f"warning: it was made by other {' and '.join(run.stale)} than there is now: rerun=true replaces it")
    finished(run, {"command": "train.py dataset="}, shots)


def _two(metrics: dict[str, float], key: str) -> str:
    values = (metrics.get(f"{key}_top1", math.nan), metrics.get(f"{key}_top5", math.nan))
    return "".join("     - " if math.isnan(v) else f"{v:6.2f} " for v in values)
