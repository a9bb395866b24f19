"""Text that train.py prints before and after a run, and what its test images say of training: intervals of accuracies,
and one sentence on whether it helped. Imports no torch: a finished run is shown without."""

import math
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from contrastive.config.identity import differences
from contrastive.config.settings import Settings
from contrastive.run.figures import KNN, LINEAR, OVER_GROUPS, group_accuracies, verdict
from contrastive.run.run import Run, done_already, read_run
from contrastive.text import as_typed, columns, counted, marked, show, unpack_bits

if TYPE_CHECKING:
    from contrastive.experiment.build import Experiment
    from contrastive.run.directory import RunDirectory

MAX_GROUPS, MOST_CLASSES = 20, 10  # of class and bias, and classes, that are listed
READ_OUTS = (LINEAR, KNN, "few_shot_top1")  # the first that both have is judged
Z = 1.959964  # of the 95 % interval


def show_finished(settings: Settings, path: Path) -> dict[str, Any] | None:
    """Print the run in `path` if it is finished with these settings; returns its result, None where there is work.

    Evaluators change no weight: of a run with other ones it is said how to get those that are asked for.
    """
    if settings.rerun or settings.dry_run or (state := read_run(path)).kind != "finished":
        return None
    asked, had = settings.evaluator, state.config["evaluator"]
    if (run := done_already(path, {**settings.to_dict(), "evaluator": had})) is None:
        return None
    show(already_done(run))
    if new := [name for name in asked if differences(_only(name, had), _only(name, asked))]:
        again = f"{command('python')} -m contrastive evaluate {as_typed(path)} 'evaluator=[{','.join(new)}]'"
        show(f"\nNot computed yet: {', '.join(new)}. To add it, with your settings of it behind:\n{again}")
    return run.result


def _only(name: str, evaluators: dict[str, Any]) -> dict[str, Any]:
    return {"evaluator": {name: evaluators.get(name)}}


def heading(experiment: "Experiment", run: "RunDirectory", *, threads: str) -> str:
    """What will be trained on what, what its features are, and where it is kept."""
    from contrastive.distributed.process import world_size
    from contrastive.experiment.components import feature

    settings, data, loader = experiment.settings, experiment.data, experiment.loader
    encoder = experiment.step.encoder
    n = sum(p.numel() for p in encoder.parameters())
    stem = ", large stem" if settings.encoder.get("stem") == "large" else ""
    kind = f"in {len(data.classes)} classes" if data.classes else "without labels"
    length = f"{counted(settings.epochs, 'epoch')} of {counted(len(loader), 'batch')}"
    training = length if settings.epochs else "no training"
    for chance in experiment.step.chance(loader.batch_size, loader.device).values():
        training += f", loss at chance {chance:.2f}"
    processes = f"{counted(world_size(), 'process')} of " if world_size() > 1 else ""
    left_out = f"\nno image has a label: {', '.join(experiment.left_out)} are left out" if experiment.left_out else ""
    return (
        f"data            {len(data.pretrain):,} training images of {data.pretrain.image.shape[-1]} px {kind}\n"
        f"encoder         {f'{n / 1e6:.2f} M' if n >= 1e5 else f'{n:,}'} parameters{stem}\n"
        f"                features: {encoder.dim} values, {feature(encoder)}\n"
        f"training        {training}\n"
        f"                {experiment.precision} on {experiment.device}, {processes}{threads}\n"
        f"run directory   {as_typed(run.path)}{watching(run.path) if settings.epochs else ''}{left_out}"
    )


def watching(path: Path) -> str:
    """A line that says how to look while the run goes on; none where nobody sits before the screen."""
    here = path.absolute()
    folder = Path(*here.relative_to(Path.cwd()).parts[:1]) if here.is_relative_to(Path.cwd()) else here
    line = f"\nto look         {command('python')} -m contrastive runs {as_typed(folder)}"
    return line if sys.stdout.isatty() else ""


def finished(folder: Path, result: dict[str, Any]) -> str:
    """The result, where it is kept and what to type next."""
    path = as_typed(folder)
    parts = []
    if result["test"]:
        last = ", last epoch" if trained(result) else ""
        parts.append(f"Test split{last}; accuracies in percent\n{_metrics(result)}")
        parts += filter(None, [majority_text(result)])
    elif result.get("val") and not result["audit"]:
        figures = columns([["", "trained"], *([key, f"{value:.2f}"] for key, value in result["val"].items())])
        parts.append(f"Held-out training images; accuracies in percent\n{figures}")
    if judged := verdict_text(result):
        parts.append(judged)
    if any("best_test" in name for name in result["test"]):
        parts.append("best_test: best test epoch, as published: selected on the test split, only for comparison")
    if result["audit"].get("by_class"):
        parts.append(_by_class(result["audit"]["by_class"], result["audit"]["classes"]))
    if "bias_top1" in result["audit"]:
        parts.append(_audit(result["audit"]))
    if "left_out" in result:
        parts.append(
            f"To judge the encoder on labeled images: {command('python')} -m contrastive evaluate {path} dataset=digits"
        )
    has_events = any(folder.glob("events.*"))
    curves = f"{command('tensorboard')} --logdir {path}" if has_events else f"{path}/metrics.jsonl"
    parts.append(f"run directory   {path}\ncurves          {curves}")
    return "\n" + "\n\n".join(parts)


