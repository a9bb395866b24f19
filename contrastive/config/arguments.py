"""One style of --help, one form of error and the same exit codes for every command that Hydra does not parse."""

import math
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import NoReturn

from contrastive.distributed.signals import explain_stop, stop_signals
from contrastive.errors import ConfigError


class Parser(ArgumentParser):
    """A parser that keeps the lines of its description, and whose errors are one sentence.

    Args:
        command: as it is typed after `python -m contrastive`, such as `report`.
        description: one sentence, and what else there is to say.
        usage: the words after the command; that of argparse if None.

    Raises:
        ConfigError: by `parse_args`, for words that it does not know.
    """

    def __init__(self, command: str, description: str, *, usage: str | None = None) -> None:
        prog = f"python -m contrastive {command}"
        super().__init__(
            prog=prog,
            usage=f"{prog} {usage}" if usage else None,
            description=description.strip(),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def add_config_dir(self) -> None:
        """Take --config-dir, also several times, into `folders`."""
        self.add_argument(
            "--config-dir", "-cd", type=_folder, action="append", default=[], dest="folders", metavar="DIR",
            help="folder with YAMLs and modules of your own, as in train.py",
        )  # fmt: skip

    def add_side_by_side(self) -> None:
        """Take --jobs and --seconds, of commands that start several runs."""
        self.add_argument(
            "--jobs", type=int, default=-1, metavar="N", help="runs at a time; -1, the default: one on each GPU or core"
        )  # fmt: skip
        self.add_argument(
            "--seconds", type=float, default=math.inf, metavar="N", help="begin no run that would not end in N seconds"
        )  # fmt: skip

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}: try {self.prog} --help")


def html_file(name: str) -> Path:
    """A page that a command writes: a run, a table or a folder in its place is never overwritten.

    Raises:
        ConfigError: the name is that of another file.
    """
    if Path(name).suffix.lower() not in (".html", ".htm") or Path(name).is_dir():
        raise ConfigError(f"a page is written to a file that ends in .html, got {name}: try page.html")
    return Path(name)


def _folder(name: str) -> Path:
    if not name or not Path(name).is_dir():
        raise ConfigError(f"--config-dir needs a folder, got {name!r}: try --config-dir mine")
    return Path(name).resolve()


def answering(main: Callable[[list[str]], int]) -> Callable[[list[str]], int]:
    """A command that ends with an exit code: 0 done, 2 a mistake that is told in one sentence, 130 Ctrl-C, 143
    SIGTERM or SIGUSR1.

    What else it returns stands in its docstring. Errors that the user cannot fix pass, and exit with 1.
    """

    @wraps(main)
    def answer(words: Sequence[str]) -> int:
        try:
            with stop_signals():
                return main(list(words))
        except SystemExit as end:  # of --help
            return end.code if isinstance(end.code, int) else 0
        except KeyboardInterrupt as stop:
            said, code = explain_stop(stop)
            print(f"\n{said}: run the same command again to continue", file=sys.stderr)
            return code
        except Exception as error:
            from contrastive.config.messages import user_message  # late: it needs Hydra, --help does not

            if (message := user_message(error, words=words, place="another folder")) is None:
                raise
            print(f"error: {message}", file=sys.stderr)
            return 2

    return answer
