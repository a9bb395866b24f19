"""Run directory: configuration, environment, metrics, checkpoints and result of one run.

    config.yaml  environment.json  metrics.jsonl  tb/  checkpoints/  encoder.safetensors  result.json  failure.json

`result.json` is written last and means done. Every file is replaced atomically: a killed run leaves whole files.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

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
from contrastive.run.claim import check_claim, clear, made_by, record, recorded_threads
from contrastive.run.exported import encoder_file, read_encoder, write_encoder
from contrastive.run.lock import lock
from contrastive.run.logs import Logs
from contrastive.run.result import read_result, result_file, write_result


class RunDirectory:
    """An open run directory, made by `open_run`. Methods that write do nothing in a read-only one.

    Attributes:
        result: the content of result.json when the run is done, else None.
        state: the last checkpoint of an interrupted run, its tensors on the CPU, else None.
        stale: `code`, `data` when a finished run was made by other code or on other data than there are now.
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
    ) -> None:
        self.path, self.result, self.state, self.stale = path, result, state, stale
        self._made_by, self._logs = made_by, logs

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
        if self._logs is not None and len(values):
            self._logs.tensorboard.add_histogram(name, values.float().cpu(), step)

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint; `state` holds plain containers and tensors, and its `step`."""
        if self._logs is not None:
            save_checkpoint(self.path, {**state, "logs": self._logs.flush()}, made_by=self._made_by)

    def fail(self, report: dict[str, Any]) -> None:
        """Write failure.json, which says where and how training broke down."""
        if self._logs is not None:
            write_text(self.path / "failure.json", json.dumps(report, indent=1))

    def finish(self, result: dict[str, Any], encoder: nn.Module) -> None:
        """Write the encoder's weights and, last, the result: the run is done."""
        self.result = result
        if self._logs is not None:
            self._logs.flush()
            write_encoder(self.path, encoder.state_dict())
            write_result(self.path, result)


@contextmanager
def open_run(
    path: Path, *, config: dict[str, Any], environment: dict[str, Any], rerun: bool, writable: bool = True
) -> Iterator[RunDirectory]:
    """Open the run directory `path`, made if needed, and close its logs at the end.

    While it is open, torch uses as many threads as the run was started with.

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
                stale = _prepare(path, config=config, environment=environment, rerun=rerun, hashes=hashes)
            result = read_result(path)
            state = load_checkpoint(path, made_by=hashes) if result is None and has_checkpoint(path) else None
            if writable and result is None:
                record(path, config=config, environment=environment)
        if result is None and (path / "environment.json").exists():
            stack.enter_context(_threads(recorded_threads(path)))
        logs = stack.enter_context(Logs(path, state)) if writable and result is None else None
        yield RunDirectory(path, result=result, state=state, stale=stale, made_by=hashes, logs=logs)


def _prepare(
    path: Path, *, config: dict[str, Any], environment: dict[str, Any], rerun: bool, hashes: dict[str, str]
) -> list[str]:
    """Refuse a directory that cannot be used; remove leftovers and mend what can be. Returns `stale`."""
    for part in path.rglob(".*.part"):  # of a process that was killed while it wrote
        part.unlink()
    if rerun:
        clear(path)
    stale = check_claim(path, config=config, environment=environment)
    if result_file(path).exists():
        if read_result(path) is None:
            _drop_damaged_result(path, stale)
        elif read_encoder(path) is None:
            _rebuild_encoder(path, hashes)
    (path / "failure.json").unlink(missing_ok=True)
    return stale


def _drop_damaged_result(path: Path, stale: list[str]) -> None:
    """Remove a result.json that is damaged where the checkpoint can give the result again."""
    if stale or not has_checkpoint(path):
        raise ConfigError(f"{result_file(path)} is damaged: try rerun=true to start the run over")
    print("warning: result.json is damaged: it is computed again from the checkpoint")
    result_file(path).unlink()


def _rebuild_encoder(path: Path, hashes: dict[str, str]) -> None:
    """Write encoder.safetensors of a finished run again; a warning where the checkpoint cannot be used either."""
    said = f"warning: {encoder_file(path).name} is missing or damaged"
    try:
        weights = read_checkpoint(last_checkpoint(path), made_by=hashes)["encoder"]
    except Unusable as error:
        print(f"{said} and last.pt {error}: rerun=true trains it again")
        return
    write_encoder(path, weights)
    print(f"{said}: it is written again from the checkpoint")


@contextmanager
def _threads(n: int) -> Iterator[None]:
    """Let torch use n threads: another number would change the last bits."""
    before = torch.get_num_threads()
    if n != before:
        print(f"threads: {n} as at the start of this run, not {before}, so that it goes on exactly")
        torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
