"""Run directory: configuration, environment, metrics, checkpoints and result of one run.

    config.yaml  environment.json  metrics.jsonl  events.*  projector/  checkpoints/  encoder.safetensors
    head.safetensors  result.json  failure.json

`result.json` is written last and means done. Every file is replaced atomically: a killed run leaves whole files.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from contrastive.atomic import write_text
from contrastive.distributed.process import main_process_first
from contrastive.errors import ConfigError
from contrastive.run.checkpoint import (
    Unusable,
    has_checkpoint,
    last_checkpoint,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from contrastive.run.claim import check_claim, clear, made_by, record, remove_leftovers
from contrastive.run.lock import lock
from contrastive.run.logs import Logs, has_same_log
from contrastive.run.own_weights import has_own_weights, weights_hashes
from contrastive.run.result import read_result, result_file, write_result


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
