"""Command line of train.py: error messages, exit codes, the table at the end of a sweep.

Exit codes: 0 done, 1 an unexpected error (with its traceback) or a failed job of a sweep, 2 a configuration error,
130 Ctrl-C, 143 SIGTERM.
"""

import contextlib
import functools
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from contrastive.cli.sweep import choose_launcher, describe, is_sweep, read_jobs, record_jobs
from contrastive.config.compose import checked_composition, checked_flags, command_line_of
from contrastive.config.messages import user_message
from contrastive.config.targets import typed_trust
from contrastive.errors import ConfigError
from contrastive.report.sweep import sweep_table

STARTED = time.time()
TRUSTED = "CONTRASTIVE_TRUSTED"  # environment variable: what is typed, whatever YAMLs add to the configuration
BASIC_SWEEPER = "hydra._internal.core_plugins.basic_sweeper.BasicSweeper"


def trusted_modules() -> list[str]:
    """The modules that the command line vouches for, in the processes of a sweep, too."""
    return os.environ.get(TRUSTED, "").split()


class CommandLine:
    """Runs the task function of train.py; turns its errors into messages and exit codes."""

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

    def start(self, main: Callable[[], Any], words: list[str]) -> int:
        """Run the program on the words of a command line and return its exit code."""
        os.environ["HYDRA_FULL_ERROR"] = "1"  # so that errors arrive here instead of being printed by Hydra
        os.environ[TRUSTED] = " ".join(typed_trust(words))
        if not is_sweep(words):
            return _exit_code(main, words)
        with tempfile.NamedTemporaryFile(prefix="contrastive-sweep-") as file:
            records = Path(file.name)
            code = _exit_code(main, [*words, *choose_launcher(words), *record_jobs(records)], records)
            jobs = [job for job in read_jobs(records) if job.result or job.failure]
        if jobs:
            print(sweep_table(jobs), flush=True)
        return code

    def _sweep_job(self, task: Callable[[Any], dict[str, Any]], cfg: Any) -> float | None:
        try:
            return _search_value(task(cfg), cfg.search_metric)
        except Exception as error:
            print(f"failed: {describe(error)}", file=sys.stderr)
            if user_message(error) is None:
                traceback.print_exc()
            raise
        finally:
            _remove_if_empty()


def _exit_code(main: Callable[[], Any], words: list[str], records: Path | None = None) -> int:
    """Run the program; a failed job of a sweep has said so already."""
    try:
        with command_line_of(checked_flags(words)), checked_composition():
            main()
        sys.stdout.flush()
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt as error:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # Ctrl-C again ends at once
        signum = error.args[0] if error.args else signal.SIGINT  # see distributed.signals.Stop
        cause = "interrupted" if signum == signal.SIGINT else f"ended by {signal.Signals(signum).name}"
        print(f"\n{cause}: the same command again (without rerun=true) goes on from here", file=sys.stderr)
        return 128 + int(signum)
    except Exception as error:
        failed = records is not None and any(job.failure for job in read_jobs(records))
        return 1 if failed else _report(error)


def _search_value(result: dict[str, Any], metric: str) -> float | None:
    """What a search maximizes; None for other sweeps and for a dry run.

    Raises:
        ConfigError: the run has no such validation metric.
    """
    if HydraConfig.get().sweeper._target_ == BASIC_SWEEPER or not result:
        return None
    if not result["val"]:
        raise ConfigError(
            "this run has no validation figure to search by: its images have no labels, or no evaluator looks "
            "at validation images: try 'evaluator=[linear]' and a labeled dataset"
        )
    if metric not in result["val"]:
        known = next(iter(result["val"]))
        raise ConfigError(f"this run has no validation metric {metric}: try search_metric={known}")
    return float(result["val"][metric])


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
    """Remove the run directory, which Hydra makes early, after an error or a dry run that left it empty.

    An empty folder that was there before is not Hydra's.
    """
    with contextlib.suppress(OSError, ValueError):
        path = Path(HydraConfig.get().runtime.output_dir)
        if path.stat().st_mtime < STARTED:
            return
        path.rmdir()
        for parent in path.relative_to(Path.cwd() / "outputs").parents:  # only folders that the naming of runs made
            (Path.cwd() / "outputs" / parent).rmdir()
