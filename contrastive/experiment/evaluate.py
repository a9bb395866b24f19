"""Evaluate a finished run again, without training."""

import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

from contrastive.average.ema import of_average
from contrastive.config.settings import Settings
from contrastive.config.targets import check_types
from contrastive.errors import ConfigError
from contrastive.evaluator.base import Evaluator, evaluate
from contrastive.evaluator.published import OnlineProbe
from contrastive.experiment.build import applicable_evaluators
from contrastive.experiment.components import build_evaluators, check_channels, instantiate_node, load_data
from contrastive.experiment.encoder import load_run_encoder
from contrastive.experiment.machine import is_resident, keep_freed_memory, start_device
from contrastive.experiment.make import load_other_data
from contrastive.files import file_hash
from contrastive.run.files import (
    evaluation_name,
    read_evaluations,
    read_result,
    transfer_folders,
    weights_path,
    write_evaluation,
)
from contrastive.run.provenance import environment_record
from contrastive.text import as_typed, show
from contrastive.training.features import EncodedImages
from contrastive.training.precision import Normalize, placed
from contrastive.training.progress import announced
from contrastive.types import Data


def build_chosen(settings: Settings) -> dict[str, Evaluator]:
    """The evaluators of the settings, checked before anything is evaluated; raises ConfigError for what cannot be."""
    check_types(settings.dataset, "dataset")
    check_types(settings.evaluator, "evaluator")
    evaluators = build_evaluators(settings.evaluator)
    for name, evaluator in evaluators.items():
        if isinstance(evaluator, OnlineProbe):
            raise ConfigError(
                f"evaluator {name} learns from the batches of training, which is over: "
                "try 'evaluator=[linear]', or train with it"
            )
    return evaluators


def evaluate_run(
    run: Path,
    config: dict[str, Any],
    settings: Settings,
    evaluators: dict[str, Evaluator],
    *,
    dataset_name: str,
    is_transfer: bool,
) -> dict[str, Any]:
    """The record in RUN/evaluation/<name>.json; what is not done already is evaluated and written.

    It is evaluated again if `rerun` is set or a module of the user's own was edited since.

    Args:
        config: of the run, its targets checked.
        settings: of use are dataset, evaluator, device, data_root, resident and rerun.
        is_transfer: whether the dataset is another than the run's.
    """
    keep_freed_memory()
    data, data_hash, _ = load_data(settings.dataset)
    device = start_device(settings.device)
    # the code of encoder, augmentation, evaluators and dataset
    sources = {key: config.get(key) for key in ("encoder", "augmentation")}
    sources |= {"dataset": settings.dataset, "evaluator": settings.evaluator}
    environment = environment_record(
        device, config=sources, overrides=(), precision="fp32", data_hash=data_hash, facts=data.facts
    )
    nodes = {f"evaluator.{name}": node for name, node in settings.evaluator.items()}
    key = data_hash + transfer_folders(settings.evaluator)
    name = evaluation_name(dataset_name, {**nodes, "dataset": settings.dataset}, data_hash=key)
    place = f"{as_typed(run)}/evaluation/{name}.json"
    record = None if settings.rerun else read_evaluations(run).get(name)
    if record is not None and record["environment"].get("modules", {}) == environment["modules"]:
        by = "" if record["environment"]["code"] == environment["code"] else ", with other code than now"
        show(f"{place} is done already{by}; rerun=true evaluates again")
        return record
    if is_transfer and data.found is not None:
        show(str(data.found))
    applicable = applicable_evaluators(evaluators, data)
    if not applicable:
        raise ConfigError(
            f"the images of {dataset_name} have no labels, which {', '.join(evaluators)} need: "
            "try dataset=digits, or 'evaluator=[rankme,alignment_uniformity]'"
        )
    origin = {"dataset": dataset_name, "is_transfer": is_transfer}
    record = {**_evaluate(run, config, settings, applicable, data, device), **origin, "environment": environment}
    write_evaluation(run, name, record)
    show(place)
    return record


def _evaluate(
    run: Path,
    config: dict[str, Any],
    settings: Settings,
    evaluators: dict[str, Evaluator],
    data: Data,
    device: torch.device,
) -> dict[str, Any]:
    """The scores and what they come from: images are standardized as in training, whatever they are."""
    since, weights = time.perf_counter(), file_hash(weights_path(run))
    encoder, transform = load_run_encoder(run, config)
    check_channels(len(transform.mean), data, "a dataset of the same kind")
    encoder, channels_last = placed(encoder, device, channels_last=config["channels_last"])
    if is_resident(data, device, settings.resident):
        data = data.to(device)
    with announced("evaluating: features"):
        images = EncodedImages(
            encoder=encoder,
            data=data,
            normalize=Normalize(transform.mean, transform.std, device=device, channels_last=channels_last),
            augmentation=instantiate_node(config["augmentation"]),
            seed=config["seed"],
            load_other=partial(load_other_data, like=data, data_root=settings.data_root),
        )
        with_training = any(evaluator.reads_training for evaluator in evaluators.values())
        features = images.feature_sets(with_training=with_training)
    scores = evaluate(evaluators, features, announce=lambda name: announced(f"evaluating: {name}"))
    average = (read_result(run) or {}).get("encoder", {}).get("average")
    return {
        "weights": weights, "mean": transform.mean, "std": transform.std,
        "settings": {"dataset": settings.dataset, "evaluator": settings.evaluator},
        "test": scores.test, "val": scores.val, "audit": scores.audit,
        "protocol": of_average(scores.protocol, average),
        "correct": scores.correct, **data.majority,
        "time": {"seconds": time.perf_counter() - since, "finished": datetime.now(UTC).isoformat(timespec="seconds")},
    }  # fmt: skip
