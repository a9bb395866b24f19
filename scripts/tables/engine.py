"""Run a table of a paper or of a study and print it beside published figures; without a table, list them all.

    python scripts/reproduce_table.py digits --preset smoke     the same: make reproduce-table TABLE=digits PRESET=smoke
    python scripts/reproduce_table.py --verify studies          recompute kept tables and comparisons from their records
    python scripts/reproduce_table.py --retrain RECORD.json dataset.root=IMAGES     train its first run: the same bits?
    python scripts/reproduce_table.py --reword studies          update the words of kept tables from their YAML
    python scripts/reproduce_table.py --page OUT.html studies   show kept tables and comparisons

Every (row, seed) is a run directory of train.py; overrides of your own go to every row. Runs that are done are skipped
and interrupted ones go on, so the same command may be given again: with --seconds 840 a table fills over many short
allocations of a machine. The table is written as Markdown, CSV, LaTeX, JSON and HTML.
Exit codes: 0 done, 1 a run failed or a kept table differs, 2 a wrong override, runs left by --seconds, missing data
with --strict, 130 Ctrl-C.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra import initialize_config_dir

from contrastive.config import CONFIGS
from contrastive.config.arguments import Parser, answering, html_file
from contrastive.config.messages import user_message
from contrastive.config.words import did_you_mean, quote_paths
from contrastive.distributed.hardware import gpus_for, reproducibly
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.run.files import read_result
from contrastive.run.run import Run
from contrastive.study.jobs import Compose, TimeLeft, composer, default_jobs, run_here, this_device
from contrastive.study.record import read_compared
from contrastive.study.render.files import check_folder, record_files
from contrastive.text import counted, show
from tables import kept
from tables.due import (
    dataset_node,
    expected_minutes,
    finished_minutes,
    is_done,
    missing_of,
    runs_of,
    tables_text,
)
from tables.page import html, table_record, write_pages
from tables.retrain import retrain
from tables.spec import PRESETS, Table, config_dirs, read_table, table_paths

BASE = Path("outputs") / "table"


@answering
def main(words: list[str]) -> int:
    """Run the command on its words; returns the exit code."""
    parser = Parser("", __doc__)
    parser.prog = "python scripts/reproduce_table.py"
    parser.add_argument("table", nargs="?", metavar="TABLE", help="name of the table; without one, all are listed")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="as in train.py, for every row")
    parser.add_argument("--preset", default="paper", help=f"{', '.join(PRESETS)}: how much of it; default: paper")
    parser.add_argument("--seeds", type=int, metavar="N", help="seeds 0 ... N - 1 instead of the table's")
    parser.add_side_by_side()
    parser.add_argument("--strict", action="store_true", help="missing data is an error")
    for flag in ("--verify", "--reword", "--page"):
        parser.add_argument(flag, type=Path, nargs="+", metavar="PATH", help="see above")
    parser.add_argument("--retrain", type=Path, metavar="RECORD", help="see above; KEY=VALUE says where images are")
    parser.add_argument("--static", action="store_true", help="draw the charts of --page now: no script inside")
    parser.add_config_dir()
    arguments = parser.parse_intermixed_args(words)
    if arguments.verify:
        return verify(arguments.verify)
    if arguments.reword:
        return kept.reword(arguments.reword)
    if arguments.page:
        return show_kept(*arguments.page, static=arguments.static)
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        if arguments.retrain:
            return retrain(arguments.retrain, [word for word in (arguments.table, *arguments.overrides) if word])
        return list_tables(arguments) if arguments.table is None else reproduce(arguments)


def verify(places: list[Path]) -> int:
    """Recompute what is kept: tables here, comparisons as `contrastive verify` does; returns 1 if one differs."""
    done = [kept.check_tables(places), *(check_folder(place, unsealed=True) for place in places)]
    n, wrong = sum(count for count, _ in done), [said for _, own in done for said in own]
    if not n:
        raise ConfigError(f"no record in {', '.join(map(str, places))}: try --verify studies")
    for sentence in wrong:
        show(sentence, file=sys.stderr)
    print(f"{n} tables and comparisons recomputed, {len(wrong)} differ")
    return 1 if wrong else 0


def show_kept(out: Path, *places: Path, static: bool) -> int:
    """Write a page of kept tables and comparisons."""
    found = (read_compared(path) for place in places for path in record_files(place))
    if not (records := [record for record in found if record is not None]):
        raise ConfigError(f"no record to show on {out}: try --page page.html studies")
    write_text(html_file(str(out)), html(records, static=static))
    print(f"{out}: {counted(len(records), 'table')}, {out.stat().st_size / 2**20:.1f} MB")
    return 0


def list_tables(arguments: argparse.Namespace) -> int:
    """Print what there is, what is done, and what is missing."""
    on_cpu, device = this_device([])
    tables = [read_table(path, n_seeds=arguments.seeds) for path in table_paths(arguments.folders).values()]
    n_parallel = max(arguments.jobs, 0) or default_jobs(gpus_for([]), on_cpu)
    composed = composer([*arguments.folders, *config_dirs(*tables)])
    print(tables_text(tables, BASE, device=device, on_cpu=on_cpu, n_parallel=n_parallel, compose=composed))
    print(f"\n{device}, {n_parallel} runs at a time. Run one: make reproduce-table TABLE=digits PRESET=smoke")
    return 0


def reproduce(arguments: argparse.Namespace) -> int:
    """Run what is not done of a table, and write its pages."""
    paths = table_paths(arguments.folders)
    if arguments.table not in paths:
        near = did_you_mean(arguments.table, paths)
        known = f": {near}" if near else f", known are {', '.join(paths)}:"
        raise ConfigError(f"there is no table {arguments.table}{known} try make reproduce-table TABLE=digits")
    own = tuple(quote_paths(arguments.overrides))
    table = read_table(paths[arguments.table], preset=arguments.preset, n_seeds=arguments.seeds, extra=own)
    fixed = reproducibly(word for row in table.rows for word in row.overrides)
    rows = [replace(row, overrides=(*fixed, *row.overrides)) if row.overrides else row for row in table.rows]
    table = replace(table, rows=tuple(rows))
    base, folders = BASE / table.folder, [*arguments.folders, *config_dirs(table)]
    composed = composer(folders)
    on_cpu, device = this_device(arguments.overrides)
    runs, stated = runs_of(table, base), {row.name: row.minutes for row in table.rows}
    time_left = TimeLeft(
        seconds=arguments.seconds, minutes=lambda run: expected_minutes(run, finished_minutes(runs, device), stated)
    )
    due = [run for run in runs if not is_done(run, composed, folders)]
    unavailable = unavailable_data(due, composed)
    blocked = {run for these in unavailable.values() for run in these}
    gpus = gpus_for(arguments.overrides)
    n_parallel = max(arguments.jobs, 0) or default_jobs(gpus, on_cpu)
    print(f"{len(runs) - len(due)} of {len(runs)} runs are done, {n_parallel} at a time", flush=True)
    failed = run_here(
        [run for run in due if run not in blocked],
        compose=composed,
        folders=folders,
        n_parallel=n_parallel,
        gpus=gpus,
        time_left=time_left,
    )
    exit_code = conclude(
        table, base, runs, list(failed), unavailable, compose=composed, folders=folders, strict=arguments.strict
    )
    time_left.check()
    return exit_code


def unavailable_data(runs: list[Run], composed: Compose) -> dict[str, list[Run]]:
    """{sentence: runs} of data that is missing and that no download brings; downloads happen here, one by one."""
    unavailable = {}
    for sentence, blocked in missing_of(runs, composed).items():
        from contrastive.experiment.components import instantiate_node  # late: importing torch takes seconds

        try:
            instantiate_node(dataset_node(composed(blocked[0].overrides)))
        except Exception as error:
            if user_message(error) is None:
                raise
            unavailable[sentence] = blocked
    return unavailable


def conclude(
    table: Table,
    base: Path,
    runs: list[Run],
    failed: list[Run],
    unavailable: dict[str, list[Run]],
    *,
    compose: Compose,
    folders: Sequence[Path],
    strict: bool,
) -> int:
    """Write and print the page, say what failed, return the exit code."""
    others = [run for run in runs if read_result(run.path) is not None and not is_done(run, compose, folders)]
    record = table_record(table, base, leave_out=[run.path for run in others])
    text = write_pages(record, base)
    print(f"\n{text}\n\nwritten to {base}.md, .csv, .tex and .json")
    write_html(record, base)
    for sentence, blocked in unavailable.items():
        print(f"{sentence} ({len(blocked)} runs left out)", file=sys.stderr)
    for run in others:
        holds = "holds a run with other settings, data or code of yours"
        print(f"left out: {run}: {run.path} {holds}: try removing it", file=sys.stderr)
    for run in failed:
        print(f"failed: {run}: see {run.log}", file=sys.stderr)
    if failed:
        return 1
    return 2 if strict and unavailable else 0


def write_html(record: dict[str, Any], base: Path) -> None:
    """Write the page; without its charting library say what to install: the runs and the table are done."""
    path = base.with_name(f"{base.name}.html")
    try:
        write_text(path, html([record]))
        print(f"page to look at: {path}")
    except ConfigError as error:
        print(f"no page was written: {error}", file=sys.stderr)
