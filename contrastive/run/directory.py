"""A run is a directory: what was asked, where it ran, what it measured, where it can go on, and what came out.

    config.yaml  environment.json  metrics.jsonl  tb/  checkpoints/last.pt  encoder.safetensors  result.json

`result.json` is written last and means done. Every file is replaced atomically, so a killed run leaves a whole one.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import torch
import yaml
from safetensors.torch import save_file
from torch import Tensor

from contrastive.atomic import atomic, write_text
from contrastive.distributed.process import broadcast_from_main
from contrastive.errors import ConfigError
from contrastive.program.settings import FREE, flatten


def differing(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The keys, dotted, in which two configurations differ, those of FREE left out, as `key: old -> new`."""
    flat_old, flat_new = flatten(old), flatten(new)
    keys = sorted(k for k in flat_old.keys() | flat_new.keys() if k not in FREE)
    gone = "(absent)"
    return [
        f"{k}: {flat_old.get(k, gone)} -> {flat_new.get(k, gone)}"
        for k in keys
        if flat_old.get(k, gone) != flat_new.get(k, gone)
    ]


class Run:
    """An open run directory. Use it as a context manager: leaving closes its writers.

    Args:
        path: the directory, made if needed.
        config: the resolved configuration, plain containers.
        environment: what produced the run; its `code` and `data` hashes must agree for a resume.
        rerun: start over, whatever is there.

    Raises:
        ConfigError: another process has the directory open, another configuration ran here, or an interrupted run was
            made by other code or on other data.
    """

    def __init__(self, path: Path, *, config: dict[str, Any], environment: dict[str, Any], rerun: bool) -> None:
        self.path = path
        self.result: dict[str, Any] | None = None
        self._earlier: list[dict[str, Any]] = []  # what the interrupted sessions of this run were made by
        self.stale: list[str] = []  # why a finished result may not be what the same command would give now
        self._writer: Any = None
        path.mkdir(parents=True, exist_ok=True)
        self._lock = (path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"another process is running in {path}: wait for it, or try hydra.run.dir=PATH") from None
        if (path / "config.yaml").exists() and not rerun:
            self._compare(config, environment)
        elif rerun:
            self._clear()
        if self.result is None:  # config.yaml last: where it is, the other is too
            write_text(path / "environment.json", json.dumps({**environment, "earlier": self._earlier}, indent=1))
            write_text(path / "config.yaml", yaml.safe_dump(config, sort_keys=False))

    def _compare(self, config: dict[str, Any], environment: dict[str, Any]) -> None:
        keys = differing(yaml.safe_load((self.path / "config.yaml").read_text()), config)
        if keys:
            raise ConfigError(
                f"{self.path} holds a run with another configuration ({'; '.join(keys)}): "
                "try hydra.run.dir=PATH for this one, or rerun=true to replace that one"
            )
        recorded = json.loads((self.path / "environment.json").read_text())
        self._earlier = [
            *recorded.pop("earlier", []),
            {key: recorded[key] for key in ("command", "device", "precision", "torch", "commit")},
        ]
        stale = [what for what in ("code", "data") if recorded[what] != environment[what]]
        if (self.path / "result.json").exists():
            self.result = json.loads((self.path / "result.json").read_text())
            self.stale = stale
        elif self.checkpoint.exists():
            if stale:
                raise ConfigError(
                    f"{self.path} was interrupted under other {' and '.join(stale)} and cannot be "
                    "continued exactly: try rerun=true to start it over"
                )

    def _clear(self) -> None:
        for name in ("result.json", "checkpoints/last.pt", "metrics.jsonl", "encoder.safetensors"):
            (self.path / name).unlink(missing_ok=True)
        for events in (self.path / "tb").glob("events.*"):
            events.unlink()

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoints" / "last.pt"

    def restore(self) -> dict[str, Any] | None:
        """Open the logs and return, in every process, the last checkpoint, its tensors on the CPU, or None.

        Lines logged after the checkpoint are cut and TensorBoard is told to forget them: they will come again.
        """
        return broadcast_from_main(self._restore)

    def _restore(self) -> dict[str, Any] | None:
        from torch.utils.tensorboard import SummaryWriter  # slow to import, and a finished run needs none

        state = None
        if self.checkpoint.exists():
            state = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        path = self.path / "metrics.jsonl"
        kept = path.read_text().splitlines(keepends=True)[: state["lines"]] if state and path.exists() else []
        write_text(path, "".join(kept))
        self._n_lines = len(kept)
        self._lines: IO[str] = path.open("a")
        self._writer = SummaryWriter(str(self.path / "tb"), purge_step=state["step"] + 1 if state else 0)
        return state

    def log(self, step: int, epoch: float, metrics: dict[str, float]) -> None:
        """One line of metrics.jsonl and one point on every curve."""
        self._lines.write(json.dumps({"step": step, "epoch": epoch, **metrics}) + "\n")
        self._lines.flush()
        self._n_lines += 1
        for key, value in metrics.items():
            self._writer.add_scalar(key, value, step)

    def image(self, step: int, name: str, grid: Tensor) -> None:
        """Show a picture (3, H, W) in [0, 1] in TensorBoard."""
        self._writer.add_image(name, grid, step)

    def histogram(self, step: int, name: str, values: Tensor) -> None:
        """Show how values are spread in TensorBoard; an empty set is left out."""
        if len(values):
            self._writer.add_histogram(name, values.float().cpu(), step)

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint; `state` holds plain containers and tensors and its `step`."""
        os.fsync(self._lines.fileno())
        with atomic(self.checkpoint) as part:
            torch.save({**state, "lines": self._n_lines}, part)

    def finish(self, result: dict[str, Any], encoder: torch.nn.Module) -> None:
        """Write the encoder's weights and, last, the result: the run is done."""
        weights = {k: v.detach().cpu().contiguous() for k, v in encoder.state_dict().items()}
        with atomic(self.path / "encoder.safetensors") as part:
            save_file(weights, part)
        write_text(self.path / "result.json", json.dumps(result, indent=1, allow_nan=False))
        self.result = result

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._lines.close()
            self._writer.close()
        self._lock.close()


class Follower:
    """What every process but the first holds in place of a `Run`: it writes nothing, and has its result by hearsay."""

    def __init__(self, result: dict[str, Any] | None) -> None:
        self.result = result

    def restore(self) -> dict[str, Any] | None:
        """The checkpoint that the first process found."""
        return broadcast_from_main(lambda: None)

    def log(self, step: int, epoch: float, metrics: dict[str, float]) -> None: ...

    def image(self, step: int, name: str, grid: Tensor) -> None: ...

    def save(self, state: dict[str, Any]) -> None: ...


@contextmanager
def opened(path: Path, **about: Any) -> Iterator[Run | Follower]:
    """The run directory: a Run in the first process (with its arguments), a Follower in the others.

    Raises:
        ConfigError: as Run does, in every process.
    """
    with ExitStack() as stack:
        run: list[Run | Follower] = []

        def first() -> dict[str, Any] | None:
            run.append(stack.enter_context(Run(path, **about)))
            return run[0].result

        result = broadcast_from_main(first)
        yield run[0] if run else Follower(result)
