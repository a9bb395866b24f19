"""Verify a finished run, its hashes, its files and every figure of result.json computed again; or committed tables."""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from contrastive.config.compose import take_config_dirs
from contrastive.config.messages import user_message
from contrastive.config.settings import Settings
from contrastive.config.targets import check_targets
from contrastive.errors import ConfigError
from contrastive.evaluator.base import evaluate
from contrastive.experiment.build import Experiment, build
from contrastive.experiment.job import importable
from contrastive.experiment.run import features, prepare_observers
from contrastive.run.checkpoint import Unusable, last_checkpoint, read_checkpoint
from contrastive.run.directory import EXACT_KEYS, made_by
from contrastive.run.files import ENCODER, HEAD, dataset_below, read_config, read_environment, read_result
from contrastive.run.foreign import weights_hash
from contrastive.run.log import has_same_log
from contrastive.run.provenance import environment_record
from contrastive.run.weights import read_whole, weights_hashes
from contrastive.tables.page import check_folder

USAGE = (
    "usage: python -m contrastive.verify RUN, such as outputs/digits/nt_xent/default/seed=0, and as of train.py "
    "--config-dir mine, device=cpu, data_root=PATH; or --table docs/results"
)
SETTABLE = ("device", "data_root")


class Check(NamedTuple):
    """One line of the report; `passed` is None for what cannot be checked here."""

    name: str
    passed: bool | None
    details: str


def main(words: list[str]) -> int:
    """Print a line for each check; returns 0 if none fails, else 1 (2 for a directory that cannot be verified)."""
    if len(words) == 2 and words[0] == "--table":
        return verify_tables(Path(words[1]))
    try:
        folders, words = take_config_dirs(words)
        typed, words = take_settings(words)
        if len(words) != 1 or words[0].startswith("-"):
            print(USAGE)
            return 0 if words in (["-h"], ["--help"]) else 2
        with importable(folders):
            checks = list(verify(Path(words[0]), folders=folders, typed=typed))
    except Exception as error:
        if (message := user_message(error)) is None:
            raise
        print(f"error: {message}", file=sys.stderr)
        return 2
    marks = {True: "ok", False: "FAILED", None: "-"}
    width = max(len(check.name) for check in checks)
    for check in checks:
        print(f"{check.name.ljust(width)}  {marks[check.passed]:6}  {check.details}")
    failed = sum(check.passed is False for check in checks)
    print(f"{len(checks)} checks, {failed} failed")
    return 1 if failed else 0


