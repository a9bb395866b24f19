"""One run, from its settings to its result."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, cast

import torch

from contrastive.config.messages import user_message
from contrastive.config.settings import Settings
from contrastive.distributed.launch import launch
from contrastive.distributed.process import init, is_launched, is_main
from contrastive.distributed.signals import stop_signals
from contrastive.evaluator.base import FeatureSets, StepObserver, evaluate
from contrastive.experiment import summary
from contrastive.experiment.build import Experiment, build
from contrastive.experiment.components import feature
from contrastive.experiment.dry_run import estimate
from contrastive.experiment.machine import busy_warning, explained_memory, keep_freed_memory, set_threads
from contrastive.experiment.make import load_other_data
from contrastive.run.directory import RunDirectory, open_run
from contrastive.run.files import read_result, source_hashes
from contrastive.run.finished import FinishedRun
from contrastive.run.provenance import environment_record
from contrastive.run.weights import save_run_weights
from contrastive.text import as_typed
from contrastive.training.checkpointer import Checkpointer, ResumePoint, resume
from contrastive.training.diagnostics import grouped, log_scores, show_features, show_first_views, unseen_loss
from contrastive.training.features import feature_sets
from contrastive.training.loop import train
from contrastive.training.profiling import profiler
from contrastive.training.progress import Progress, announced


def run_experiment(settings: Settings, path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Start, resume or show the run in `path`.

    Args:
        overrides: what was typed to get the settings, for the records of the run.

    Returns:
        The content of result.json; {} for a dry run.
    """
    keep_freed_memory()
    init(settings.device)
    if (result := summary.show_finished(settings, path)) is not None:
        return result
    if settings.devices > 1 and not is_launched():
        launch(settings.devices, run_experiment, settings, path, overrides, explain=user_message)
        return read_result(path) or {}
    threads = set_threads(settings.threads, path, rerun=settings.rerun)
    with nullcontext() if settings.quiet else announced("reading the data", name=as_typed(path)):
        experiment = build(settings)
    if settings.dry_run:
        with announced("timing a few steps and every evaluator"):
            text = estimate(experiment)
        print(text)
        return {}
    config, environment = settings.to_dict(), environment_of(experiment, overrides)
    with open_run(path, config=config, environment=environment, rerun=settings.rerun, writable=is_main()) as run:
        if run.result is not None:
            if run.state is not None:  # the files of weights are damaged, or another run's
                experiment.step.load(run.state)
                run.rewrite(partial(write_weights, experiment, run.result))
            print(summary.already_done(FinishedRun(path=path, result=run.result)))
            return run.result
        with redirect_stdout(StringIO()) if settings.quiet else nullcontext(), explained_memory(settings):
            print(summary.heading(experiment, run, threads=threads))
            if warning := busy_warning():
                print(f"warning: {warning}")
            result = train_and_evaluate(experiment, run)
        print(summary.finished(run.path, result))
        return result


def environment_of(experiment: Experiment, overrides: Sequence[str]) -> dict[str, Any]:
    """What produces the run: the content of environment.json."""
    return environment_record(
        experiment.device,
        config=(config := experiment.settings.to_dict()),
        overrides=overrides,
        precision=experiment.precision,
        compiled=experiment.step.compile,
        data_hash=experiment.data_hash,
        facts=experiment.data.facts | source_hashes(config),
    )


def train_and_evaluate(experiment: Experiment, run: RunDirectory) -> dict[str, Any]:
    """Train from the last checkpoint, or from the start, to the last epoch; evaluate; write the result.

    Several processes do the same in step; only the main one writes.

    Raises:
        Stop: a signal asked this process to end; a checkpoint was saved first.
    """
    settings, step, loader = experiment.settings, experiment.step, experiment.loader
    epochs = settings.epochs
    with stop_signals() as signals:
        observers = prepare_observers(experiment)
        if run.state is not None:
            start = resume(run.state, step, observers)
            inside = f" and {start.batch} of {len(loader)} batches" if start.batch else ""
            print(f"resuming after epoch {start.epoch}{inside}")
        else:
            start = ResumePoint(0, 0, before_training(experiment, run) if epochs else {}, seconds=0.0)
        checkpointer = Checkpointer(
            step,
            loader,
            run,
            start=start,
            observers=observers,
            every=settings.checkpoint_every,
            minutes=settings.checkpoint_every_minutes,
        )
        done = start.epoch * len(loader) + start.batch
        rest, recording = epochs * len(loader) - done, None
        if settings.profile and rest and is_main():
            recording = profiler(run.path / "profile", steps=rest, device=experiment.device)
        with (
            Progress(
                name=as_typed(run.path), start=done, epochs=epochs, per_epoch=len(loader), quiet=settings.quiet
            ) as progress,
            recording or nullcontext(),
        ):
            if done == 0:  # a resumed run has other weights by now
                progress.show(grouped("test", start.untrained))
            train(
                step,
                loader,
                run,
                start=start,
                epochs=epochs,
                schedule=experiment.schedule,
                log_every=settings.log_every,
                checkpointer=checkpointer,
                observers=observers,
                evaluate=partial(evaluate_due, experiment, run),
                progress=progress,
                profiler=recording,
                signals=signals,
            )
        with announced("evaluating: features", name=as_typed(run.path)):
            sets = features(experiment, with_classifier=epochs > 0)
        scores = evaluate(experiment.evaluators, sets, strict=False, announce=announcer(run))
        if epochs:
            run.log(epochs * len(loader), epochs, loss_of_unseen(experiment))
        log_scores(run, scores, step=epochs * len(loader), epoch=epochs)
        show_features(run, sets.test, experiment.data, step=epochs * len(loader))
        weights, finished = settings.encoder.get("weights"), datetime.now(UTC).isoformat(timespec="seconds")
        result = {
            "test": scores.test, "val": scores.val, "untrained": start.untrained,
            "audit": scores.audit, "protocol": scores.protocol, "correct": scores.correct,
            "encoder": {"features": feature(step.encoder), "weights": weights, "epochs": epochs},
            "time": {"seconds": checkpointer.seconds, "finished": finished},
            **({"left_out": experiment.left_out} if experiment.left_out else {}),
        }  # fmt: skip
        run.finish(result, partial(write_weights, experiment, result))
        return run.result or result