def already_done(run: Run) -> str:
    """The result of a run that was finished before."""
    lines = [f"{as_typed(run.path)} is done already: this is its result. rerun=true starts it over."]
    lines += [f"warning: {warning}" for warning in run.warnings]
    return "\n".join([*lines, finished(run.path, run.result)])


def trained(result: dict[str, Any]) -> bool:
    """Whether the run trained its encoder: epochs=0 does not."""
    return bool(result.get("encoder", {}).get("epochs", 1))


def command(name: str) -> str:
    """What to type for a program of this environment, which may not be activated: `.venv/bin/python`."""
    ours, found = Path(sys.prefix) / "bin" / name, shutil.which(name)
    return name if (found and Path(found) == ours) or not ours.exists() else as_typed(ours)


def metric_rows(result: dict[str, Any]) -> list[list[str]]:
    """A row for each metric, below a head: before and after training, or one figure where there was none, and the
    interval over test images."""
    figures, before = result["test"], before_training(result)
    untrained = [before, *(_number(result["untrained"].get(name)) for name in figures)]
    last = ["trained" if trained(result) else before, *map(_number, figures.values())]
    shown = [["", *figures], untrained if trained(result) else [], last, interval_column(result)]
    return [list(row) for row in zip(*filter(None, shown), strict=True)]


def _metrics(result: dict[str, Any]) -> str:
    """`metric_rows`; what training is told to have changed for the better is green, for the worse red."""
    told = gains(result, result["test"])
    verdicts = {i: told[name].verdict for i, name in enumerate(result["test"], start=1) if name in told}
    colors = {"better": "green", "worse": "red"}
    return columns(metric_rows(result), colors={(i, 2): colors[word] for i, word in verdicts.items() if word in colors})


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _audit(audit: dict[str, Any]) -> str:
    """A line for each read-out with its accuracy over bias groups, and of few groups one for each."""
    accuracies = group_accuracies(audit)
    rows = [["by bias", *(name.removesuffix("_top1").replace("_", " ") for name in OVER_GROUPS)]]
    for read_out, own in accuracies.items():
        rows.append([read_out, *(f"{own[name]:.2f}" if name in own else "-" for name in OVER_GROUPS)])
    reported = audit.get("reported")
    figure = ""
    if reported:
        selected = ", best test epoch" if "best_test" in reported["read_out"] else ""
        figure = f"\n  reported{selected}: {reported['accuracy']:.2f} ({reported['metric']}) by {reported['read_out']}"
    bias = f"the bias is linearly readable from the features: {audit['bias_top1']:.2f} %"
    groups = audit.get("groups", [])
    by_group = f"\n\n{_by_group(groups)}" if 0 < len(groups) <= MAX_GROUPS else ""
    return f"{columns(rows)}{figure}\n  {bias}{by_group}"


def _by_group(groups: list[dict[str, Any]]) -> str:
    """A line for each pair of class and bias: how many test images it has, and the accuracy of each read-out."""
    rows = [["class, bias", "images", *groups[0]["top1"]]]
    for group in groups:
        accuracies = [f"{value:.2f}" for value in group["top1"].values()]
        rows.append([f"{group['class']}, {group['bias']}", str(group["n"]), *accuracies])
    return columns(rows)


def _by_class(audit: dict[str, Any], classes: list[dict[str, Any]]) -> str:
    """A column for each probe: the mean over classes, the worst one, and all of them if they are few.

    Args:
        classes: their names and numbers of test images.
    """
    rows = [["by class", "images", *audit]]
    rows += [[name, "", *(f"{own[f'{name}_top1']:.2f}" for own in audit.values())] for name in ("mean", "worst")]
    for c in classes if len(classes) <= MOST_CLASSES else ():
        accuracies = [f"{own['top1'][str(c['label'])]:.2f}" for own in audit.values()]
        rows.append([c["class"], str(c["n"]), *accuracies])
    return columns(rows)


