"""What a run directory holds, and its configuration, environment, result and evaluations, read as data: anybody may
have written them. Imports no torch."""

import fnmatch
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import yaml
from filelock import lock_descriptor

from contrastive.config.identity import COMPONENTS, OF_EVERY_OPTION, OPTIONAL, flatten, is_identity
from contrastive.errors import ConfigError
from contrastive.files import YAML_LOADER, claimed, file_hash, known, walked, write_text
from contrastive.listing.places import Place, places
from contrastive.text import listed

# in a run directory; result.json, written last, means that the run is done
RESULT, ENCODER, HEAD = "result.json", "encoder.safetensors", "head.safetensors"
FAILURE = "failure.json"  # of a run whose training broke down by itself: a loss that is not finite, a bug in it
LAST, PREVIOUS = "checkpoints/last.pt", "checkpoints/previous.pt"
RGB = 3  # channels, of most images and of an encoder that is told nothing
MOST_NAMED = 8  # runs, of those to choose from
LOOK = 0.1  # seconds, far longer than the lock is held to look at it
ADVICE = "try rerun=true with the command of the run to start it over"


def is_locked(run: Path) -> bool:
    """Whether some process works in the run's directory now; holds its lock for a moment, which `lock` waits out."""
    with suppress(OSError), (run / ".lock").open("r+b") as file:
        return not lock_descriptor(file.fileno(), blocking=False)
    return False  # as far as can be known: it is none, or another user's


@contextmanager
def lock(path: Path, *, instead: str = "or try hydra.run.dir=PATH") -> Iterator[None]:
    """Keep every other process out of the directory, and name this one to whoever is refused.

    Args:
        instead: what whoever is refused may do besides waiting.

    Raises:
        ConfigError: another process holds the lock.
    """
    path.mkdir(parents=True, exist_ok=True)
    for is_last in (False, True):
        with claimed(path / ".lock", wait=False) as file:
            if file is not None:
                file.truncate(0)
                file.write(f"\npid {os.getpid()} on {socket.gethostname()}")  # behind the byte that Windows locks
                file.flush()
                yield
                return
        if not is_last:
            time.sleep(LOOK)  # another process may have looked just now, see `is_locked`
    with (path / ".lock").open() as file:
        file.seek(1)
        raise ConfigError(
            f"another process ({file.read() or 'just starting'}) is running in {path}: wait for it, {instead}"
        )


def files_below(folder: Path, pattern: str) -> list[Path]:
    """The files of this name in and below a folder, by path; in linked folders, too, each folder once."""
    return sorted(Path(top, name) for top, _, names in walked(folder) for name in fnmatch.filter(names, pattern))


def runs_below(folder: Path, name: str = RESULT) -> list[Path]:
    """The directories of runs in and below a folder that hold a file of this name, by path.

    Raises:
        ConfigError: there is none.
    """
    found = [file.parent for file in files_below(folder, name)]
    if not found:
        raise ConfigError(
            f"there is no finished run in {folder} that has a {name}: try contrastive runs to list what there is"
        )
    return found


def run_below(folder: Path, name: str = RESULT) -> Path:
    """The run directory that has a file of this name: the folder itself, or the only one below it.

    Raises:
        ConfigError: there is none, or several: they are named.
    """
    found = [folder] if (folder / name).exists() else runs_below(folder, name)
    if len(found) > 1:
        raise ConfigError(f"{folder} holds {len(found)} runs: try one of {listed(found, MOST_NAMED)}")
    return found[0]


def write_config(run: Path, config: dict[str, Any]) -> None:
    """Write config.yaml."""
    write_text(run / "config.yaml", yaml.safe_dump(config, sort_keys=False))


def read_config(run: Path) -> dict[str, Any]:
    """The resolved configuration of a run.

    Raises:
        ConfigError: config.yaml is missing, damaged or no run's.
    """
    file = run / "config.yaml"
    config: Any
    try:
        text = file.read_text(encoding="utf-8")
        config = yaml.load(text, YAML_LOADER)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        config = None
    if not is_config(config) or "${" in text:  # no run writes an interpolation
        raise ConfigError(f"{file} is missing or damaged: {ADVICE}")
    return config  # type: ignore[no-any-return]


def is_config(content: Any) -> bool:
    """Whether the content of a YAML is the configuration of a run, down to the last line that evaluations read."""
    if not isinstance(content, dict) or not isinstance(content.get("evaluator"), dict):
        return False
    if not isinstance(content.get("seed"), int) or not isinstance(content.get("channels_last"), bool):
        return False
    nodes = [content.get(group) for group in COMPONENTS if group not in OPTIONAL]
    return all(isinstance(node, dict) and isinstance(node.get("_target_"), str) for node in nodes)


def encoder_node(node: dict[str, Any], size: int | None, channels: int = 3) -> dict[str, Any]:
    """The arguments of the encoder's constructor: without the settings of every encoder, `image_size` filled in.

    Args:
        size: side of the dataset's images in pixels; None = not known.
        channels: of its input. The constructor is told a number other than 3, as `in_channels`.
    """
    arguments = {key: value for key, value in node.items() if key not in OF_EVERY_OPTION["encoder"]}
    if "image_size" in arguments and arguments["image_size"] is None:
        arguments["image_size"] = size
    if channels != RGB:
        arguments["in_channels"] = channels
    return arguments


