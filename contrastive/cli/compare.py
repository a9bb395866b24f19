"""Is my loss really better? Search every contestant equally, train the winners with fresh seeds, and judge them.

    contrastive compare loss=nt_xent,debiased_pos dataset=digits
    contrastive compare loss=nt_xent,my_loss --config-dir mine dataset.root=PATH searches=8 budget=8 seeds=3

Comma lists make the contestants; every other setting of train.py is common to all. Ranges replace what is searched:
'temperature=interval(0.05,1)'. More contestants: rows="{pushed: 'loss=nt_xent loss.push=2'}"; a row may have ranges.
One loss alone is tuned: contrastive compare loss=nt_xent
dataset=digits,mnist,cifar10 compares on each, and gives one verdict over all of them.

    budget=auto    points of a search for each contestant: 8 x (knobs + 1) of the one with most; or a number
    seeds=8        final runs of each contestant, on all training images
    searches=1     how often all of it is repeated
    metric=knn_top1  by which settings are chosen and contestants judged; or linear_top1
    margin=1       points within which two contestants are equal
    dry_run=true   say what it would take, and stop

The same command goes on where it was interrupted; with --seconds 840 it fills many short allocations of a machine.
docs/compare.md has the protocol.
"""

import sys

from contrastive.config.arguments import Parser, answering
from contrastive.config.words import quote_paths
from contrastive.study.compare.engine import run_comparison
from contrastive.study.compare.progress import answer
from contrastive.text import show


@answering
def main(words: list[str]) -> int:
    """Run the command on its words; returns the exit code, 1 if a run failed for a reason that is not its own."""
    parser = Parser(
        "compare", __doc__, usage="KEY=VALUE[,VALUE ...] [KEY=VALUE ...] [--config-dir DIR] [--jobs N] [--seconds N]"
    )
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE", help="as above")
    parser.add_side_by_side()
    parser.add_config_dir()
    arguments = parser.parse_intermixed_args(words)
    asked = ("dry_run=true", "dry_run=false")
    chosen = [word for word in arguments.words if word.lower() not in asked]
    is_dry = asked[0] in map(str.lower, arguments.words)
    typed = quote_paths(["-m", *chosen])[1:]  # as in a sweep, a comma separates values
    contests, not_done = run_comparison(
        typed, folders=arguments.folders, n_jobs=arguments.jobs, seconds=arguments.seconds, dry_run=is_dry
    )
    if not_done:
        said = [*not_done, "there is no verdict before these runs are done: run the same command again"]
        show("\n".join(said), file=sys.stderr)
        return 1
    if not is_dry:
        show(answer(contests))
    return 0
