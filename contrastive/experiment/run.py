"""One run, from its settings to its result."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch

from contrastive.config.messages import user_message
from contrastive.config.settings import Settings
from contrastive.distributed.launch import launch
from contrastive.distributed.process import init, is_launched, is_main
from contrastive.distributed.signals import Stop, stop_signals
from contrastive.evaluator.base import FeatureSets, Scores, StepObserver, evaluate
from contrastive.experiment import summary
from contrastive.experiment.build import Experiment, build
from contrastive.experiment.dry_run import estimate
from contrastive.experiment.features import feature_sets
from contrastive.experiment.progress import Progress, silenced
from contrastive.experiment.state import Saver, Start, encoder_record, explained_memory, resume, write_weights
from contrastive.experiment.summary import as_typed
from contrastive.experiment.threads import set_threads
from contrastive.run.directory import RunDirectory, finished_run, open_run
from contrastive.run.files import read_result
from contrastive.run.foreign import weights_hash
from contrastive.run.provenance import environment_record
from contrastive.seeding import generator
from contrastive.training.diagnostics import class_similarities, view_grid
from contrastive.training.loop import train_epoch
from contrastive.types import Data, Features


def run_experiment(settings: Settings, path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Start, resume or show the run in `path`.

    Args:
        overrides: what was typed to get the settings, for the records of the run.

    Returns:
        The content of result.json; nothing from a dry run.
    """
    init(settings.device)
    starts_over = settings.rerun or settings.dry_run
    if not starts_over and (run := finished_run(path, config=settings.to_dict())) is not None:
        print(summary.already_done(run))
        return run.result or {}
    if settings.devices > 1 and not is_launched():
        launch(settings.devices, run_experiment, settings, path, overrides, explain=user_message)
        return read_result(path) or {}
    threads = set_threads(settings.threads, path, rerun=settings.rerun)
    experiment = build(settings)
    if settings.dry_run:
        print(estimate(experiment, settings))
        return {}
    config = settings.to_dict()
    environment = environment_record(
        experiment.device,
        config=config,
        overrides=overrides,
        precision=experiment.precision,
        data_hash=experiment.data_hash,
        facts=experiment.data.facts | weights_hash(settings.encoder.get("weights")),
    )
    with open_run(path, config=config, environment=environment, rerun=settings.rerun, writable=is_main()) as run:
        if run.result is not None:
            if run.state is not None:  # the files of weights are damaged, or another run's
                experiment.step.load(run.state)
                run.rewrite(partial(write_weights, experiment, run.result))
            print(summary.already_done(run))
            return run.result
        with silenced(settings.quiet), explained_memory(experiment, settings):
            print(summary.heading(experiment, settings, run, threads=threads))
            result = train_and_evaluate(experiment, settings, run)
        print(summary.finished(run, result))
        return result


def train_and_evaluate(experiment: Experiment, settings: Settings, run: RunDirectory) -> dict[str, Any]:
    """Train from the last checkpoint, or from the start, to the last epoch; evaluate; write the result.

    Several processes do the same in step; only the main one writes.

    Raises:
        Stop: a signal asked this process to end; a checkpoint was saved first.
    """
    with stop_signals() as signals:
        observers = prepare_observers(experiment, settings)
        start = resume(experiment, run, observers) if run.state else begin(experiment, settings, run)
        saver = Saver(
            experiment, run, observers, start=start, minutes=settings.checkpoint_every_minutes, signals=signals
        )
        train(experiment, settings, run, saver)
        sets = features(experiment, with_classifier=settings.epochs > 0)
        scores = evaluate(experiment.evaluators, sets, strict=False)
        last = settings.epochs * len(experiment.loader)
        log_scores(run, scores, step=last, epoch=settings.epochs)
        log_features(run, sets.test, experiment.data, step=last)
        finished = datetime.now(UTC).isoformat(timespec="seconds")
        result = {
            "test": scores.test, "val": scores.val, "untrained": start.untrained,
            "audit": scores.audit, "protocol": scores.protocol,
            "encoder": encoder_record(experiment.step.encoder, settings),
            "time": {"seconds": saver.seconds, "finished": finished},
            **({"left_out": experiment.left_out} if experiment.left_out else {}),
        }  # fmt: skip
        run.finish(result, partial(write_weights, experiment, result))
        return run.result or result


def train(experiment: Experiment, settings: Settings, run: RunDirectory, saver: Saver) -> None:
    """The epochs: train, evaluate if due, save."""
    start, per_epoch = saver.start, len(experiment.loader)
    before = start.epoch * per_epoch + start.batch
    with Progress(
        name=as_typed(run.path), start=before, epochs=settings.epochs, per_epoch=per_epoch, quiet=settings.quiet
    ) as progress:
        progress.show(grouped("test", start.untrained))
        for epoch in range(start.epoch, settings.epochs):
            is_first = epoch == start.epoch
            with saver.signals.held():
                train_epoch(
                    experiment.step, experiment.loader, run, epoch=epoch, epochs=settings.epochs,
                    schedule=experiment.schedule, log_every=settings.log_every, progress=progress,
                    observers=saver.observers.values(), start=start.batch if is_first else 0,
                    state=start.process if is_first else None, after_step=saver.after_step(epoch),
                )  # fmt: skip
            try:
                saver.signals.check()
                progress.show(log_curves(experiment, run, done=epoch + 1, epochs=settings.epochs))
            except Stop:
                saver.save(epoch, per_epoch)
                raise
            with saver.signals.held():
                is_last = epoch + 1 == settings.epochs
                if is_due(settings.checkpoint_every, epoch + 1) or is_last or saver.signals.pending is not None:
                    saver.save(epoch + 1)
            saver.signals.check()
            progress.end_epoch(epoch + 1)


