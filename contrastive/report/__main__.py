"""Tables, pages and comparisons of finished runs.

    python -m contrastive.report table FOLDER ... [--format md|csv|latex] [--sort METRIC]
    python -m contrastive.report best FOLDER ... [--metric linear_top1]
    python -m contrastive.report compare RUN RUN ... [-o compare.md]
    python -m contrastive.report page OUT.html RUN_OR_TABLE ...   one file with tables, claims and curves

`table` may be left out. python -m contrastive.report COMMAND --help lists what a command takes.
"""

import inspect
import signal
import sys

from contrastive.config.arguments import Parser, answering
from contrastive.report import compare, listing, page

COMMANDS = {
    "table": (listing.add_table_arguments, listing.print_table),
    "best": (listing.add_best_arguments, listing.print_best),
    "compare": (compare.add_arguments, compare.print_comparison),
    "page": (page.add_arguments, page.run),
}


@answering
def main(words: list[str]) -> int:
    """Run a command and return the exit code; words that begin with none are those of `table`."""
    if words in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    name, rest = (words[0], words[1:]) if words and words[0] in COMMANDS else ("table", words)
    add_arguments, run = COMMANDS[name]
    parser = Parser(f".report {name}", inspect.cleandoc(run.__doc__ or page.__doc__ or ""))
    add_arguments(parser)
    return run(parser.parse_args(rest))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end silently when the reader does, as in `... | head`
    sys.exit(main(sys.argv[1:]))
