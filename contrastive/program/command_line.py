"""Command line of train.py: error messages, exit codes, the table at the end of a sweep.

Exit codes: 0 done, 1 an unexpected error (with its traceback) or a failed job of a sweep, 2 a configuration error,
130 Ctrl-C, 143 SIGTERM.
"""

import contextlib
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from contrastive.errors import ConfigError
from contrastive.program import malloc
from contrastive.program.messages import user_message
from contrastive.report.sweep import Job, sweep_table

FLAGS_WITH_A_VALUE = (
    "--config-dir",
    "-cd",
    "--config-path",
    "-cp",
    "--config-name",
    "-cn",
    "--package",
    "-p",
    "--cfg",
    "-c",
)


class CommandLine:
    """Runs the task function of train.py; turns its errors into messages and exit codes."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []

    def job(self, task: Callable[[Any], dict[str, Any]]) -> Callable[[Any], float | None]:
        """Decorate the task function: record how each job of a sweep went, and let the next one run.

        The value returned is for searches: the `search_metric` on the validation images.
        """

        @functools.wraps(task)
        def wrapped(cfg: Any) -> float | None:
            if HydraConfig.get().mode == RunMode.MULTIRUN:
                return self._sweep_job(task, cfg)
            try:
                task(cfg)
            except Exception as error:  # as SystemExit: Hydra prints a message of its own for any other exception
                raise SystemExit(_report(error)) from None
            finally:
                _remove_if_empty()
            return None

        return wrapped

    def start(self, main: Callable[[], Any]) -> int:
        """Run the program and return its exit code."""
        malloc.reexec_with_tuned_malloc()
        sys.argv[1:] = flags_first(sys.argv[1:])
        os.environ["HYDRA_FULL_ERROR"] = "1"  # so that errors arrive here instead of being printed by Hydra
        try:
            main()
            sys.stdout.flush()
            return 0
        except KeyboardInterrupt as error:
            signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # Ctrl-C again ends at once
            signum = error.args[0] if error.args else signal.SIGINT  # see distributed.signals.Stop
            cause = "interrupted" if signum == signal.SIGINT else f"ended by {signal.Signals(signum).name}"
            print(f"\n{cause}: the same command again (without rerun=true) goes on from here", file=sys.stderr)
            return 128 + int(signum)
        except Exception as error:
            return 1 if self._jobs else _report(error)
        finally:
            if any(job.result or job.failure for job in self._jobs):
                print(sweep_table(self._jobs))

    def _sweep_job(self, task: Callable[[Any], dict[str, Any]], cfg: Any) -> float | None:
        record = Job(list(HydraConfig.get().overrides.task), Path(HydraConfig.get().runtime.output_dir))
        self._jobs.append(record)
        try:
            record.result = task(cfg)
        except Exception as error:
            record.failure = user_message(error) or f"{type(error).__name__}: {error}"
            print(f"failed: {record.failure}", file=sys.stderr)
            if user_message(error) is None:
                traceback.print_exc()
            raise
        finally:
            _remove_if_empty()
        if not record.result:  # a dry run
            return None
        metrics = record.result["val"]
        if cfg.search_metric not in metrics:
            known = next(iter(metrics), "linear_top1")
            raise ConfigError(f"this run has no validation metric {cfg.search_metric}: try search_metric={known}")
        return float(metrics[cfg.search_metric])


def flags_first(words: list[str]) -> list[str]:
    """The command line with its flags before its overrides: Hydra's parser takes overrides in one piece only."""
    flags: list[str] = []
    overrides: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        (flags if word.startswith("-") else overrides).append(word)
        if word in FLAGS_WITH_A_VALUE and rest:
            flags.append(rest.pop(0))
    return [*flags, *overrides]


def _report(error: Exception) -> int:
    """Print one sentence for an error that the user can fix, the traceback otherwise; returns the exit code."""
    if isinstance(error, BrokenPipeError):  # the reader has ended, as in `train.py --help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        return 1
    message = user_message(error)
    if message is None:
        traceback.print_exception(error)
        return 1
    if os.environ.get("RANK", "0") == "0":  # of several processes only the main one prints
        print(f"error: {message}", file=sys.stderr)
    return 2


def _remove_if_empty() -> None:
    """Remove the run directory, which Hydra makes early, after an error or a dry run that left it empty."""
    with contextlib.suppress(OSError, ValueError):
        path = Path(HydraConfig.get().runtime.output_dir)
        path.rmdir()
        for parent in path.relative_to(Path.cwd() / "outputs").parents:  # only folders that the naming of runs made
            (Path.cwd() / "outputs" / parent).rmdir()
