"""Evaluate finished runs again, without training."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from contrastive.config.check_types import check_types
from contrastive.config.settings import Settings
from contrastive.config.targets import check_targets
from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator, StepObserver, evaluate
from contrastive.experiment.build import applicable_evaluators, choose_device, is_resident, load_data
from contrastive.experiment.components import build_evaluators, instantiate_node
from contrastive.experiment.encoder import load_run_encoder
from contrastive.experiment.features import feature_sets
from contrastive.experiment.job import Request
from contrastive.experiment.machine import keep_freed_memory
from contrastive.experiment.summary import as_typed
from contrastive.files import file_hash
from contrastive.run.files import evaluation_name, read_evaluations, write_evaluation
from contrastive.run.foreign import weights_path
from contrastive.run.provenance import environment_record
from contrastive.text import format_grid
from contrastive.training.precision import Normalize
from contrastive.types import Data


def evaluate_runs(requests: list[Request], *, folders: Sequence[Path] = ()) -> str:
    """Evaluate each run, write RUN/evaluation/<name>.json, and return a table of runs and figures.

    What is done already is read, unless `rerun` is set or a module of the user's own was edited since. All settings are
    checked before anything is evaluated.
    They may name modules of the current folder and of `folders`, those of --config-dir.
    """
    keep_freed_memory()
    for request in requests:
        check_targets(request.config, folders)
    evaluators = [_evaluators(request.settings) for request in requests]
    for key in requests[0].unread:
        print(f"warning: nothing reads {key} here, so {key} changes nothing")
    rows: list[tuple[Request, dict[str, float]]] = []
    for i, (request, chosen) in enumerate(zip(requests, evaluators, strict=True), 1):
        data, data_hash = load_data(request.settings.dataset)
        environment = _environment(request, data=data, data_hash=data_hash)
        nodes = {f"evaluator.{name}": node for name, node in request.settings.evaluator.items()}
        nodes["dataset"] = request.settings.dataset
        name = evaluation_name(request.dataset_name, nodes, data_hash=data_hash)
        place = f"[{i}/{len(requests)}] {as_typed(request.run)}/evaluation/{name}.json"
        record = None if request.settings.rerun else read_evaluations(request.run).get(name)
        if record is None or record["environment"].get("modules", {}) != environment["modules"]:
            record = _evaluate(request, chosen, data) | {"environment": environment}
            write_evaluation(request.run, name, record)
            silent = ", ".join(key for key in chosen if key not in record["protocol"])
            print(f"{place}: nothing from {silent} on this data" if silent else place, flush=True)
        else:
            by = "" if record["environment"]["code"] == environment["code"] else ", by other code than there is now"
            print(f"{place} is done already{by}; rerun=true evaluates again", flush=True)
        rows.append((request, record["test"]))
    return _table(rows)


def _evaluators(settings: Settings) -> dict[str, Evaluator]:
    """The evaluators of a request, built and checked."""
    check_types(settings.dataset, "dataset")
    check_types(settings.evaluator, "evaluator")
    evaluators = build_evaluators(settings.evaluator)
    if not evaluators:
        raise ConfigError("no evaluator is chosen: try 'evaluator=[knn,linear]'")
    for name, evaluator in evaluators.items():
        if isinstance(evaluator, StepObserver):
            raise ConfigError(
                f"evaluator {name} learns from the batches of training, which is over: "
                "try 'evaluator=[linear]', or train with it"
            )
    return evaluators


def _environment(request: Request, *, data: Data, data_hash: str) -> dict[str, Any]:
    """What the figures come from: the code of encoder, augmentation, evaluators and dataset, and the data."""
    config = {key: request.config.get(key) for key in ("encoder", "augmentation", "compile")}
    config |= {"dataset": request.settings.dataset, "evaluator": request.settings.evaluator}
    device = choose_device(request.settings.device)
    return environment_record(
        device, config=config, overrides=(), precision="fp32", data_hash=data_hash, facts=data.facts
    )


def _evaluate(request: Request, evaluators: dict[str, Evaluator], data: Data) -> dict[str, Any]:
    """The record of one evaluation: images are standardized as in training, whatever they are."""
    since, config, settings = time.perf_counter(), request.config, request.settings
    weights, device = file_hash(weights_path(request.run)), choose_device(settings.device)
    encoder, transform = load_run_encoder(request.run, config)
    layout = torch.channels_last if config["channels_last"] else torch.contiguous_format
    encoder = encoder.to(device, memory_format=layout)  # type: ignore[call-overload]
    applicable = applicable_evaluators(evaluators, data)
    if not applicable:
        raise ConfigError(
            f"the images of {request.dataset_name} have no labels, which {', '.join(evaluators)} need: "
            "try dataset=digits, or 'evaluator=[rankme,alignment_uniformity]'"
        )
    if is_resident(data, device, settings.resident):
        data = data.to(device)
    features = feature_sets(
        encoder,
        data,
        normalize=Normalize(transform.mean, transform.std, device=device, channels_last=config["channels_last"]),
        augmentation=instantiate_node(config["augmentation"]),
        seed=config["seed"],
        data_root=settings.data_root,
    )
    scores = evaluate(applicable, features)
    return {
        "weights": weights,
        "dataset": request.dataset_name, "is_transfer": request.is_transfer,
        "mean": transform.mean, "std": transform.std,
        "settings": {"dataset": settings.dataset, "evaluator": settings.evaluator},
        "test": scores.test, "val": scores.val, "audit": scores.audit, "protocol": scores.protocol,
        "time": {"seconds": time.perf_counter() - since, "finished": datetime.now(UTC).isoformat(timespec="seconds")},
    }  # fmt: skip


def _table(rows: list[tuple[Request, dict[str, float]]]) -> str:
    """Runs and their figures on the test split."""
    metrics = list(dict.fromkeys(key for _, figures in rows for key in figures))
    grid = [["run", "dataset", *metrics]]
    for request, figures in rows:
        cells = [f"{figures[key]:.2f}" if key in figures else "-" for key in metrics]
        grid.append([as_typed(request.run), request.dataset_name, *cells])
    return f"\nTest split; accuracies in percent:\n{format_grid(grid)}"
