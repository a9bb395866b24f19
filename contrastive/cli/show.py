"""A page of what a finished run learned and what it gets wrong; of two runs, which images one gets right.

    python -m contrastive show outputs/digits/nt_xent/default/seed=0
    python -m contrastive show RUN RUN2 -o difference.html

One run: a map of the features, nearest neighbors, which class is taken for which, groups of class and bias with their
intervals, the worst images, the curves. The images are read and encoded again. Two runs on the same data: the images
that one gets right and the other wrong, as their results record them.

    -o FILE.html          the page; default: RUN/show.html
"""

from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.run.files import finished_state, run_below
from contrastive.text import as_typed, show


@answering
def main(words: list[str]) -> int:
    """Write the page and print its path; returns the exit code."""
    parser = Parser("show", __doc__)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="a run directory, or the second one, too")
    parser.add_argument("-o", dest="page", metavar="FILE.html", type=Path, help="the page to write")
    parser.add_argument("--device", default="auto", help="as in train.py; default: auto")
    parser.add_config_dir()
    options = parser.parse_intermixed_args(words)
    if len(options.runs) > 2:
        raise ConfigError(f"show takes one run or two, got {len(options.runs)}: try contrastive page PAGE.html RUN ...")
    runs = {run: finished_state(run) for run in map(run_below, options.runs)}
    if len(runs) < len(options.runs):
        raise ConfigError(f"both runs are {options.runs[0]}: try another one beside it")

    from contrastive.gallery.pair import pair_page  # late: importing torch takes seconds
    from contrastive.gallery.run import run_page

    path, state = next(iter(runs.items()))
    if len(runs) == 2:
        text = pair_page(runs, folders=options.folders)
    else:
        text = run_page(path, state, device=options.device, folders=options.folders)
    page = options.page or path / "show.html"
    write_text(page, text)
    show(f"page to look at: {as_typed(page)}")
    return 0
