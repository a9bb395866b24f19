"""Command line of train.py: error messages, exit codes, the table at the end of a sweep.

Exit codes: 0 done, 1 an unexpected error (with its traceback) or a failed job of a sweep, 2 a configuration error,
130 Ctrl-C.
"""

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from contrastive.errors import ConfigError
from contrastive.program.composition import checked_composition
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

    def start(self, main: Callable[[], Any], words: list[str]) -> int:
        """Run the program on the words of a command line and return its exit code."""
        self._jobs.clear()
        os.environ["HYDRA_FULL_ERROR"] = "1"  # so that errors arrive here instead of being printed by Hydra
        try:
            with command_line_of(checked_flags(words)), checked_composition():
                main()
            sys.stdout.flush()
            return 0
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 0
        except KeyboardInterrupt:
            print(
                "\ninterrupted: the same command again (without rerun=true) continues after the last whole epoch",
                file=sys.stderr,
            )
            return 130
        except Exception as error:
            return 1 if any(job.failure for job in self._jobs) else _report(error)
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


@contextmanager
def command_line_of(words: list[str]) -> Iterator[None]:
    """Give Hydra these words to read, which it takes from sys.argv."""
    before = sys.argv
    sys.argv = [before[0], *words]
    try:
        yield
    finally:
        sys.argv = before


def checked_flags(words: list[str]) -> list[str]:
    """The words in the order that Hydra's parser understands.

    Raises:
        ConfigError: a flag that does not exist, lacks its value, or unpickles a file.
    """
    words = flags_first(words)
    if any("pkg://" in word for word in words):
        raise ConfigError("pkg:// would import a package: try --config-dir with a folder")
    parser = get_args_parser()
    setattr(parser, "error", _refuse_flag)  # noqa: B010  argparse prints its usage and exits
    if parser.parse_args(words).experimental_rerun is not None:
        raise ConfigError("--experimental-rerun would load a pickle, which can run anything: try typing the settings")
    return words


def _refuse_flag(message: str) -> NoReturn:
    raise ConfigError(f"{message}: try python train.py --help")


def flags_first(words: list[str]) -> list[str]:
    """The command line with its flags before its overrides: Hydra's parser takes overrides in one piece only.

    Raises:
        ConfigError: a flag at the end lacks its value.
    """
    flags: list[str] = []
    overrides: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        (flags if word.startswith("-") else overrides).append(word)
        if word in FLAGS_WITH_A_VALUE:
            if not rest:
                raise ConfigError(f"{word} needs a value after it: try python train.py --help")
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
