"""Verify a finished run: its files, their hashes, every figure of result.json computed again; or committed tables.

    python -m contrastive verify outputs/digits/nt_xent/default/seed=0
    python -m contrastive verify --table studies

The exit code is 1 if a check fails.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from contrastive.config.arguments import Parser, answering
from contrastive.config.compose import importable
from contrastive.config.settings import Settings
from contrastive.config.targets import check_targets
from contrastive.encoder._lora import merge
from contrastive.errors import ConfigError
from contrastive.experiment.build import Experiment, build
from contrastive.experiment.run import environment_of, features, final_scores, prepare_observers, untrained_scores
from contrastive.hook.evaluations import LearningEvaluators
from contrastive.run.checkpoint import CheckpointError, read_checkpoint
from contrastive.run.content import content_hash
from contrastive.run.directory import EXACT_KEYS, provenance_hashes
from contrastive.run.files import (
    ENCODER,
    HEAD,
    LAST,
    dataset_below,
    finished_state,
    read_config,
    run_below,
)
from contrastive.run.kinds import EncoderMetadata, HeadMetadata
from contrastive.run.log import has_same_log
from contrastive.run.weights import read_weights
from contrastive.study.compare.whole import unchecked
from contrastive.study.record import read_record
from contrastive.study.render.files import check_folder, table_files
from contrastive.text import show
from contrastive.training.checkpointer import resume
from contrastive.training.hook import Hook

USAGE = "try python -m contrastive verify RUN, or --table studies"
SETTABLE = ("device", "data_root")
TOLERANCE = 0.01  # relative, on another device or with another torch


class Check(NamedTuple):
    """One line of the report; `passed` is None for what is only said, or cannot be checked here."""

    name: str
    passed: bool | None
    details: str


@answering
def main(words: list[str]) -> int:
    """Print a line for each check; returns 0 if none fails, else 1 (2 for a directory that cannot be verified)."""
    parser = Parser("verify", __doc__, usage="RUN [device=cpu] [data_root=PATH] [--config-dir DIR] | --table FOLDER")
    parser.add_argument("words", nargs="*", metavar="RUN, KEY=VALUE", help="a run directory, and settings of train.py")
    parser.add_config_dir()
    parser.add_argument(
        "--table", metavar="FOLDER", type=Path, help="check the tables or studies of a folder, or one JSON, instead"
    )
    options = parser.parse_intermixed_args(words)
    if options.table is not None:
        return verify_tables(options.table)
    typed = dict(word.split("=", 1) for word in options.words if word.startswith(tuple(f"{key}=" for key in SETTABLE)))
    runs = [word for word in options.words if word.partition("=")[0] not in typed]
    if len(runs) != 1:
        raise ConfigError(f"one run is verified at a time, got {' '.join(runs) or 'none'}: {USAGE}")
    with importable(options.folders):
        checks = list(verify(Path(runs[0]), folders=options.folders, typed=typed))
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = {True: "ok", False: "FAILED", None: "-"}[check.passed]
        show(f"{check.name:{width}}  {mark:6}  {check.details}")
    failed = sum(check.passed is False for check in checks)
    print(f"{len(checks)} checks, {failed} failed")
    return 1 if failed else 0


def verify_tables(folder: Path) -> int:
    """Compare every table of a folder with what its record gives, and look whether the records of comparisons are
    whole; returns 0 if all is well, else 1."""
    checked, wrong = check_folder(folder)
    if not checked:
        raise ConfigError(f"{folder} contains no JSON of a table: {USAGE}")
    for message in wrong:
        show(message, file=sys.stderr)
    for path, said in not_checked(folder).items():
        show(f"{path} is of an earlier version, not checked: {', '.join(said)}")
    print(f"{checked} tables of {folder} recomputed, {len(wrong)} differ")
    return 1 if wrong else 0


def not_checked(folder: Path) -> dict[Path, list[str]]:
    """{record of a comparison: what its version does not tell} of a folder of tables."""
    records = {path: read_record(path) for path in table_files(folder)}
    compared = {path: record for path, record in records.items() if record is not None and "comparison" in record}
    return {path: said for path, record in compared.items() if (said := unchecked(record))}


def verify(path: Path, *, folders: Sequence[Path] = (), typed: dict[str, str] | None = None) -> Iterator[Check]:
    """Every check of a run directory, which stays as it is.

    Args:
        folders: of modules that its configuration may name: those of --config-dir.
        typed: settings of SETTABLE in place of the run's.

    Raises:
        ConfigError: the directory holds no finished run, or its configuration cannot be built.
    """
    path = run_below(path)
    state = finished_state(path)
    settings, recorded, result = read_settings(path, typed or {}), state.environment, state.result
    config = settings.to_dict()
    check_targets(config, folders)
    torch.set_num_threads(recorded["threads"])
    experiment = build(settings)
    now, hashes = environment_of(experiment, ()), provenance_hashes(config, recorded)
    yield from check_origin(result, recorded, now, hashes)
    exact = all(recorded.get(key) == now.get(key) for key in EXACT_KEYS)
    if settings.epochs > 0 and settings.held_out is None:
        began_so = all(session.get("threads") == recorded.get("threads") for session in recorded.get("earlier", []))
        untrained = untrained_scores(experiment).test
        yield from compare("untrained", result["untrained"], untrained, exact=exact and began_so)
    same_code = recorded["code"] == now["code"]
    checks = list(check_files(path, experiment, result, hashes=hashes))
    yield from checks
    has_all = checks[0].passed is True  # without the checkpoint there are no classifier and no observers
    scores = final_scores(experiment, features(experiment, experiment.evaluators, with_classifier=settings.epochs > 0))
    protocol = scores.protocol
    for group in ("test", "val", "audit"):
        computed = getattr(scores, group)
        yield from compare(group, result[group], computed, exact=exact, has_all=has_all, same_code=same_code)
    if exact and has_all and "correct" in result:
        same = result["correct"] == scores.correct
        yield Check("correct", same, "the same test images" if same else "other test images than recorded")
    same = result["protocol"] == protocol
    yield Check("protocol", same if has_all else None, "as recorded" if same else "other probes than recorded")


def read_settings(path: Path, typed: dict[str, str]) -> Settings:
    """The settings in config.yaml, `typed` in place of its own."""
    config = read_config(path)
    if "data_root" in typed:
        config["dataset"] = dataset_below(config, typed["data_root"])
    try:
        return Settings(**{**config, **typed, "tracker": {}, "devices": 1, "dry_run": False})
    except TypeError as error:
        raise ConfigError(f"{path / 'config.yaml'} cannot be read ({error}): {USAGE}") from error


def check_origin(
    result: dict[str, Any], recorded: dict[str, Any], now: dict[str, Any], hashes: dict[str, str]
) -> Iterator[Check]:
    """Compare code, data and configuration with those that made the run; other code is only said."""
    for key in ("code", "data", *(key for key in ("weights", "bias_from", "bias_labels") if key in recorded)):
        same = recorded[key] == now[key]
        details = "as recorded" if same else f"{now[key][:12]} now, {recorded[key][:12]} then"
        yield Check(key, None if key == "code" and not same else same, details)
    if "resumed_with" in result:
        yield Check("resumed_with", None, f"the code changed {len(result['resumed_with'])} times during the run")
    same = result.get("made_by", hashes)["config"] == hashes["config"]
    yield Check("config", same, "as recorded" if same else "config.yaml was changed after the run")


def check_files(
    path: Path, experiment: Experiment, result: dict[str, Any], *, hashes: dict[str, str]
) -> Iterator[Check]:
    """Check the checkpoint, the weights and the log; load the exported encoder and what only the checkpoint holds."""
    hooks, state = dict[str, Hook](learning=LearningEvaluators(prepare_observers(experiment))), None
    if experiment.average is not None:
        hooks["average"] = experiment.average
    try:
        state = read_checkpoint(path / LAST, made_by=hashes)
        resume(state, experiment.step, hooks)
        yield Check("checkpoint", True, "content and origin as recorded")
    except CheckpointError as error:
        yield Check("checkpoint", None if "missing" in str(error) else False, f"last.pt {error}")
    except ConfigError as error:
        yield Check("checkpoint", False, str(error))
        state = None
    for name, kind in ((ENCODER, EncoderMetadata), (HEAD, HeadMetadata)):
        try:
            tensors = read_weights(path / name, kind).tensors
        except ConfigError:
            yield Check(name, False, "missing, damaged or another run's")
            continue
        yield Check(name, True, "checksum")
        if name == ENCODER:
            merge(experiment.encoder)
            if state is not None:
                same = content_hash(dict(experiment.encoder.state_dict())) == content_hash(tensors)
                yield Check("encoder = checkpoint", same, "the same weights" if same else "other weights")
            experiment.encoder.load_state_dict(tensors)
    same_log = has_same_log(path, result) if result.get("log") else None
    said = {True: "checksum", False: "missing or changed", None: "not recorded"}[same_log]
    yield Check("metrics.jsonl", same_log, said)


def compare(
    name: str, recorded: Any, computed: Any, *, exact: bool, has_all: bool = True, same_code: bool = True
) -> Iterator[Check]:
    """A check for each number of two nested records, and one for each list.

    Args:
        exact: whether they must agree but for rounding.
        has_all: whether everything recorded can be computed.
        same_code: whether nothing may be computed that is not recorded: newer code computes more.
    """
    flags = {"exact": exact, "has_all": has_all, "same_code": same_code}
    if isinstance(recorded, dict):
        found = computed if isinstance(computed, dict) else {}
        if not has_all and recorded.get("read_out") != found.get("read_out"):  # of the checkpoint's classifier
            found = {}
        for key in dict.fromkeys([*recorded, *found]):
            if key in recorded:
                yield from compare(f"{name}.{key}", recorded[key], found.get(key), **flags)
            else:
                yield Check(f"{name}.{key}", False if same_code else None, "computed, but not in result.json")
    elif isinstance(recorded, list) and isinstance(computed, list):
        items = [item for pair in zip(recorded, computed, strict=False) for item in compare(name, *pair, **flags)]
        same = len(recorded) == len(computed) and all(item.passed for item in items)
        yield Check(name, same, f"{len(computed)} values" if same else f"{computed} computed, {recorded} recorded")
    elif computed is None and recorded is not None:
        reason = "nothing computes it" if has_all else "not computed without the checkpoint"
        yield Check(name, False if has_all else None, f"{recorded} recorded; {reason}")
    elif isinstance(recorded, bool) or not (isinstance(recorded, int | float) and isinstance(computed, int | float)):
        yield Check(name, recorded == computed, str(computed))
    else:
        same = math.isclose(recorded, computed, rel_tol=1e-9 if exact else TOLERANCE, abs_tol=0 if exact else TOLERANCE)
        yield Check(name, same, f"{computed:.6g}" if same else f"{computed:.6g} computed, {recorded:.6g} recorded")
