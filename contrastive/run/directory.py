"""Run directory: configuration, environment, metrics, checkpoints and result of one run.

    config.yaml  environment.json  metrics.jsonl  events.*  checkpoints/  encoder.safetensors
    head.safetensors  result.json  failure.json

`result.json` is written last and means done. Every file is replaced atomically: a killed run leaves whole files.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contrastive.config.identity import config_hash, differences
from contrastive.distributed.process import main_process_first
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.run.checkpoint import (
    CheckpointWriter,
    load_checkpoint,
)
from contrastive.run.files import (
    ENCODER,
    FAILURE,
    HEAD,
    LAST,
    PREVIOUS,
    RESULT,
    lock,
    read_config,
    read_environment,
    read_result,
    write_config,
    write_result,
)
from contrastive.run.log import Logs
from contrastive.run.provenance import CODE_KEYS, is_restarted, job
from contrastive.run.run import Run, has_checkpoint, other_data, read_run
from contrastive.text import show


@dataclass(kw_only=True)
class RunDirectory:
    """An open run directory, made by `open_run`. Methods that write do nothing in a read-only one.

    Attributes:
        result: the content of result.json when the run is done, else None.
        state: the last checkpoint of an interrupted run, its tensors on the CPU; else None.
        origin: what the result and every checkpoint say about what made them.
        logs, writer: of curves and of checkpoints, open while the run is made, in the process that writes.
    """

    path: Path
    result: dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    origin: dict[str, Any] = field(default_factory=dict)
    logs: Logs | None = None
    writer: CheckpointWriter | None = None

    def log(self, step: int, epoch: float, metrics: dict[str, float]) -> None:
        """A line of metrics.jsonl: a point on every curve."""
        if self.logs is not None:
            self.logs.add(step, epoch, metrics)

    def save(self, state: dict[str, Any]) -> None:
        """Begin to replace the checkpoint, which takes its name when it is whole; see `wait`.

        Args:
            state: plain containers, among them its `step`, and tensors on the CPU; nobody changes them any more.

        Raises:
            OSError: the checkpoint before could not be written.
        """
        if self.logs is not None and self.writer is not None:
            self.writer.start({**state, "logs": self.logs.flush()})

    def wait(self) -> None:
        """Return when the last checkpoint is on the disk; raises OSError if it could not be written."""
        if self.writer is not None:
            self.writer.wait()

    def fail(self, report: dict[str, Any]) -> None:
        """Write failure.json, which says where and how training broke down."""
        if self.logs is not None:
            write_text(self.path / FAILURE, json.dumps(report, indent=1))

    def finish(self, result: dict[str, Any], write_weights: Callable[[Path], dict[str, str]]) -> None:
        """Write the weights and, last, the result: the run is done.

        Args:
            write_weights: writes the files of weights into a folder and returns {file: sha256 of its tensors}.
        """
        self.result = result
        self.wait()
        with main_process_first():  # what another process does next may read the result
            if self.logs is not None:
                hashes = {"weights": write_weights(self.path), "log": self.logs.flush()}
                self.result = {**result, **self.origin, **hashes}
                write_result(self.path, self.result)


@contextmanager
def open_run(
    path: Path,
    *,
    config: dict[str, Any],
    environment: dict[str, Any],
    rerun: bool,
    writable: bool = True,
) -> Iterator[RunDirectory]:
    """Open the run directory `path`, made if needed; at the end wait for its checkpoint and close its logs.

    Args:
        config: the resolved configuration, plain containers.
        environment: record of what produces the run; its hashes of data and weights must agree for a resume.
        rerun: delete the results of an earlier run in this directory and start over.
        writable: whether this process writes; of several processes only the main one does.

    Raises:
        ConfigError: in every process, when another process has the directory open, another configuration ran here, or
            a run was made on other data, an interrupted one from other weights, or its files are damaged.
    """
    with ExitStack() as stack:
        origin: dict[str, Any] = {"made_by": provenance_hashes(config, environment)}
        state = None
        with main_process_first():
            if writable:
                stack.enter_context(lock(path))
                if rerun and not (is_restarted() and read_run(path).environment.get("job", "") == job()):
                    clear(path)  # a job that is started again has done so
                run = check_resumable(path, config=config, environment=environment)
                remove_leftovers(path)
            result = read_result(path)
            if result is None and has_checkpoint(path):
                state = load_checkpoint(path, made_by=origin["made_by"])
            if writable and result is None and (resumed_with := record(run, config=config, environment=environment)):
                origin["resumed_with"] = resumed_with
        opened = RunDirectory(path=path, result=result, state=state, origin=origin)
        if writable and result is None:
            opened.logs = stack.enter_context(closing(Logs(path, state)))
            opened.writer = stack.enter_context(closing(CheckpointWriter(path, made_by=origin["made_by"])))
        yield opened


def check_resumable(path: Path, *, config: dict[str, Any], environment: dict[str, Any]) -> Run:
    """The run in the directory, which can be created, resumed or shown there.

    Raises:
        ConfigError: the directory holds another run, one on other data, an interrupted one from other weights, or
            damaged files.
    """
    check_is_run(path)
    run = read_run(path)
    if run.kind == "damaged":
        raise ConfigError(run.reason)
    if run.config and (settings := differences(run.config, config)):
        raise ConfigError(
            f"{path} holds a run with another configuration ({'; '.join(settings)}): "
            "try hydra.run.dir=PATH for this one, or rerun=true to replace that one"
        )
    sources = ("data", "weights", "bias_from", "bias_labels")
    changed = [key for key in sources if run.environment.get(key) != environment.get(key)]
    if run.kind in ("finished", "resumable") and "data" in changed:
        raise ConfigError(other_data(run, config, environment.get("files", {})))
    if run.kind == "resumable" and changed:
        raise ConfigError(
            f"{path} was interrupted with other {' and '.join(changed)} and cannot be continued exactly: "
            "try rerun=true to start it over"
        )
    if run.kind == "empty" and (changed or run.environment.get("code") != environment["code"]):
        for file in path.glob("trackers/*.json"):  # of another experiment, which a service has begun to show
            file.unlink()
    (path / FAILURE).unlink(missing_ok=True)
    return run


def provenance_hashes(config: dict[str, Any], environment: dict[str, Any]) -> dict[str, str]:
    """Hashes of what determines a run: configuration, code, data."""
    return {"config": config_hash(config), "code": environment["code"], "data": environment["data"]}


# recorded of every interrupted session
EARLIER_KEYS = (*CODE_KEYS, "command", "device", "processor", "precision", "torch", "threads", "processes")
# another value of them changes the bits of what follows
EXACT_KEYS = (
    "processor", "precision", "torch", "processes", "compile",
    "cudnn", "tf32_convolutions", "tf32_matmul", "cudnn_benchmark", "deterministic", "graphs",  # of a GPU
)  # fmt: skip


def record(run: Run, *, config: dict[str, Any], environment: dict[str, Any]) -> list[dict[str, Any]]:
    """Write environment.json, with the sessions of a continued run that came before, and config.yaml.

    Returns:
        `resumed_with`: the state of the code in every later session that changed it.
    """
    recorded, sessions, resumed_with = run.environment, dict[str, Any](earlier=[]), []
    if run.kind == "resumable":  # of another one nothing is left
        sessions["earlier"] = [*recorded.get("earlier", []), {key: recorded.get(key) for key in EARLIER_KEYS}]
        resumed_with = recorded.get("resumed_with", [])
        for key in EXACT_KEYS:
            if (before := recorded.get(key)) != (now := environment.get(key)):
                show(f"warning: {key} {before} before and {now} now: the last bits may differ")
        if recorded["code"] != environment["code"]:
            print("warning: the code changed since the run was interrupted: the run continues and records it")
            resumed_with = [*resumed_with, {key: environment.get(key) for key in CODE_KEYS}]
    if resumed_with:
        sessions["resumed_with"] = resumed_with
    # config.yaml last: where it exists, environment.json does too
    write_text(run.path / "environment.json", json.dumps({**environment, **sessions}, indent=1))
    write_config(run.path, config)
    return resumed_with


# of a run directory: the result first, the configuration last; the exports and the pages belong to the encoder
FILES = (
    RESULT, LAST, PREVIOUS, "events.*", ENCODER, HEAD, "encoder.onnx", "encoder.pt2", "show.html",
    "metrics.jsonl", FAILURE, "profile/trace.json.gz", "profile/operations.txt", "trackers/*.json",
    "environment.json", "config.yaml",
)  # fmt: skip


def clear(path: Path) -> None:
    """Remove what a run wrote; the result first, its configuration last.

    Raises:
        ConfigError: files of these names are no run's.
    """
    check_is_run(path)
    for file in run_files(path):
        file.unlink()


def run_files(path: Path) -> list[Path]:
    """The files that a run wrote, the result first and the configuration last."""
    return [file for name in FILES for file in path.glob(name)]


def remove_leftovers(path: Path) -> None:
    """Remove what a killed process of this run left half-written; the lock of the directory is held."""
    for file in (path / name for name in FILES):
        for part in file.parent.glob(f".{file.name}.*.part"):
            part.unlink()


def check_is_run(path: Path) -> None:
    """Refuse a directory with files that look like a run's where nothing says that they are one's."""
    for read in (read_config, read_environment):
        with suppress(ConfigError):
            read(path)
            return
    if files := run_files(path):
        raise ConfigError(f"{path} holds a {files[0].name} that no run wrote: try hydra.run.dir=PATH, another folder")
