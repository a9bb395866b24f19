"""Runs to do: which are done, and doing them side by side."""

import json
import math
import os
import re
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from omegaconf import DictConfig

from contrastive.config.compose import importable, search_path
from contrastive.config.identity import key_of
from contrastive.config.messages import in_a_line, user_message
from contrastive.config.settings import Settings, checked_settings
from contrastive.distributed.hardware import n_cores
from contrastive.distributed.pool import run_in_processes
from contrastive.errors import ConfigError
from contrastive.files import locked, write_text
from contrastive.run.files import FAILURE, read_result
from contrastive.run.run import Run
from contrastive.text import clock, counted

Compose = Callable[[Sequence[str]], DictConfig]  # overrides → the configuration of a run
START, SLACK = 30.0, 1.1  # seconds before a run's own clock starts; times what is expected of it


@dataclass(kw_only=True)
class TimeLeft:
    """Of a command that is to end, as on a machine that is lent: a run is begun only where it would end, too.

    Attributes:
        seconds: of the command, from now on.
        minutes: that a run takes, by those that are done when it is asked; None where nothing tells: it is begun.
        left: the runs that were not begun.
    """

    seconds: float
    minutes: Callable[[Run], float | None] = lambda _: None
    left: list[Run] = field(default_factory=list)
    since: float = field(default_factory=lambda: time.monotonic())

    def fits(self, run: Run) -> bool:
        """Whether a run that begins now would end; one that would not is `left`."""
        if self.seconds == math.inf:  # what a run takes is asked of every run that is done
            return True
        minutes = self.minutes(run)
        end = time.monotonic() + (0 if minutes is None else START + SLACK * 60 * minutes)
        if end <= self.since + self.seconds:
            return True
        self.left.append(run)
        return False

    def check(self) -> None:
        """Raise ConfigError if runs are left."""
        if self.left:
            raise ConfigError(
                f"{counted(len(self.left), 'run')} would not have ended in --seconds {self.seconds:g}: "
                "try the same command again, which goes on"
            )


def composer(folders: Sequence[Path]) -> Compose:
    """Composes overrides with the options of these folders, too; Hydra must be initialized when it does."""

    @cache  # a composition takes a fifth of a second, and the list of tables asks for some hundred
    def composed(*overrides: str) -> DictConfig:
        return hydra_compose("train", [*overrides, *search_path(folders)])

    return lambda overrides: composed(*overrides)


def this_device(overrides: list[str]) -> tuple[bool, str]:
    """Whether runs train on a CPU here, and the device's name."""
    import torch  # late: mistakes are answered without it

    from contrastive.distributed.hardware import device_name

    on_cpu = "device=cpu" in overrides or not torch.cuda.is_available()
    return on_cpu, device_name(torch.device("cpu" if on_cpu else "cuda"))


def default_jobs(gpus: Sequence[str], on_cpu: bool) -> int:
    """One run on each GPU; without any one on each core: two of one thread train more than one of two threads."""
    return n_cores() if on_cpu else max(1, len(gpus))


def run_here(
    runs: Sequence[Run],
    *,
    compose: Compose,
    folders: Sequence[Path],
    n_parallel: int,
    gpus: Sequence[str] = (),
    say: Callable[[int, int, Run, object], None] | None = None,
    time_left: TimeLeft | None = None,
) -> dict[Run, str]:
    """Do runs in processes of this machine, each writing what it prints to its log; returns why one failed.

    Args:
        folders: of components of one's own.
        n_parallel: processes at a time.
        gpus: that they are spread over.
        say: told of each that ends, see `print_end`, which is the default.
        time_left: leaves out runs that would not end in it; None = all are done.
    """
    failed: dict[Run, str] = {}
    # composed when its process starts: a table of a hundred runs begins at once
    fitting = (run for run in runs if time_left is None or time_left.fits(run))
    tasks = (_Task(compose(run.overrides), run, tuple(folders)) for run in fitting)
    imports = slow_imports(compose(runs[0].overrides)) if runs else []
    done = run_in_processes(tasks, n_parallel=n_parallel, gpus=gpus, imports=imports)
    for count, (task, failure) in enumerate(done, start=1):
        (say or print_end)(count, len(runs), task.run, failure)
        if failure is not None:
            failed[task.run] = str(failure)
    return failed


def slow_imports(cfg: DictConfig) -> list[str]:
    """Modules that the data of a run takes a second to import."""
    return ["sklearn.datasets"] if cfg.dataset["_target_"].endswith("digits") else []


def print_end(count: int, n: int, run: Run, failure: object) -> None:
    """Print that a run, the count-th of n, is done, or why not."""
    result = read_result(run.path)  # none of a dry run
    took = f" in {clock(60 * minutes_of(result))}" if result else ""
    said = f"done{took}" if failure is None else f"FAILED, see {run.log}: {failure}"
    print(f"[{count}/{n}] {run}: {said}", flush=True)


@dataclass(frozen=True)
class _Task:
    """One run in a process of its own; returns why it failed, None when it is done."""

    cfg: DictConfig
    run: Run
    folders: tuple[Path, ...]

    def __call__(self) -> str | None:
        with locked(self.run.path / ".lock"):  # a process of a killed command may be saving this very run
            pass
        log = os.open(self.run.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        print("python train.py", shlex.join([*self.run.overrides, f"hydra.run.dir={self.run.path}"]), flush=True)
        try:
            with importable([Path.cwd(), *self.folders]):
                settings = checked_settings(self.cfg, self.run.overrides)
                from contrastive.experiment.run import run_experiment  # late: importing torch takes seconds

                if self.run.stage:
                    _check_point(settings, self.run.path)
                run_experiment(settings, self.run.path, self.run.overrides)
            return None
        except Exception as error:
            if (sentence := user_message(error)) is None:
                traceback.print_exc()
            else:
                print(f"error: {sentence}", file=sys.stderr)
            return sentence or f"{type(error).__name__}: {error}"
        finally:
            sys.stdout.flush()


def _check_point(settings: Settings, path: Path) -> None:
    """Write failure.json where a loss refuses the point of a search, and raise its error: the trial of a comparison has
    accepted the settings that it comes with, so another try of the same point ends alike."""
    from contrastive.experiment.components import build_loss, build_one  # late: importing torch takes seconds
    from contrastive.loss.base import Loss

    try:
        for term in (build_loss(settings.loss), build_one("regularizer", settings.regularizer, Loss)):
            if term is not None:
                term.check_config(batch_size=settings.batch_size)
    except Exception as error:
        write_text(path / FAILURE, json.dumps({"reason": user_message(error) or in_a_line(error)}, indent=1))
        raise


def minutes_of(result: dict[str, Any]) -> float:
    """How long a run took."""
    return float(result["time"]["seconds"]) / 60


def merge_overrides(*groups: Sequence[str]) -> tuple[str, ...]:
    """The overrides of all groups in order; of several for one key the last one stays.

    Settings of evaluators that an `evaluator=[...]` among them leaves out go with them.
    """
    merged = {key_of(word): word for group in groups for word in group}
    if "evaluator" in merged:
        chosen = re.findall(r"\w+", merged["evaluator"].partition("=")[2])
        left_out = [key for key in merged if key.startswith("evaluator.") and key.split(".")[1] not in chosen]
        merged = {key: word for key, word in merged.items() if key not in left_out}
    return tuple(merged.values())
