"""One run, from its settings to its result."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

from torch import nn

from contrastive.distributed.launch import launch
from contrastive.distributed.process import init, is_launched, is_main
from contrastive.evaluator.base import FeatureSets, StepObserver, evaluate
from contrastive.program import summary
from contrastive.program.build import Experiment, build
from contrastive.program.curves import grouped, log_features, log_scores
from contrastive.program.dry_run import estimate
from contrastive.program.encoder_output import feature
from contrastive.program.feature_sets import feature_sets
from contrastive.program.progress import Progress, silenced
from contrastive.program.settings import Settings
from contrastive.program.threads import set_threads
from contrastive.run.directory import RunDirectory, open_run
from contrastive.run.environment import environment_record
from contrastive.seeding import generator
from contrastive.training.loop import train_epoch
from contrastive.training.picture import view_grid
from contrastive.weights.file import weights_hash
from contrastive.weights.metadata import save_run_weights


def run_experiment(settings: Settings, path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Start, resume or show the run in `path`.

    Args:
        overrides: what was typed to get the settings, for the records of the run.

    Returns:
        The content of result.json; nothing from a dry run.
    """
    if settings.devices > 1 and not is_launched():
        launch(settings.devices, run_experiment, settings, path, overrides)
        return {} if settings.dry_run else json.loads((path / "result.json").read_text())
    init(settings.device)
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
            print(summary.already_done(run))
            return run.result
        with silenced(settings.quiet):
            print(summary.heading(experiment, settings, run, threads=threads))
            result = train_and_evaluate(experiment, settings, run)
        print(summary.finished(run, result))
        return result


def train_and_evaluate(experiment: Experiment, settings: Settings, run: RunDirectory) -> dict[str, Any]:
    """Train from the last checkpoint, or from the start, to the last epoch; evaluate; write the result.

    Several processes do the same in step; only the main one writes.
    """
    step, loader, evaluators = experiment.step, experiment.loader, experiment.evaluators
    observers = prepare_observers(experiment, settings)
    since, per_epoch = time.perf_counter(), len(loader)
    if run.state:
        start = resume(experiment, run, observers)
    else:
        start = begin(experiment, run) if settings.epochs else Start(epoch=0, untrained={}, seconds=0.0)
    done_before = start.epoch * per_epoch
    with Progress(start=done_before, epochs=settings.epochs, per_epoch=per_epoch, quiet=settings.quiet) as progress:
        progress.show(grouped("test", start.untrained))
        for epoch in range(start.epoch, settings.epochs):
            train_epoch(
                step, loader, run, epoch=epoch, epochs=settings.epochs, schedule=experiment.schedule,
                log_every=settings.log_every, progress=progress, observers=observers.values(),
            )  # fmt: skip
            done = epoch + 1
            due = {name: evaluator for name, evaluator in evaluators.items() if is_due(evaluator.every, done)}
            if due and done < settings.epochs:
                scores = grouped("test", evaluate(due, features(experiment)).test)
                run.log(done * per_epoch, done, scores)
                progress.show(scores)
            if is_due(settings.checkpoint_every, done) or done == settings.epochs:
                seconds = start.seconds + time.perf_counter() - since
                run.save({
                    "step": done * per_epoch, "epoch": done, "untrained": start.untrained, "seconds": seconds,
                    "observers": {name: observer.state() for name, observer in observers.items()}, **step.state(),
                })  # fmt: skip
            progress.end_epoch(done)

    sets = features(experiment, with_classifier=settings.epochs > 0)
    final = evaluate(evaluators, sets)
    log_scores(run, final, step=settings.epochs * per_epoch, epoch=settings.epochs)
    log_features(run, sets.test, experiment.data, step=settings.epochs * per_epoch)
    seconds = start.seconds + time.perf_counter() - since
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    result = {
        "status": "done", "test": final.test, "val": final.val, "untrained": start.untrained, "audit": final.audit,
        "protocol": final.protocol, "encoder": encoder_record(step.encoder, settings),
        "time": {"seconds": seconds, "finished": finished},
        **({"left_out": experiment.left_out} if experiment.left_out else {}),
    }  # fmt: skip
    run.finish(
        result, partial(save_run_weights, result=result, data=experiment.data, encoder=step.encoder, head=step.head)
    )
    return result


def encoder_record(encoder: nn.Module, settings: Settings) -> dict[str, Any]:
    """What was evaluated: the values taken as features, the file it started from, the epochs it was trained for."""
    weights = settings.encoder.get("weights")
    return {"features": feature(encoder), "weights": weights, "epochs": settings.epochs}


class Start(NamedTuple):
    """Where training starts: the epoch, the scores before training, and the seconds spent so far."""

    epoch: int
    untrained: dict[str, float]
    seconds: float


def begin(experiment: Experiment, run: RunDirectory) -> Start:
    """Evaluate the untrained encoder and show views of the first batch."""
    cheap = {name: evaluator for name, evaluator in experiment.evaluators.items() if evaluator.before_training}
    untrained = evaluate(cheap, features(experiment)).test
    run.log(0, 0, grouped("test", untrained))
    run.log_image(0, "views", first_views(experiment))
    return Start(epoch=0, untrained=untrained, seconds=0.0)


def resume(experiment: Experiment, run: RunDirectory, observers: dict[str, StepObserver]) -> Start:
    """Restore the last checkpoint."""
    assert run.state is not None
    experiment.step.load(run.state)
    for name, observer in observers.items():
        observer.load(run.state["observers"][name])
    print(f"resuming after epoch {run.state['epoch']}")
    return Start(epoch=run.state["epoch"], untrained=run.state["untrained"], seconds=run.state["seconds"])


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