def weights_path(path: str | Path) -> Path:
    """The file that `path` names: itself, or the encoder of a run directory.

    Raises:
        ConfigError: there is no such file.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        file = file / ENCODER
    if not file.is_file():
        raise ConfigError(f"there is no weights file {file}: try a file, or the folder of a finished run")
    return file


def source_hashes(config: dict[str, Any]) -> dict[str, str]:
    """sha256 of what a run reads besides its data, as its environment records them: {weights: the file that it starts
    from, bias_from: the one that gives it bias labels, transfer: folders of images that it is evaluated on}."""
    paths = {"weights": config["encoder"].get("weights"), "bias_from": config.get("bias_from")}
    hashes = {key: _hash_as_it_lies(weights_path(path)) for key, path in paths.items() if path is not None}
    listed = transfer_folders(config.get("evaluator", {}))
    return hashes | ({"transfer": hashlib.sha256(listed.encode()).hexdigest()} if listed else {})


def transfer_folders(evaluators: Mapping[str, Any]) -> str:
    """How the files lie in folders of images that an encoder is evaluated on besides; empty where there are none."""
    folders = [path for path in evaluators.get("transfer", {}).get("datasets", ()) if Path(path).is_dir()]
    return json.dumps([places({"_target_": "", "root": path}) for path in folders]) if folders else ""


def _hash_as_it_lies(file: Path) -> str:
    """`file_hash`, once for all runs that read the file."""
    stat = file.stat()
    return _hash(file, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=64)
def _hash(file: Path, size: int, changed: int) -> str:
    return file_hash(file)


def dataset_below(config: dict[str, Any], data_root: str) -> dict[str, Any]:
    """The node of the dataset, with paths in the run's data_root moved to another."""
    old = str(config.get("data_root", ""))
    node = dict(config["dataset"])
    for key, value in node.items():
        if not is_identity(f"dataset.{key}") and isinstance(value, str) and Path(value).is_relative_to(old):
            node[key] = str(Path(data_root) / Path(value).relative_to(old))
    return node


def write_result(run: Path, result: dict[str, Any]) -> None:
    """Write result.json; raises ValueError for a figure that is not finite."""
    _write_whole(run / RESULT, result)


def read_result(run: Path) -> dict[str, Any] | None:
    """The content of result.json; None if it is missing, or not as a run wrote it."""
    return _read_whole(run / RESULT)


def _write_whole(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON with the checksum of what it holds."""
    plain = json.loads(json.dumps(content))
    write_text(path, json.dumps({**plain, "checksum": checksum(plain)}, indent=1))


def _read_whole(path: Path) -> dict[str, Any] | None:
    """The content of a JSON by `_write_whole`, without its checksum; None if it is missing or another."""
    return known(path, dict[str, Any], is_whole=lambda content: content.pop("checksum", None) == checksum(content))


def checksum(content: dict[str, Any]) -> str:
    """sha256 of plain containers; ValueError where a number is not finite."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


def read_failure(run: Path) -> str | None:
    """Why the training of a run broke down by itself; None where it did not, or where a file or the machine was why."""
    content = known(run / FAILURE, dict[str, Any])
    return None if content is None else str(content.get("reason", "training broke down"))


class Environment(TypedDict):
    """What is read of environment.json, the one file of a run without a checksum of its own."""

    command: str
    code: str
    data: str
    threads: int
    modules: dict[str, str]
    files: NotRequired[dict[str, Place]]
    commit: NotRequired[str | None]
    package: NotRequired[str]
    overrides: NotRequired[list[str]]
    earlier: NotRequired[list[dict[str, Any]]]
    resumed_with: NotRequired[list[dict[str, Any]]]


def read_environment(run: Path) -> dict[str, Any]:
    """The record of what produced a run.

    Raises:
        ConfigError: environment.json is missing, damaged or no run's.
    """
    file = run / "environment.json"
    if (content := known(file, Environment)) is None:
        raise ConfigError(f"{file} is missing or damaged: {ADVICE}")
    return {**content}


EVALUATIONS = "evaluation"
MAX_LENGTH = 100  # characters of a name before its hash


def evaluation_name(dataset: str, nodes: dict[str, dict[str, Any]], *, data_hash: str) -> str:
    """`knn+linear-digits-1a2b3c4d`: the evaluators, the dataset and a hash of the settings and the data.

    Args:
        dataset: its name.
        nodes: the nodes of the evaluators by name, and that of the dataset under `dataset`.
        data_hash: of the images and labels; two folders may have one name.
    """
    settings = {key: value for key, value in flatten(nodes).items() if is_identity(key)}
    digest = hashlib.sha256(json.dumps([settings, data_hash], sort_keys=True).encode()).hexdigest()[:8]
    evaluators = "+".join(name.removeprefix("evaluator.") for name in nodes if name != "dataset")
    return f"{f'{evaluators}-{dataset}'[:MAX_LENGTH]}-{digest}"


def read_evaluations(run: Path) -> dict[str, dict[str, Any]]:
    """{name: record} of every whole evaluation of the weights that the run has now, by name."""
    files = sorted((run / EVALUATIONS).glob("*.json"))
    weights = file_hash(run / ENCODER) if files and (run / ENCODER).exists() else None
    records = {file.stem: _read_whole(file) for file in files}
    return {name: record for name, record in records.items() if record is not None and record["weights"] == weights}


def write_evaluation(run: Path, name: str, record: dict[str, Any]) -> None:
    """Write a record atomically."""
    _write_whole(run / EVALUATIONS / f"{name}.json", record)