def before_training(experiment: Experiment, run: RunDirectory) -> dict[str, float]:
    """Evaluate the untrained encoder and show views of the first batch; returns its metrics."""
    cheap = {name: evaluator for name, evaluator in experiment.evaluators.items() if evaluator.before_training}
    with announced("evaluating the untrained encoder: features", name=as_typed(run.path)):
        sets = features(experiment)
    untrained = evaluate(cheap, sets, announce=announcer(run)).test
    run.log(0, 0, grouped("test", untrained) | loss_of_unseen(experiment))
    show_first_views(run, experiment.step, experiment.loader)
    return untrained


def announcer(run: RunDirectory) -> Callable[[str], AbstractContextManager[None]]:
    """For `evaluate`: says which evaluator takes long."""
    return lambda name: announced(f"evaluating: {name}", name=as_typed(run.path))


def evaluate_due(experiment: Experiment, run: RunDirectory, done: int) -> dict[str, float]:
    """The metrics of the evaluators that are due after so many epochs, as curves.

    A run in bf16 encodes in bf16 here, in half the time. What result.json holds, before and after training, is always
    of float32.
    """
    every = {name: evaluator.every for name, evaluator in experiment.evaluators.items()}
    due = {name: experiment.evaluators[name] for name, n in every.items() if n > 0 and done % n == 0}
    curves = loss_of_unseen(experiment)
    if due:
        dtype = torch.bfloat16 if experiment.precision == "bf16" else torch.float32
        with announced("evaluating: features", name=as_typed(run.path)):
            sets = features(experiment, dtype=dtype)
        curves |= grouped("test", evaluate(due, sets, strict=False, announce=announcer(run)).test)
    return curves


def loss_of_unseen(experiment: Experiment) -> dict[str, float]:
    """{val/loss: see `unseen_loss`} on the validation images if they are held out, else {test/loss} on test images."""
    settings, data = experiment.settings, experiment.data
    group = "val" if settings.dataset.get("hold_out") else "test"
    split = data.probe_val if group == "val" else data.test
    known = data.pretrain.bias
    is_known = split.bias is not None and known is not None and bool(split.bias.max() <= known.max())
    if settings.bias_from is not None or not is_known:  # labels of another kind, or of biases that training lacks
        split = replace(split, bias=None)
    value = unseen_loss(experiment.step, split, batch_size=settings.batch_size, seed=settings.seed)
    return grouped(group, value)


def prepare_observers(experiment: Experiment) -> dict[str, StepObserver]:
    """The evaluators that learn from the batches of training, ready for the first one."""
    observers: dict[str, StepObserver] = {
        name: item for name, item in experiment.evaluators.items() if isinstance(item, StepObserver)
    }
    for observer in observers.values():
        observer.prepare(
            dim=cast(int, experiment.step.encoder.dim),
            n_classes=len(experiment.data.classes),
            device=experiment.device,
            seed=experiment.settings.seed,
        )
    return observers


def features(
    experiment: Experiment, *, with_classifier: bool = False, dtype: torch.dtype = torch.float32
) -> FeatureSets:
    """Features of the encoder as it stands, see `feature_sets`."""
    step, data = experiment.step, experiment.data
    return feature_sets(
        step.encoder,
        data,
        step.normalize,
        augmentation=step.augmentation,
        seed=experiment.loader.seed,
        load_other=partial(load_other_data, size=data.test.image.shape[-1], data_root=experiment.settings.data_root),
        classifier=step.objective.classifier if with_classifier else None,
        dtype=dtype,
    )


def write_weights(experiment: Experiment, result: dict[str, Any], path: Path) -> None:
    """Write the weights of the encoder and of the head into the run directory."""
    step = experiment.step
    save_run_weights(path, result=result, data=experiment.data, encoder=step.encoder, head=step.head)
