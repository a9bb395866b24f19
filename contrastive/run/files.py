"""What a run directory holds, and its configuration, environment, result and evaluations, read as data: anybody may
have written them. Imports no torch."""

import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from contrastive.errors import ConfigError
from contrastive.files import file_hash, write_text
from contrastive.run.identity import COMPONENTS, OPTIONAL, flatten, is_identity

ENCODER, HEAD = "encoder.safetensors", "head.safetensors"  # in a run directory
NOT_ARGUMENTS = ("weights", "prefix")  # of an encoder's node: read by the program for every encoder
ADVICE = "try rerun=true with the command of the run to start it over"


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What a run directory holds: nothing to go on from, a result, a checkpoint, or files that cannot be used.

    Attributes:
        reason: one sentence about a damaged one.
        config, environment: the contents of config.yaml and environment.json; {} where nothing was written yet, or
            where the run is damaged.
        result: the content of result.json; {} unless the run is finished.
    """

    kind: Literal["empty", "finished", "resumable", "damaged"]
    reason: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)


def run_state(run: Path) -> RunState:
    """Whether a run is finished, can be resumed, or neither; a millisecond or two.

    Its three small files are read once and come along. Of checkpoints and weights only the existence is looked at.
    """
    if not (run / "config.yaml").exists() and not result_file(run).exists() and not has_checkpoint(run):
        return RunState(kind="empty")
    try:
        config, environment = read_config(run), read_environment(run)
    except ConfigError as error:
        return RunState(kind="damaged", reason=str(error))
    if (result := read_result(run)) is not None:
        return RunState(kind="finished", config=config, environment=environment, result=result)
    if has_checkpoint(run):
        return RunState(kind="resumable", config=config, environment=environment)
    if result_file(run).exists():
        return RunState(kind="damaged", reason=f"{result_file(run)} is damaged: {ADVICE}")
    return RunState(kind="empty", config=config, environment=environment)


def result_file(run: Path) -> Path:
    """The path of result.json, whose existence means that the run is done."""
    return run / "result.json"


def last_checkpoint(run: Path) -> Path:
    """The path of the newest checkpoint of a run."""
    return run / "checkpoints/last.pt"


def previous_checkpoint(run: Path) -> Path:
    """The path of the checkpoint before the newest."""
    return run / "checkpoints/previous.pt"


def has_checkpoint(run: Path) -> bool:
    """Whether the run was interrupted after its first checkpoint, or is finished."""
    return last_checkpoint(run).exists() or previous_checkpoint(run).exists()


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where PyYAML comes with libyaml
MAX_DEPTH = 100


def write_config(run: Path, config: dict[str, Any]) -> None:
    """Write config.yaml, without aliases."""
    write_text(run / "config.yaml", yaml.dump(config, Dumper=_Dumper, sort_keys=False))


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def read_config(run: Path) -> dict[str, Any]:
    """The resolved configuration of a run.

    Raises:
        ConfigError: config.yaml is missing, damaged, no run's, or holds an interpolation.
    """
    file = run / "config.yaml"
    try:
        config = _read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        config = None
    if not is_config(config):
        raise ConfigError(f"{file} is missing or damaged: {ADVICE}")
    if interpolation := next(_interpolations(config), None):
        raise ConfigError(f"{file} holds {interpolation}, which no run writes there: try another run")
    config.pop("trust", None)  # a setting once, which older runs recorded
    return config  # type: ignore[no-any-return]


def _read_yaml(text: str) -> Any:
    """The content of a YAML; ValueError for aliases, which can stand for more than fits into memory, and for depth."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH:
            raise ValueError("no run writes aliases, nor so many levels")
    return yaml.load(text, Loader=LOADER)


def is_config(content: Any) -> bool:
    """Whether the content of a YAML is the configuration of a run."""
    if not isinstance(content, dict) or not isinstance(content.get("seed"), int):
        return False
    if not isinstance(content.get("channels_last"), bool):  # of what evaluations read, the last line of the file
        return False
    nodes = [content.get(group) for group in COMPONENTS if group not in OPTIONAL]
    return isinstance(content.get("evaluator"), dict) and all(
        isinstance(node, dict) and isinstance(node.get("_target_"), str) for node in nodes
    )


def resolve_builtin(target: Any, groups: Sequence[str]) -> Any:
    """The class or function of this package that a file names; None for anything else, which is not imported.

    Args:
        groups: folders of the package that it may be defined in, such as encoder.
    """
    module, _, name = str(target).rpartition(".")
    is_inside = re.fullmatch(rf"contrastive\.({'|'.join(groups)})\.[a-z]\w*", module) and not name.startswith("_")
    if not is_inside or importlib.util.find_spec(module) is None:
        return None
    found = getattr(importlib.import_module(module), name, None)
    return found if getattr(found, "__module__", None) == module else None  # not what that module itself imports


def encoder_node(node: dict[str, Any], size: int | None) -> dict[str, Any]:
    """The arguments of the encoder's constructor: without weights and prefix, `image_size` filled in.

    Args:
        size: side of the dataset's images in pixels; None = not known.
    """
    arguments = {key: value for key, value in node.items() if key not in NOT_ARGUMENTS}
    if "image_size" in arguments and arguments["image_size"] is None:
        arguments["image_size"] = size
    return arguments


