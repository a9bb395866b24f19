"""`contrastive train` and train.py: Hydra around `run_experiment`, an error as one sentence, a sweep's table.

Exit codes: 0 done, 1 an unexpected error (with its traceback) or a failed job of a sweep, 2 a configuration error,
130 Ctrl-C, 143 SIGTERM or SIGUSR1.
"""

import contextlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from contrastive.cli.help import explain  # the module also gives Hydra the middle of its --help
from contrastive.cli.sweep import COMPARE, choose_launcher, read_jobs, record_jobs, sweep_table
from contrastive.config import CONFIGS
from contrastive.config.compose import config_dirs, importable
from contrastive.config.messages import in_a_line, user_message
from contrastive.config.settings import Settings, checked_settings
from contrastive.config.words import check_words, quote_paths
from contrastive.distributed.signals import explain_stop, stop_signals
from contrastive.errors import ConfigError, check_encoding
from contrastive.experiment.summary import show_finished
from contrastive.listing.places import check_root
from contrastive.text import show


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="train")
def run(cfg: DictConfig) -> None:
    """One run, also one of a sweep."""
    hydra_config = HydraConfig.get()
    path, overrides = Path(hydra_config.runtime.output_dir), list(hydra_config.overrides.task)
    sources = hydra_config.runtime.config_sources
    folders = [Path(source.path) for source in sources if source.provider.endswith("command-line")]  # of --config-dir
    try:
        with importable([Path.cwd(), *folders]):
            settings = checked_settings(cfg, overrides)
            # torchrun's processes say it once
            if "RANK" in os.environ or show_finished(settings, path) is None:
                check_present(settings)
                from contrastive.experiment.run import run_experiment  # late: torch takes seconds

                run_experiment(settings, path, overrides)
    except Exception as error:
        code = _report(error, overrides)
        if hydra_config.mode == RunMode.MULTIRUN:
            raise  # the next job runs
        raise SystemExit(code) from None  # Hydra prints a line of its own for any other exception
    finally:
        _remove_empty(path)


def check_present(settings: Settings) -> None:
    """Raise ConfigError for a folder that is missing: before torch, which takes seconds."""
    *_, kind, function = str(settings.dataset["_target_"]).split(".")
    if function in ("image_folder", "shards") and kind == function:
        check_root(function, settings.dataset.get("root"), settings.dataset.get("size"))


def main(words: list[str]) -> int:
    """Run the program on the words of a command line; returns its exit code."""
    check_encoding()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that Hydra raises its errors instead of printing them
    try:
        if {"-h", "--help"}.intersection(words) and (text := explain(words)):
            print(text, flush=True)
            return 0
        check_words(words)
        words = quote_paths(words)
        if len(folders := config_dirs(words)[0]) > 1:  # Hydra takes the last alone
            raise ConfigError(f"train.py takes one --config-dir: try hydra.searchpath=[file://{folders[0]}] beside it")
    except Exception as error:
        return _report(error, words, composing=True)
    if {"-m", "--multirun"}.isdisjoint(words):
        return _start(words)
    with tempfile.NamedTemporaryFile(prefix="contrastive-sweep-") as file:
        records = Path(file.name)
        code = _start([*words, *record_jobs(records), *choose_launcher(words)], records)
        runs = read_jobs(records)
    if runs and COMPARE not in words:  # which has said more than a table
        show(sweep_table(runs))
    return code


def flags_first(words: list[str]) -> list[str]:
    """The flags before the overrides, which Hydra's parser takes in one piece only."""
    return sorted(words, key=lambda word: word.startswith("~") or ("=" in word and not word.startswith("-")))


def _start(words: list[str], records: Path | None = None) -> int:
    """Let Hydra do what the words say; returns the exit code. A failed job of a sweep has said why already."""
    typed, sys.argv = sys.argv, ["train.py", *flags_first(words)]  # Hydra reads it; `contrastive train` is the same
    try:
        with stop_signals():
            run()
        sys.stdout.flush()
        if "RANK" in os.environ:  # by torchrun: NCCL warns of a group that nobody destroyed
            from contrastive.distributed.process import shutdown  # late: it imports torch

            shutdown()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt as stop:
        said, code = explain_stop(stop)
        print(f"\n{said}: run the same command again (without rerun=true) to continue from here", file=sys.stderr)
        return code
    except Exception as error:
        return 1 if records and any(read_jobs(records).values()) else _report(error, words, composing=True)
    finally:
        sys.argv = typed
    return 0


def _report(error: Exception, words: Sequence[str], *, composing: bool = False) -> int:
    """Print one sentence for an error that the user can fix, the traceback otherwise; returns the exit code.

    Args:
        words: as typed.
        composing: Hydra raised it before there was a run, for odd words or YAMLs in whatever way.
    """
    if isinstance(error, BrokenPipeError):  # the reader has ended, as in `train.py --help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it ends
        return 1
    message = user_message(error, words=words)
    if message is None and composing:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        message = f"cannot compose the configuration ({reason}): try python train.py --help"
    if message is None:
        traceback.print_exception(error)
        print(f"error: {in_a_line(error)}", file=sys.stderr)
        return 1
    if os.environ.get("RANK", "0") == "0" or "WORLD_SIZE" not in os.environ:  # of several only the main one prints
        print(f"error: {message}", file=sys.stderr)
    return 2


def _remove_empty(path: Path) -> None:
    """Remove the folders below outputs/ that Hydra made for a run which left them empty, as a mistake does."""
    outputs = Path.cwd() / "outputs"
    with contextlib.suppress(OSError):
        for folder in (path, *(parent for parent in path.parents if parent.is_relative_to(outputs))):
            folder.rmdir()
