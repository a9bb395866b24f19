"""May this command use the directory? It holds nothing, this very run, or another one."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import yaml

from contrastive.atomic import write_text
from contrastive.errors import ConfigError
from contrastive.run.checkpoint import FOLDER as CHECKPOINTS
from contrastive.run.checkpoint import has_checkpoint, last_checkpoint, previous_checkpoint
from contrastive.run.config import is_config
from contrastive.run.identity import differences, identity
from contrastive.run.logs import event_files
from contrastive.run.projector import CONFIG as PROJECTOR_CONFIG
from contrastive.run.projector import FOLDER as PROJECTOR
from contrastive.run.result import result_file
from contrastive.run.yaml_files import check_yaml
from contrastive.weights.metadata import ENCODER, HEAD

# of a run directory, besides result.json, checkpoints/, projector/ and TensorBoard's; the exports belong to the encoder
FILES = (
    ENCODER, HEAD, "encoder.onnx", "encoder.pth", "metrics.jsonl", "failure.json", "environment.json", "config.yaml",
)  # fmt: skip
# recorded of every interrupted session
EARLIER_KEYS = ("command", "device", "precision", "torch", "commit", "threads", "processes")
# another value of them changes the bits of what follows
EXACT_KEYS = ("device", "precision", "torch", "processes", "compile")


def made_by(config: dict[str, Any], environment: dict[str, Any]) -> dict[str, str]:
    """Hashes of what determines a run: configuration, code, data."""
    written = json.dumps(_as_floats(identity(config)), sort_keys=True, default=str)
    config_hash = hashlib.sha256(written.encode()).hexdigest()
    return {"config": config_hash, "code": environment["code"], "data": environment["data"]}


def _as_floats(value: Any) -> Any:
    """Whole numbers as floats, inside containers too: 1 and 1.0 are one setting."""
    if isinstance(value, dict):
        return {key: _as_floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def check_claim(path: Path, *, config: dict[str, Any], environment: dict[str, Any]) -> list[str]:
    """Refuse a directory that holds another run, or one that cannot be continued.

    Returns:
        what differs from a finished run: `code`, `data`, `weights`.

    Raises:
        ConfigError: the directory cannot be used as it is.
    """
    recorded = _recorded(path, config)
    stale = [key for key in ("code", "data", "weights") if recorded and recorded.get(key) != environment.get(key)]
    if result_file(path).exists():
        return stale
    if stale and has_checkpoint(path):
        raise ConfigError(
            f"{path} was interrupted under other {' and '.join(stale)} and cannot be continued exactly: "
            "try rerun=true to start it over"
        )
    return []


def record(path: Path, *, config: dict[str, Any], environment: dict[str, Any]) -> None:
    """Write environment.json, with the sessions of a continued run that came before, and config.yaml."""
    recorded, earlier = _recorded(path, config), []
    if recorded:
        earlier = [*recorded.get("earlier", []), {key: recorded.get(key) for key in EARLIER_KEYS}]
    if has_checkpoint(path):
        changed = [key for key in EXACT_KEYS if recorded.get(key) != environment[key]]
        for key in changed:
            print(f"warning: {key} {recorded.get(key)} before and {environment[key]} now: not exact to the last bit")
    # config.yaml last: where it exists, environment.json does too
    write_text(path / "environment.json", json.dumps({**environment, "earlier": earlier}, indent=1))
    write_text(path / "config.yaml", yaml.safe_dump(config, sort_keys=False))


def _recorded(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    """environment.json of the run that the directory holds, which must have this configuration; empty if none."""
    _check_is_run(path)
    if not (path / "config.yaml").exists():
        if result_file(path).exists() or has_checkpoint(path):
            raise ConfigError(
                f"{path} holds a run without its config.yaml: try rerun=true to replace it, or hydra.run.dir=PATH"
            )
        return {}
    changed = differences(_read(path / "config.yaml", yaml.safe_load), config)
    if changed:
        raise ConfigError(
            f"{path} holds a run with another configuration ({'; '.join(changed)}): "
            "try hydra.run.dir=PATH for this one, or rerun=true to replace that one"
        )
    return _read(path / "environment.json", json.loads)


def _read(file: Path, parse: Any) -> dict[str, Any]:
    """A YAML or JSON mapping."""
    content = _parsed(file, parse)
    if not isinstance(content, dict) or not content:
        raise ConfigError(f"{file} is missing or damaged: try rerun=true to start the run over")
    return content


def _parsed(file: Path, parse: Any) -> Any:
    """What a file holds; None if it is missing or damaged."""
    try:
        if file.suffix == ".yaml":
            check_yaml(file)
        return parse(file.read_text())
    except (ConfigError, OSError, ValueError, yaml.YAMLError, RecursionError):
        return None


def clear(path: Path) -> None:
    """Remove what a run wrote; the result first, its configuration last.

    Raises:
        ConfigError: files of these names are no run's.
    """
    _check_is_run(path)
    files = [result_file(path), last_checkpoint(path), previous_checkpoint(path)]
    for file in (*files, *event_files(path), *(path / name for name in FILES)):
        file.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove what a killed process of this run left half-written; the lock of the directory is held."""
    for folder in (path, path / CHECKPOINTS, path / PROJECTOR):
        for part in folder.glob(".*.part"):
            name = re.fullmatch(r"\.(.+)\.\d+\.part", part.name)
            if name and (folder != path or name[1] in (*FILES, result_file(path).name, PROJECTOR_CONFIG)):
                part.unlink()


def _check_is_run(path: Path) -> None:
    """Refuse a directory with files that look like a run's where nothing says that they are one's."""
    places = [path / name for name in FILES] + [result_file(path), last_checkpoint(path), previous_checkpoint(path)]
    there = [place for place in (*places, *event_files(path)) if place.exists()]
    environment, config = _parsed(path / "environment.json", json.loads), _parsed(path / "config.yaml", yaml.safe_load)
    is_environment = isinstance(environment, dict) and environment.keys() >= {"command", "code", "data"}
    if there and not is_environment and not is_config(config):
        raise ConfigError(f"{path} holds a {there[0].name} that no run wrote: try hydra.run.dir=PATH, another folder")
