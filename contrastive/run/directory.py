"""Run directory: configuration, environment, metrics, checkpoint and result of one run.

    config.yaml  environment.json  metrics.jsonl  events.*  projector/  checkpoints/last.pt
    encoder.safetensors  head.safetensors
    result.json

`result.json` is written last and means done. Every file is replaced atomically: a killed run leaves whole files.
"""

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from contrastive.atomic import atomic, write_text
from contrastive.distributed.process import main_process_first
from contrastive.errors import ConfigError
from contrastive.run.identity import differences
from contrastive.run.logs import Logs
from contrastive.weights.metadata import ENCODER, HEAD

EARLIER_KEYS = ("command", "device", "precision", "torch", "commit")  # recorded of every interrupted session


class RunDirectory:
    """An open run directory, made by `open_run`. Methods that write do nothing in a read-only one.

    Attributes:
        result: the content of result.json when the run is done, else None.
        state: the last checkpoint of an interrupted run, its tensors on the CPU, else None.
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
        logs: Logs | None,
    ) -> None:
        self.path, self.result, self.state, self.stale, self._logs = path, result, state, stale, logs

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
            n_lines = self._logs.flush()
            with atomic(_checkpoint(self.path)) as part:
                torch.save({**state, "lines": n_lines}, part)

    def finish(self, result: dict[str, Any], write_weights: Callable[[Path], None]) -> None:
        """Write the weights into the directory by `write_weights(path)` and, last, the result: the run is done."""
        self.result = result
        if self._logs is not None:
            write_weights(self.path)
            self._logs.tensorboard.add_hparams()
            write_text(self.path / "result.json", json.dumps(result, indent=1, allow_nan=False))


@contextmanager
def open_run(
    path: Path, *, config: dict[str, Any], environment: dict[str, Any], rerun: bool, writable: bool = True
) -> Iterator[RunDirectory]:
    """Open the run directory `path`, made if needed, and close its logs at the end.

    Args:
        config: the resolved configuration, plain containers.
        environment: record of what produces the run; its `code`, `data` and `weights` hashes must agree for a resume.
        rerun: delete the results of an earlier run in this directory and start over.
        writable: whether this process writes; of several processes only the main one does.

    Raises:
        ConfigError: in every process, when another process has the directory open, another configuration ran here, or
            an interrupted run was made by other code or on other data.
    """
    with ExitStack() as stack:
        stale: list[str] = []
        with main_process_first():
            if writable:
                stack.enter_context(_lock(path))
                stale = _claim(path, config=config, environment=environment, rerun=rerun)
            result = json.loads(_result(path).read_text()) if _result(path).exists() else None
            state = None
            if result is None and _checkpoint(path).exists():
                state = torch.load(_checkpoint(path), map_location="cpu", weights_only=True)
        logs = stack.enter_context(Logs(path, state)) if writable and result is None else None
        yield RunDirectory(path, result=result, state=state, stale=stale, logs=logs)


def _checkpoint(path: Path) -> Path:
    return path / "checkpoints" / "last.pt"


def _result(path: Path) -> Path:
    return path / "result.json"


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Keep every other process out of the directory."""
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"another process is running in {path}: wait for it, or try hydra.run.dir=PATH") from None
        yield


def _claim(path: Path, *, config: dict[str, Any], environment: dict[str, Any], rerun: bool) -> list[str]:
    """Refuse a directory that holds another run, else record this one; returns `stale` of a finished run."""
    earlier: list[dict[str, Any]] = []
    if rerun:
        _clear(path)
    elif (path / "config.yaml").exists():
        changed = differences(yaml.safe_load((path / "config.yaml").read_text()), config)
        if changed:
            raise ConfigError(
                f"{path} holds a run with another configuration ({'; '.join(changed)}): "
                "try hydra.run.dir=PATH for this one, or rerun=true to replace that one"
            )
        recorded = json.loads((path / "environment.json").read_text())
        stale = [key for key in ("code", "data", "weights") if recorded.get(key) != environment.get(key)]
        if _result(path).exists():
            return stale
        if stale and _checkpoint(path).exists():
            raise ConfigError(
                f"{path} was interrupted under other {' and '.join(stale)} and cannot be continued exactly: "
                "try rerun=true to start it over"
            )
        earlier = [*recorded.pop("earlier", []), {key: recorded[key] for key in EARLIER_KEYS}]
    # config.yaml last: where it exists, environment.json does too
    write_text(path / "environment.json", json.dumps({**environment, "earlier": earlier}, indent=1))
    write_text(path / "config.yaml", yaml.safe_dump(config, sort_keys=False))
    return []


def _clear(path: Path) -> None:
    """Remove result, checkpoint, metrics and weights; `Logs` removes what TensorBoard shows."""
    for file in (_result(path), _checkpoint(path), path / "metrics.jsonl", path / ENCODER, path / HEAD):
        file.unlink(missing_ok=True)