def dataset_below(config: dict[str, Any], data_root: str) -> dict[str, Any]:
    """The node of the dataset, with paths in the run's data_root moved to another."""
    old = str(config.get("data_root", ""))
    node = dict(config["dataset"])
    for key, value in node.items():
        if not is_identity(f"dataset.{key}") and isinstance(value, str) and Path(value).is_relative_to(old):
            node[key] = str(Path(data_root) / Path(value).relative_to(old))
    return node


def _interpolations(node: Any) -> Iterator[str]:
    """Every string below a node that OmegaConf would resolve."""
    if isinstance(node, str) and "${" in node:
        yield node
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for child in children:
        yield from _interpolations(child)


GROUPS = ("test", "untrained", "val", "audit", "protocol", "time")  # of every result


def write_result(run: Path, result: dict[str, Any]) -> None:
    """Write result.json.

    Raises:
        ValueError: a figure is not finite.
    """
    plain = json.loads(json.dumps(result, allow_nan=False))
    write_text(result_file(run), json.dumps({**plain, "checksum": checksum(plain)}, indent=1))


def checksum(result: dict[str, Any]) -> str:
    """sha256 of a result's content; ValueError where a number is not finite."""
    return hashlib.sha256(json.dumps(result, sort_keys=True, allow_nan=False).encode()).hexdigest()


def read_result(run: Path) -> dict[str, Any] | None:
    """The content of result.json, without its checksum; None if it is missing, damaged, or a figure is not finite."""
    try:
        result = json.loads(result_file(run).read_bytes())
        is_whole = isinstance(result, dict) and result.pop("checksum", None) in (None, checksum(result))
    except (OSError, ValueError, RecursionError):
        return None
    if not is_whole or not all(isinstance(result.get(group), dict) for group in GROUPS):
        return None
    if not all(isinstance(result.get(group, {}), dict) for group in ("log", "made_by", "weights")):
        return None
    has_numbers = all(isinstance(value, int | float) for value in result["test"].values())
    return result if has_numbers and "config" in result.get("made_by", {"config": ""}) else None


ENVIRONMENT_KEYS = {"command": str, "code": str, "data": str, "threads": int}  # of every run


def read_environment(run: Path) -> dict[str, Any]:
    """The record of what produced a run.

    Raises:
        ConfigError: environment.json is missing, damaged or no run's.
    """
    file = run / "environment.json"
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not all(
        isinstance(content.get(key), kind) for key, kind in ENVIRONMENT_KEYS.items()
    ):
        raise ConfigError(f"{file} is missing or damaged: {ADVICE}")
    return content


EVALUATIONS = "evaluation"
MAX_LENGTH = 100  # characters of a name before its hash
# of every record
EVALUATION_KEYS = {"weights", "dataset", "settings", "test", "val", "protocol", "time", "environment"}


def evaluation_name(dataset: str, nodes: dict[str, dict[str, Any]], *, data_hash: str) -> str:
    """`knn+linear-digits-1a2b3c4d`: the evaluators, the dataset and a hash of the settings and the data.

    Args:
        dataset: its name. nodes: the nodes of the evaluators by name, and that of the dataset under `dataset`.
        data_hash: of the images and labels; two folders may have one name.
    """
    settings = {key: value for key, value in flatten(nodes).items() if is_identity(key)}
    digest = hashlib.sha256(json.dumps([settings, data_hash], sort_keys=True).encode()).hexdigest()[:8]
    evaluators = "+".join(name.removeprefix("evaluator.") for name in nodes if name != "dataset")
    return f"{f'{evaluators}-{dataset}'[:MAX_LENGTH]}-{digest}"


def read_evaluation(run: Path, name: str) -> dict[str, Any] | None:
    """The record of that name, if it is whole and its weights are those that the run has now."""
    return _evaluation(run, name, weights=_encoder_hash(run))


def read_evaluations(run: Path) -> dict[str, dict[str, Any]]:
    """{name: record} of every evaluation of the weights that the run has now, by name."""
    names = sorted(path.stem for path in (run / EVALUATIONS).glob("*.json"))
    weights = _encoder_hash(run) if names else None
    records = {name: _evaluation(run, name, weights=weights) for name in names}
    return {name: record for name, record in records.items() if record is not None}


def _evaluation(run: Path, name: str, *, weights: str | None) -> dict[str, Any] | None:
    try:
        record = json.loads((run / EVALUATIONS / f"{name}.json").read_bytes())
    except (OSError, ValueError):
        return None
    is_whole = isinstance(record, dict) and record.keys() >= EVALUATION_KEYS
    return record if is_whole and weights is not None and record["weights"] == weights else None


def _encoder_hash(run: Path) -> str | None:
    return file_hash(run / ENCODER) if (run / ENCODER).exists() else None


def write_evaluation(run: Path, name: str, record: dict[str, Any]) -> Path:
    """Write a record atomically; returns its path.

    Raises:
        ConfigError: the run no longer has the weights that were evaluated.
    """
    path = run / EVALUATIONS / f"{name}.json"
    if record["weights"] != _encoder_hash(run):
        raise ConfigError(f"the weights of {run} changed while they were evaluated: try the same command again")
    write_text(path, json.dumps(record, indent=1, allow_nan=False))
    return path
