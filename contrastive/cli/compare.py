"""Is my loss really better? Search every contestant equally, train the winners with fresh seeds, and judge them.

    contrastive compare loss=nt_xent,debiased_pos dataset=digits
    contrastive compare loss=nt_xent,my_loss --config-dir mine dataset.root=PATH searches=8 budget=8 seeds=3

Comma lists make the contestants; every other setting of train.py is common to all. Ranges replace what is searched:
'temperature=interval(0.05,1)'. More contestants: rows="{pushed: 'loss=nt_xent loss.push=2'}".

    budget=12      points of a search for each contestant, the default settings among them
    finalists=2    of them get two more seeds; 0: none do
    seeds=8        final runs of each contestant, on all training images
    searches=1     from five on verdicts are about the methods, with one about the settings that it chose
    metric=knn_top1  by which settings are chosen and contestants judged; or linear_top1
    margin=1       points within which two contestants are equal
    pairs=first    each against the first contestant; all: every pair
    dry_run=true   say what it would take, and stop

The same command goes on where it was interrupted; docs/compare.md has the protocol.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from hydra import initialize_config_dir

from contrastive.cli.table import composer, default_jobs, this_device
from contrastive.config.arguments import Parser, answering
from contrastive.config.compose import importable, take_config_dirs
from contrastive.config.identity import key_of
from contrastive.config.paths import CONFIGS
from contrastive.distributed.cores import gpus_for
from contrastive.distributed.streams import keep_printing
from contrastive.study.compare.engine import announcement, conclude, contest_of, run_all
from contrastive.study.compare.plan import read_plan
from contrastive.study.compare.stages import Run
from contrastive.study.jobs import run_jobs
from contrastive.text import show


@answering
def main(words: list[str]) -> int:
    """Run the command on its words; returns the exit code, 1 if a run failed for a reason that is not its own."""
    folders, words = take_config_dirs(words)
    parser = Parser("compare", __doc__, usage="KEY=VALUE[,VALUE ...] [KEY=VALUE ...] [--config-dir DIR] [--jobs N]")
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="as above")
    parser.add_argument(
        "--jobs", type=int, default=-1, metavar="N", help="runs at a time; -1, the default: one on each GPU or core"
    )  # fmt: skip
    parser.add_argument("--config-dir", metavar="DIR", help="YAMLs and modules of your own, as of train.py")
    arguments = parser.parse_intermixed_args(words)
    keep_printing()
    typed, is_dry = _without_dry_run(arguments.words)
    plan = read_plan(typed)
    with initialize_config_dir(str(CONFIGS), version_base="1.3"), importable([Path.cwd(), *folders]):
        contest = contest_of(plan, folders)
        on_cpu, device = this_device(list(plan.common))
        gpus = gpus_for(list(plan.common))
        n_parallel = max(arguments.jobs, 0) or default_jobs(gpus, on_cpu)
        show(announcement(contest, folders, n_parallel=n_parallel, device=device))
        if is_dry:
            return 0
        composed = composer(folders)

        def launch(runs: Sequence[Run]) -> list[str]:
            failed = run_jobs(runs, compose=composed, folders=folders, n_parallel=n_parallel, gpus=gpus)
            for one in failed:
                if one.is_refused:
                    contest.fail(one.job, one.reason)
            return [f"failed: {one.job}: {one.reason}" for one in failed if not one.is_refused]

        crashed = run_all(contest, launch)
    if crashed:
        print("\n".join([*crashed, "the same command again goes on with what is not done"]), file=sys.stderr)
        return 1
    show(conclude(contest))
    return 0


def _without_dry_run(words: Sequence[str]) -> tuple[list[str], bool]:
    kept = [word for word in words if key_of(word) != "dry_run"]
    return kept, any(word == "dry_run=true" for word in words)
