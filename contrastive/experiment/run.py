"""One run, from its settings to its result."""

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, cast

import torch

from contrastive.average.ema import of_average
from contrastive.config.messages import user_message
from contrastive.config.settings import Settings
from contrastive.distributed.hardware import check_processes, fix_instructions
from contrastive.distributed.launch import launch
from contrastive.distributed.process import broadcast_from_main, init, is_launched, is_main
from contrastive.distributed.signals import stop_signals
from contrastive.encoder._trained import merged
from contrastive.evaluator.base import Evaluator, FeatureSets, Scores, evaluate
from contrastive.evaluator.published import OnlineProbe
from contrastive.experiment import summary
from contrastive.experiment.build import Experiment, build
from contrastive.experiment.components import feature
from contrastive.experiment.dry_run import estimate
from contrastive.experiment.machine import busy_warning, keep_freed_memory, set_threads
from contrastive.experiment.make import load_other_data
from contrastive.hook.evaluations import Evaluations
from contrastive.hook.profiling import Profiling
from contrastive.run.directory import RunDirectory, open_run
from contrastive.run.files import read_result, source_hashes
from contrastive.run.provenance import environment_record
from contrastive.run.run import Run
from contrastive.run.weights import save_run_weights
from contrastive.text import as_typed, show
from contrastive.tracker.base import Harmless
from contrastive.training.checkpointer import Checkpointer, ResumePoint, resume, resume_point
from contrastive.training.diagnostics import first_views, grouped, nested, similarities, unseen_loss
from contrastive.training.features import EncodedImages
from contrastive.training.graph import GraphedStep
from contrastive.training.hook import Hook, Training
from contrastive.training.loop import train
from contrastive.training.progress import Progress, announced
from contrastive.training.step_log import StepLog, recorded_failure
from contrastive.types import Data


def run_experiment(
    settings: Settings, path: Path, overrides: Sequence[str] = (), *, data: Data | None = None
) -> dict[str, Any]:
    """Start, resume or show the run in `path`.

    Args:
        overrides: what was typed to get the settings, for the records of the run.
        data: in place of what `settings.dataset` names; for one process.

    Returns:
        The content of result.json; {} for a dry run.
    """
    keep_freed_memory()
    if settings.reproducible and (settings.devices == 1 or is_launched()):  # what a sweep runs next stays free
        fix_instructions()
    init(settings.device)
    if data is None:  # other processes may see other times of the files: one of them decides
        result = broadcast_from_main(lambda: summary.show_finished(settings, path))
        if result is not None:
            return result
    if settings.devices > 1 and not is_launched():
        check_processes(settings.devices, settings.device)
        launch(settings.devices, run_experiment, settings, path, overrides, explain=user_message)
        return read_result(path) or {}
    threads = set_threads(settings.threads, path, rerun=settings.rerun)
    with nullcontext() if settings.quiet else announced("reading the data", name=as_typed(path)):
        experiment = build(settings, data)
    if settings.dry_run:
        if experiment.data.found is not None:
            show(str(experiment.data.found))
        with announced("timing a few steps and every evaluator"):
            text = estimate(experiment).text
        print(text)
        return {}
    config, environment = settings.to_dict(), environment_of(experiment, overrides)
    with open_run(path, config=config, environment=environment, rerun=settings.rerun, writable=is_main()) as run:
        if run.result is not None:
            show(summary.already_done(Run(path=path, result=run.result)))
            return run.result
        quiet = redirect_stdout(StringIO()) if settings.quiet else nullcontext()
        with quiet:
            if experiment.data.found is not None and run.state is None:
                show(str(experiment.data.found))
            with recorded_failure(run):  # the loss at chance is in it
                print(summary.heading(experiment, run, threads=threads))
            if warning := busy_warning():
                print(f"warning: {warning}")
            result = train_and_evaluate(experiment, run)
        show(summary.finished(run.path, result))
        return result


def environment_of(experiment: Experiment, overrides: Sequence[str]) -> dict[str, Any]:
    """What produces the run: the content of environment.json."""
    return environment_record(
        experiment.device,
        config=(config := experiment.settings.to_dict()),
        overrides=overrides,
        precision=experiment.precision,
        compiled=experiment.step.compile,
        graphs=isinstance(experiment.step, GraphedStep),
        data_hash=experiment.data_hash,
        facts=experiment.data.facts | source_hashes(config),
        found=None if experiment.data.found is None else experiment.data.found.record(),
        files=experiment.files,
    )


