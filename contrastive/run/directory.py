"""Run directory: configuration, environment, metrics, checkpoints and result of one run.

    config.yaml  environment.json  metrics.jsonl  events.*  projector/  checkpoints/  encoder.safetensors
    head.safetensors  result.json  failure.json

`result.json` is written last and means done. Every file is replaced atomically: a killed run leaves whole files.
"""

import fcntl
import hashlib
import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from torch import Tensor

from contrastive.distributed.process import main_process_first
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.run.checkpoint import FOLDER as CHECKPOINTS
from contrastive.run.checkpoint import (
    Unusable,
    has_checkpoint,
    last_checkpoint,
    load_checkpoint,
    previous_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from contrastive.run.files import ENCODER, HEAD, check_yaml, is_config, read_result, result_file, write_result
from contrastive.run.identity import differences, identity
from contrastive.run.log import Logs, event_files, has_same_log
from contrastive.run.tensorboard import CONFIG as PROJECTOR_CONFIG
from contrastive.run.tensorboard import FOLDER as PROJECTOR
from contrastive.run.weights import has_own_weights, weights_hashes


class RunDirectory:
    """An open run directory, made by `open_run`. Methods that write do nothing in a read-only one.

    Attributes:
        result: the content of result.json when the run is done, else None.
        state: the last checkpoint of an interrupted run, or of a finished one whose files of weights are missing,
            damaged or another run's, its tensors on the CPU; else None.
        stale: `code`, `data`, `weights` when a finished run was made by other code, on other data or from other weights
            than there are now.
    """

    def __init__(
        self,
        path: Path,
        *,
        result: dict[str, Any] | None,
        state: dict[str, Any] | None,
        stale: list[str],
        made_by: dict[str, str],
        logs: Logs | None,
        writable: bool,
    ) -> None:
        self.path, self.result, self.state, self.stale = path, result, state, stale
        self._made_by, self._logs, self._writable = made_by, logs, writable

    def log(self, step: int, epoch: float, metrics: dict[str, float]) -> None:
        """One line of metrics.jsonl and one point on every curve."""
        if self._logs is not None:
            self._logs.add(step, epoch, metrics)

    def log_image(self, step: int, name: str, image: Tensor) -> None:
        """Show an image (3, H, W) in [0, 1] in TensorBoard."""
        if self._logs is not None:
            self._logs.tensorboard.add_image(name, image, step)

    def log_histogram(self, step: int, name: str, values: Tensor) -> None:
        """Show the distribution of values in TensorBoard; an empty set is left out."""
        if self._logs is not None:
            self._logs.tensorboard.add_histogram(name, values, step)

    def log_embedding(self, vectors: Tensor, columns: dict[str, list[str]], images: Tensor) -> None:
        """Show vectors (n, F) in TensorBoard's projector, with n words in each column and images (n, 3, H, W) uint8."""
        if self._logs is not None:
            self._logs.tensorboard.add_embedding(vectors, columns, images)

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint; `state` holds plain containers and tensors, and its `step`."""
        if self._logs is not None:
            save_checkpoint(self.path, {**state, "logs": self._logs.flush()}, made_by=self._made_by)

    def fail(self, report: dict[str, Any]) -> None:
        """Write failure.json, which says where and how training broke down."""
        if self._logs is not None:
            write_text(self.path / "failure.json", json.dumps(report, indent=1))

    def finish(self, result: dict[str, Any], write_weights: Callable[[Path], None]) -> None:
        """Write the weights into the directory by `write_weights(path)` and, last, the result: the run is done."""
        self.result = result
        if self._logs is not None:
            write_weights(self.path)
            self._logs.tensorboard.add_hparams()
            origin = {"made_by": self._made_by, "weights": weights_hashes(self.path), "log": self._logs.finish()}
            self.result = {**result, **origin}
            write_result(self.path, self.result)

    def rewrite(self, write_weights: Callable[[Path], None]) -> None:
        """Write the weights of a finished run again, by `write_weights(path)`."""
        if self._writable:
            write_weights(self.path)
            print("warning: files of weights were missing, damaged or another run's: written again from the checkpoint")


@contextmanager
def open_run(
    path: Path, *, config: dict[str, Any], environment: dict[str, Any], rerun: bool, writable: bool = True
) -> Iterator[RunDirectory]:
    """Open the run directory `path`, made if needed, and close its logs at the end.

    Args:
        config: the resolved configuration, plain containers.
        environment: record of what produces the run; its `code` and `data` hashes must agree for a resume.
        rerun: delete the results of an earlier run in this directory and start over.
        writable: whether this process writes; of several processes only the main one does.

    Raises:
        ConfigError: in every process, when another process has the directory open, another configuration ran here, or
            an interrupted run was made by other code or on other data, or its files are damaged.
    """
    with ExitStack() as stack:
        hashes, stale = made_by(config, environment), []
        with main_process_first():
            if writable:
                stack.enter_context(lock(path))
                stale = _prepare(path, config=config, environment=environment, rerun=rerun)
            result = read_result(path)
            if result is not None and result.get("made_by", hashes)["config"] != hashes["config"]:
                raise ConfigError(f"{result_file(path)} is another run's: try rerun=true to start this one over")
            state = None
            if result is None and has_checkpoint(path):
                state = load_checkpoint(path, made_by=hashes)
            elif result is not None and not has_own_weights(path, result):
                state = _state_for_weights(path, hashes, epochs=config["epochs"])
            if writable and result is not None and not has_same_log(path, result):
                print("warning: metrics.jsonl was changed after the run: rerun=true starts it over")
            if writable and result is None:
                record(path, config=config, environment=environment)
        logs = stack.enter_context(Logs(path, state)) if writable and result is None else None
        yield RunDirectory(path, result=result, state=state, stale=stale, made_by=hashes, logs=logs, writable=writable)


def _prepare(path: Path, *, config: dict[str, Any], environment: dict[str, Any], rerun: bool) -> list[str]:
    """Refuse a directory that cannot be used; remove leftovers and mend what can be. Returns `stale`."""
    if rerun:
        clear(path)
    stale = check_claim(path, config=config, environment=environment)
    remove_leftovers(path)
    if result_file(path).exists() and read_result(path) is None:
        _drop_damaged_result(path, stale)
    (path / "failure.json").unlink(missing_ok=True)
    return stale


def _drop_damaged_result(path: Path, stale: list[str]) -> None:
    """Remove a result.json that is damaged where the checkpoint can give the result again."""
    if stale or not has_checkpoint(path):
        raise ConfigError(f"{result_file(path)} is damaged: try rerun=true to start the run over")
    print("warning: result.json is damaged: it is computed again from the checkpoint")
    result_file(path).unlink()


def _state_for_weights(path: Path, hashes: dict[str, str], *, epochs: int) -> dict[str, Any] | None:
    """The checkpoint of a finished run's last epoch, to write its weights again; a warning where it cannot be used."""
    try:
        state = read_checkpoint(last_checkpoint(path), made_by=hashes)
        if state["epoch"] != epochs:
            raise Unusable("is of an earlier epoch")
    except Unusable as error:
        print(f"warning: files of weights are damaged or another run's and last.pt {error}: rerun=true starts it over")
        return None
    return state


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


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Keep every other process out of the directory, and name this one to whoever is refused.

    The kernel releases the lock when its process ends, however it ends: a file that is left over locks nothing.

    Raises:
        ConfigError: another process holds the lock.
    """
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ConfigError(
                f"another process ({file.read() or 'just starting'}) is running in {path}: "
                "wait for it, or try hydra.run.dir=PATH"
            ) from None
        file.truncate(0)
        file.write(f"pid {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
