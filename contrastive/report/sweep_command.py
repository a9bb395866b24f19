"""Print a table of finished runs, mean ± std over seeds, a row for each combination of the settings that differ."""

import argparse
from pathlib import Path

from contrastive.errors import ConfigError
from contrastive.report.jobs import find_jobs
from contrastive.report.sweep import sweep_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER")


def run(arguments: argparse.Namespace) -> int:
    jobs, repeated = find_jobs(arguments.folders)
    if not jobs:
        raise ConfigError(f"no finished run under {', '.join(map(str, arguments.folders))}: try python train.py first")
    print("\n".join([sweep_table(jobs), *repeated]))
    return 0