def train_and_evaluate(experiment: Experiment, run: RunDirectory) -> dict[str, Any]:
    """Train from the last checkpoint, or from the start, to the last epoch; evaluate; write the result.

    Several processes do the same in step; only the main one writes.

    Raises:
        Stop: a signal asked this process to end; a checkpoint was saved first.
    """
    settings, step, loader = experiment.settings, experiment.step, experiment.loader
    start = ResumePoint(0, 0) if run.state is None else resume_point(run.state)
    with stop_signals() as signals:
        log = StepLog(every=settings.log_every)
        checkpointer = Checkpointer(
            start=start,
            log=log,
            signals=signals,
            every=settings.checkpoint_every,
            minutes=settings.checkpoint_every_minutes,
        )
        observers = {name: item for name, item in experiment.evaluators.items() if isinstance(item, OnlineProbe)}
        dim, n_classes = cast(int, step.encoder.dim), len(experiment.data.classes)
        for observer in observers.values():
            observer.prepare(dim=dim, n_classes=n_classes, device=experiment.device, seed=settings.seed)
        evaluations = Evaluations(
            before=partial(before_training, experiment),
            due=partial(evaluate_due, experiment, run),
            after=partial(after_training, experiment),
            observers=observers,
            checkpointer=checkpointer,
            signals=signals,
        )
        hooks = hooks_in_order(experiment, run, log, evaluations, checkpointer)
        if run.state is not None:
            resume(run.state, step, hooks)
            whole, rest = divmod(start.epoch * len(loader) + start.batch, len(loader))
            print(f"resuming after epoch {whole}{f' and {rest} of {len(loader)} batches' if rest else ''}")
        with signals.held():
            train(step, loader, experiment.schedule, settings.epochs, hooks, run=run, start=start)
        signals.check()
        result = result_of(experiment, evaluations, seconds=checkpointer.seconds)
        encoder, data = merged(experiment.encoder), experiment.data
        run.finish(result, partial(save_run_weights, result=result, data=data, encoder=encoder, head=step.head))
        return run.result or result


def hooks_in_order(
    experiment: Experiment, run: RunDirectory, log: StepLog, evaluations: Evaluations, checkpointer: Checkpointer
) -> dict[str, Hook]:
    """Everything that watches the run, by the name of its state in a checkpoint.

    Lines of the log come first, so that every other hook sees them; the checkpoint comes last, with the state of all.
    """
    settings, hooks = experiment.settings, dict[str, Hook](log=log)
    if experiment.teacher is not None and experiment.teacher is not experiment.average:
        hooks["teacher"] = experiment.teacher
    if experiment.average is not None:
        hooks["average"] = experiment.average
    hooks["evaluations"] = evaluations
    hooks |= {f"hook.{name}": hook for name, hook in experiment.hooks.items()}
    if is_main():
        hooks |= {f"tracker.{name}": Harmless(hook, name=name) for name, hook in experiment.trackers.items()}
        hooks["progress"] = Progress(name=as_typed(run.path), quiet=settings.quiet, before=came(settings))
    if settings.profile and is_main():
        hooks["profiler"] = Profiling(run.path / "profile")
    return {**hooks, "checkpoint": checkpointer}


def before_training(experiment: Experiment, training: Training) -> Scores:
    """Evaluate the encoder before training and show views of the first batch; returns its scores."""
    if training.epochs == 0 or experiment.settings.held_out is not None:
        return Scores()
    early = {name: evaluator for name, evaluator in experiment.evaluators.items() if evaluator.before_training}
    untrained = evaluated(experiment, training.run.path, early)[0] if early else Scores()
    training.log(grouped("test", untrained.test) | loss_of_unseen(experiment, training.run))
    if is_main():
        training.show("views", first_views(experiment.step, experiment.loader))
    return untrained


def after_training(experiment: Experiment, training: Training) -> Scores:
    """Evaluate the encoder as it is in the end; log the scores and show how similar the features of the test split are.

    Scores of a run that is judged on training images are `val`.
    """
    average, is_judged_on_training = experiment.average, experiment.settings.held_out is not None
    is_trained = training.epochs > 0
    scores, sets = evaluated(experiment, training.run.path, experiment.evaluators, with_classifier=is_trained)
    scores = replace(scores, protocol=of_average(scores.protocol, None if average is None else average.protocol))
    if is_judged_on_training:
        scores = replace(scores, test={}, val=scores.test, audit={})
    if training.epochs:
        training.log(loss_of_unseen(experiment, training.run))
    training.log(grouped("test", scores.test) | nested("audit", scores.audit))
    if is_judged_on_training:
        training.log(grouped("val", scores.val))
    if is_main():
        for name, value in (scores.histograms | similarities(sets.test)).items():
            training.show(name, value)
    return scores