def log_curves(experiment: Experiment, run: RunDirectory, *, done: int, epochs: int) -> dict[str, float]:
    """Evaluate and log what is due after so many epochs; the last one is evaluated when training is over."""
    due = {name: evaluator for name, evaluator in experiment.evaluators.items() if is_due(evaluator.every, done)}
    if not due or done == epochs:
        return {}
    scores = grouped("test", evaluate(due, features(experiment), strict=False).test)
    run.log(done * len(experiment.loader), done, scores)
    return scores


def begin(experiment: Experiment, settings: Settings, run: RunDirectory) -> Start:
    """Evaluate the untrained encoder and show views of the first batch; nothing where no training follows."""
    if settings.epochs == 0:
        return Start(epoch=0, batch=0, untrained={}, seconds=0.0)
    cheap = {name: evaluator for name, evaluator in experiment.evaluators.items() if evaluator.before_training}
    untrained = evaluate(cheap, features(experiment)).test
    run.log(0, 0, grouped("test", untrained))
    run.log_image(0, "views", first_views(experiment))
    return Start(epoch=0, batch=0, untrained=untrained, seconds=0.0)


def prepare_observers(experiment: Experiment, settings: Settings) -> dict[str, StepObserver]:
    """The evaluators that learn from the batches of training, ready for the first one."""
    observers: dict[str, StepObserver] = {
        name: item for name, item in experiment.evaluators.items() if isinstance(item, StepObserver)
    }
    for observer in observers.values():
        observer.prepare(
            dim=cast(int, experiment.step.encoder.dim),
            n_classes=len(experiment.data.classes),
            device=experiment.device,
            seed=settings.seed,
        )
    return observers


def is_due(every: int, epoch: int) -> bool:
    """Whether something that happens every so many epochs happens after this one; 0 = never."""
    return every > 0 and epoch % every == 0


def features(experiment: Experiment, *, with_classifier: bool = False) -> FeatureSets:
    """Features of the encoder as it stands."""
    step = experiment.step
    return feature_sets(
        step.encoder,
        experiment.data,
        normalize=step.normalize,
        augmentation=step.augmentation,
        seed=experiment.loader.seed,
        data_root=experiment.data_root,
        classifier=step.objective.classifier if with_classifier else None,
    )


def first_views(experiment: Experiment) -> Any:
    """A picture of eight images of the first batch, and of their views."""
    step, loader = experiment.step, experiment.loader
    rng = generator(loader.device, loader.seed, "augmentation", 0)
    batch = next(loader.epoch(0))
    return view_grid(batch.image[:8], step.views(batch, rng)[:, :8])


MAX_POINTS, MAX_NUMBERS = 2000, 2**20  # of the projector: images, and numbers in all their features


def log_scores(run: RunDirectory, scores: Scores, *, step: int, epoch: int) -> None:
    """Log the scores after training as points of curves and histograms."""
    run.log(step, epoch, grouped("test", scores.test) | nested("audit", scores.audit))
    for name, values in scores.histograms.items():
        run.log_histogram(step, name, values)


def log_features(run: RunDirectory, features: Features, data: Data, *, step: int) -> None:
    """Show the test features: as points with their labels, and how similar they are within and between classes."""
    n = min(MAX_POINTS, max(1, MAX_NUMBERS // features.h.shape[1]))
    index = torch.randperm(len(features.h), generator=generator("cpu", "shown"))[:n]
    shown = features[index.to(features.h.device)]
    for name, values in class_similarities(shown.h, shown.label).items():
        run.log_histogram(step, f"similarity/{name}", values)
    columns = {"class": words(shown.label, data.classes)}
    if shown.bias is not None:
        columns["bias"] = words(shown.bias, data.biases)
    run.log_embedding(shown.h, columns, data.test.image[index.to(data.test.image.device)])


def words(number: torch.Tensor, names: tuple[str, ...]) -> list[str]:
    """The name of each label; those of unlabeled images are `unlabeled`."""
    return [str(names[i]) if i >= 0 else "unlabeled" for i in number.tolist()]


def grouped(group: str, metrics: dict[str, float]) -> dict[str, float]:
    """Metric names as curves are grouped: group/name."""
    return {f"{group}/{key}": value for key, value in metrics.items()}


def nested(group: str, record: dict[str, Any]) -> dict[str, float]:
    """The numbers of a nested record as curves: group/outer/inner."""
    curves: dict[str, float] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            curves |= nested(f"{group}/{key}", value)
        elif not isinstance(value, str):
            curves[f"{group}/{key}"] = value
    return curves