class Gain(NamedTuple):
    """Two accuracies on the same n images, their difference in points, and the ends of its 95 % interval."""

    before: float
    after: float
    n: int
    points: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        return verdict(self.low, self.high)


def gain(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> Gain:
    """The gain of `after` over `before`, each (N,): whether an image was classified right.

    The interval is that of a difference of paired proportions by Agresti & Min 2005 (Stat. Med. 24, 729-740): Wald's,
    with half an image added to each of the four cells. It holds for few images, too, and is never of length 0.
    """
    n, won, lost = len(before), int((~before & after).sum()), int((before & ~after).sum())
    center = (won - lost) / (n + 2)
    half = Z * math.sqrt(won + lost + 1 - (won - lost) ** 2 / (n + 2)) / (n + 2)
    accuracies = 100 * float(before.mean()), 100 * float(after.mean())
    return Gain(*accuracies, n, 100 * (won - lost) / n, 100 * (center - half), 100 * (center + half))


def gains(result: dict[str, Any], names: Iterable[str]) -> dict[str, Gain]:
    """{name: gain by training} of those accuracies whose answers to the test images are known before and after it."""
    before, after = answers(result, "untrained_correct"), answers(result, "correct")
    return {name: gain(before[name], after[name]) for name in names if name in before and name in after}


def answers(result: dict[str, Any], key: str) -> dict[str, NDArray[np.bool_]]:
    """{accuracy: which test images it is right about}."""
    return {name: unpack_bits(text) for name, text in result.get(key, {}).items()}


def wilson(percent: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share of n images, in percent (Wilson 1927): it stays within 0 and 100."""
    p = percent / 100
    center, half = p + Z**2 / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    return 100 * (center - half) / (1 + Z**2 / n), 100 * (center + half) / (1 + Z**2 / n)


def interval_column(result: dict[str, Any]) -> list[str]:
    """A column of a table of the accuracies in `test`: its head, and the interval of each; [] where none is known."""
    numbers = {name: len(right) for name, right in answers(result, "correct").items() if len(right)}
    known = {name: wilson(value, numbers[name]) for name, value in result["test"].items() if name in numbers}
    cells = ["{:.1f} to {:.1f}".format(*known[name]) if name in known else "-" for name in result["test"]]
    return [f"95 % over {max(numbers.values()):,} images", *cells] if known else []


def majority_text(record: dict[str, Any]) -> str:
    """What a guess gets where more than half of the test images are of one class; empty elsewhere."""
    if "majority" not in record:
        return ""
    percent, name = record["majority"]["percent"], record["majority"]["class"]
    guess = f"{percent:.2f} % of the test images are of one class, {name}: to guess it always gives that top-1"
    return f"{guess}; the evaluator class_audit gives the mean over classes"


def before_training(result: dict[str, Any]) -> str:
    """What the encoder was before training: untrained, or as loaded with weights."""
    return str(result.get("encoder", {}).get("before", "untrained"))


def verdict_text(result: dict[str, Any]) -> str | None:
    """Whether training helped, or where nobody can tell; None where it helped, as it should, an untrained encoder.

    Args:
        result: the content of result.json.
    """
    if "untrained_correct" not in result:
        return None
    if before_training(result) == "as loaded":
        return _of_weights(next(iter(gains(result, READ_OUTS).items()), None))
    found = gains(result, (KNN, LINEAR))
    of = {word: [name for name, own in found.items() if own.verdict == word] for word in ("worse", "undecided")}
    lines = []
    if of["worse"]:
        worse = (f"{name} ({found[name].after:.2f}, untrained {found[name].before:.2f})" for name in of["worse"])
        said = f"training made the encoder worse in {' and '.join(worse)}: try more epochs or another optimizer.lr"
        lines.append(marked(said, "yellow"))
    if of["undecided"]:
        n = found[of["undecided"][0]].n
        lines.append(f"not told from untrained by {n:,} test images: {' and '.join(of['undecided'])}")
    return "\n".join(lines) or None


def _of_weights(judged: tuple[str, Gain] | None) -> str:
    """Whether training helped an encoder that came with weights, by the first read-out that knows it."""
    if judged is None:
        return (
            "Whether it helped is not known, because no test image has a label: try a few hundred images in "
            "PATH/test/<class>/ and PATH/train/<class>/"
        )
    name, found = judged
    words = {
        "better": "It helped",
        "worse": "It got worse",
        "undecided": f"It did not help, as far as {found.n:,} test images tell",
    }[found.verdict]
    return (
        f"{words}: {name} is {found.after:.1f} and was {found.before:.1f} with the weights that it began "
        f"with, {found.points:+.1f} points ({found.low:+.1f} to {found.high:+.1f}, 95 % over {found.n:,} test images; "
        "another seed is not counted)"
    )