def take_settings(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """{setting: value} of the words that say how to verify, and the other words."""
    typed, others = {}, []
    for word in words:
        key, _, value = word.partition("=")
        if key in SETTABLE:
            typed[key] = value
        else:
            others.append(word)
    return typed, others


def verify_tables(folder: Path) -> int:
    """Compare every table of a folder with what its record gives; returns 0 if they agree, 1 if not, 2 without any."""
    try:
        checked, wrong = check_folder(folder)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not checked:
        print(f"error: {folder} holds no table's JSON: {USAGE}", file=sys.stderr)
        return 2
    for message in wrong:
        print(message, file=sys.stderr)
    print(f"{checked} tables of {folder} recomputed, {len(wrong)} differ")
    return 1 if wrong else 0


def verify(path: Path, *, folders: Sequence[Path] = (), typed: dict[str, Any] | None = None) -> Iterator[Check]:
    """Every check of a run directory, which stays as it is.

    Args:
        folders: of modules that its configuration may name, besides the current one: those of --config-dir.
        typed: settings of SETTABLE in place of the run's.

    Raises:
        ConfigError: the directory holds no finished run, or its configuration cannot be built.
    """
    if (result := read_result(path)) is None:
        raise ConfigError(f"{path} has no whole result.json: try the command in its environment.json to finish the run")
    settings, recorded = read_settings(path, typed or {}), read_environment(path)
    torch.set_num_threads(recorded["threads"])
    config = settings.to_dict()
    check_targets(config, folders)
    experiment = build(settings)
    now = environment_record(
        experiment.device,
        config=config,
        overrides=(),
        precision=experiment.precision,
        data_hash=experiment.data_hash,
        facts=experiment.data.facts | weights_hash(settings.encoder.get("weights")),
    )
    for key in ("code", "data"):
        same = recorded[key] == now[key]
        yield Check(key, same, "as recorded" if same else f"{now[key][:12]} now, {recorded[key][:12]} then")
    exact = all(recorded.get(key) == now[key] for key in EXACT_KEYS)
    began_so = all(session.get("threads") == recorded.get("threads") for session in recorded.get("earlier", []))
    untrained = {name: item for name, item in experiment.evaluators.items() if item.before_training}
    yield from compare(
        "untrained", result["untrained"], evaluate(untrained, features(experiment)).test, exact=exact and began_so
    )
    hashes = made_by(config, recorded)
    same = result.get("made_by", hashes)["config"] == hashes["config"]
    yield Check("config", same, "as recorded" if same else "config.yaml was changed after the run")
    checks = list(check_weights(path, experiment, settings, hashes, recorded=result.get("weights", {})))
    yield from checks
    same_log = has_same_log(path, result) if result.get("log") else None
    yield Check(
        "metrics.jsonl", same_log, {True: "checksum", False: "missing or changed", None: "not recorded"}[same_log]
    )
    has_all = checks[0].passed is True  # without the checkpoint there are no classifier and no observers
    scores = evaluate(experiment.evaluators, features(experiment, with_classifier=True), strict=False)
    for group in ("test", "val", "audit"):
        yield from compare(group, result[group], getattr(scores, group), exact=exact, has_all=has_all)
    same = result["protocol"] == scores.protocol
    yield Check("protocol", same if has_all else None, "as recorded" if same else "other read-outs than recorded")


def check_weights(
    path: Path, experiment: Experiment, settings: Settings, hashes: dict[str, str], *, recorded: dict[str, str]
) -> Iterator[Check]:
    """Load the exported encoder and, for classifiers and observers, the checkpoint; check both.

    Args:
        hashes: of what made the run. recorded: {file: sha256} of the weights in result.json.
    """
    observers, state = prepare_observers(experiment, settings), None
    try:
        state = read_checkpoint(last_checkpoint(path), made_by=hashes)
    except Unusable as error:
        yield Check("checkpoint", None if "missing" in str(error) else False, f"last.pt {error}")
    if state is not None:
        yield Check("checkpoint", True, "content and origin as recorded")
        experiment.step.load(state)
        for name, observer in observers.items():
            observer.load(state["observers"][name])
    files = weights_hashes(path)
    for name in (ENCODER, HEAD):
        whole = name in files and files[name] == recorded.get(name, files[name])
        yield Check(name, whole, "checksum" if whole else "missing, damaged or another run's")
    if (weights := read_whole(path / ENCODER)) is None:
        return
    if state is not None:
        same = weights.keys() == state["encoder"].keys() and all(
            torch.equal(weights[key], state["encoder"][key]) for key in weights
        )
        yield Check("encoder = checkpoint", same, "the same weights" if same else "other weights")
    experiment.step.encoder.load_state_dict(weights)


def read_settings(path: Path, typed: dict[str, Any]) -> Settings:
    """The settings in config.yaml, `typed` in place of its own."""
    config = read_config(path)
    if "data_root" in typed:
        config["dataset"] = dataset_below(config, str(typed["data_root"]))
    try:
        return Settings(**{**config, **typed, "devices": 1, "dry_run": False})
    except TypeError as error:
        raise ConfigError(f"{path / 'config.yaml'} cannot be read ({error}): {USAGE}") from error


TOLERANCE = 0.01  # relative, on another device or with another torch


def compare(name: str, recorded: Any, computed: Any, *, exact: bool, has_all: bool = True) -> Iterator[Check]:
    """A check for each number of two nested records.

    Args:
        exact: whether they must agree but for rounding. has_all: whether everything recorded can be computed.
    """
    if isinstance(recorded, dict):
        found = computed if isinstance(computed, dict) else {}
        if not has_all and recorded.get("read_out") != found.get("read_out"):  # of the checkpoint's classifier
            found = {}
        if not recorded and computed is not None and computed != {}:
            yield Check(name, False, "computed, but not in result.json")
        for key in dict.fromkeys([*recorded, *found]):
            if key not in recorded:
                yield Check(f"{name}.{key}", False, "computed, but not in result.json")
                continue
            yield from compare(f"{name}.{key}", recorded[key], found.get(key), exact=exact, has_all=has_all)
    elif isinstance(recorded, str | list | bool) or recorded is None:
        yield Check(name, recorded == computed if has_all or computed is not None else None, str(computed))
    elif not isinstance(computed, int | float):
        reason = "nothing computes it" if has_all else "not computed without the checkpoint"
        yield Check(name, False if has_all else None, f"{recorded} recorded; {reason}")
    else:
        same = math.isclose(recorded, computed, rel_tol=1e-9 if exact else TOLERANCE, abs_tol=0 if exact else TOLERANCE)
        yield Check(name, same, f"{computed:.6g}" if same else f"{computed:.6g} computed, {recorded:.6g} recorded")