def result_of(experiment: Experiment, evaluations: Evaluations, *, seconds: float) -> dict[str, Any]:
    """What result.json says of a run that is trained and evaluated."""
    settings, scores = experiment.settings, evaluations.scores
    weights, finished = settings.encoder.get("weights"), datetime.now(UTC).isoformat(timespec="seconds")
    is_compared = settings.epochs > 0 and settings.held_out is None
    return {
        "test": scores.test, "val": scores.val, "untrained": evaluations.untrained,
        "audit": scores.audit, "protocol": scores.protocol, "correct": scores.correct,
        "encoder": {
            "features": feature(experiment.step.encoder), "weights": weights, "epochs": settings.epochs,
            "before": came(settings),
            **({} if experiment.average is None else {"average": experiment.average.protocol}),
        },
        "time": {"seconds": seconds, "finished": finished},
        **({"left_out": experiment.left_out} if experiment.left_out else {}), **experiment.data.majority,
        **({"untrained_correct": evaluations.untrained_correct} if is_compared else {}),
    }  # fmt: skip


def came(settings: Settings) -> str:
    """What the encoder is before training: untrained, or as loaded with weights."""
    came_with = settings.encoder.get("weights") is not None or settings.encoder.get("pretrained", False)
    return "as loaded" if came_with else "untrained"


def evaluate_due(experiment: Experiment, run: RunDirectory, done: int) -> dict[str, float]:
    """The metrics of the evaluators that are due after so many epochs, as curves.

    A run in bf16 encodes in bf16 here, in half the time. What result.json holds, before and after training, is always
    of float32.
    """
    every = {name: evaluator.every for name, evaluator in experiment.evaluators.items()}
    due = {name: experiment.evaluators[name] for name, n in every.items() if n > 0 and done % n == 0}
    curves = loss_of_unseen(experiment, run)
    if due:
        dtype = torch.bfloat16 if experiment.precision == "bf16" else torch.float32
        group = "test" if experiment.settings.held_out is None else "val"
        curves |= grouped(group, evaluated(experiment, run.path, due, dtype=dtype)[0].test)
    return curves


def loss_of_unseen(experiment: Experiment, run: RunDirectory) -> dict[str, float]:
    """{val/loss: see `unseen_loss`} on the validation images if they are held out, else {test/loss} on test images."""
    settings, data = experiment.settings, experiment.data
    is_judged_on_training = settings.held_out is not None
    group = "val" if settings.dataset.get("hold_out") or is_judged_on_training else "test"
    split = data.probe_val if group == "val" and not is_judged_on_training else data.test
    known = data.pretrain.bias
    is_known = split.bias is not None and known is not None and bool(split.bias.max() <= known.max())
    if settings.bias_from is not None or not is_known:  # labels of another kind, or of biases that training lacks
        split = replace(split, bias=None)
    with recorded_failure(run):
        value = unseen_loss(experiment.step, split, batch_size=settings.batch_size, seed=settings.seed)
    return grouped(group, value)


def evaluated(
    experiment: Experiment,
    path: Path,
    evaluators: Mapping[str, Evaluator],
    *,
    with_classifier: bool = False,
    dtype: torch.dtype = torch.float32,
) -> tuple[Scores, FeatureSets]:
    """The scores of the encoder as it stands, or of its average, and the features that they are of."""
    step, data, name = experiment.step, experiment.data, as_typed(path)
    classifier = step.objective.classifier if with_classifier else None
    if classifier is not None and experiment.device.type == "mps":
        classifier = copy.deepcopy(classifier).cpu()  # where the features are, see `home`
    images = EncodedImages(
        encoder=experiment.encoder,
        data=data,
        normalize=step.normalize,
        augmentation=step.augmentation,
        seed=experiment.loader.seed,
        load_other=partial(load_other_data, like=data, data_root=experiment.settings.data_root),
        dtype=dtype,
    )
    with announced("evaluating: features", name=name):
        with_training = any(evaluator.reads_training for evaluator in evaluators.values())
        sets = images.feature_sets(classifier, with_training=with_training)
    return evaluate(evaluators, sets, announce=lambda what: announced(f"evaluating: {what}", name=name)), sets
