"""A page of what a finished run learned and what it gets wrong.

    python -m contrastive show outputs/digits/nt_xent/default/seed=0
    python -m contrastive show RUN dataset.root=PATH            the images lie elsewhere now

It has a map of the features, nearest neighbors, which class is taken for which, groups of class and bias with their
intervals, the worst images, the curves. The images are read and encoded again.

    -o FILE.html          the page; default: RUN/show.html
"""

from dataclasses import replace
from pathlib import Path

from contrastive.config.arguments import Parser, answering, html_file
from contrastive.config.words import DATASET_PATHS
from contrastive.errors import ConfigError
from contrastive.files import write_text
from contrastive.run.files import run_below
from contrastive.run.run import Run, read_finished
from contrastive.text import as_typed, show


@answering
def main(words: list[str]) -> int:
    """Write the page and print its path; returns the exit code."""
    parser = Parser("show", __doc__)
    parser.add_argument("words", metavar="RUN", nargs="+", help="a run directory, and dataset.root=PATH")
    parser.add_argument("-o", dest="page", metavar="FILE.html", type=html_file, help="the page to write")
    parser.add_argument("--device", default="auto", help="as in train.py; default: auto")
    parser.add_config_dir()
    options = parser.parse_intermixed_args(words)
    moved = {key: path for key, _, path in (word.partition("=") for word in options.words) if key in DATASET_PATHS}
    typed = [Path(word) for word in options.words if word.partition("=")[0] not in DATASET_PATHS]
    if len(typed) != 1:
        runs = " ".join(as_typed(run) for run in typed) or "RUN ..."
        raise ConfigError(f"show takes one run, got {len(typed)}: try contrastive page page.html {runs}")
    run = with_paths(read_finished(run_below(typed[0])), moved)

    from contrastive.gallery.run import run_page  # late: importing torch takes seconds

    page = options.page or run.path / "show.html"
    write_text(page, run_page(run, device=options.device, folders=options.folders))
    show(f"page to look at: {as_typed(page)}")
    return 0


def with_paths(run: Run, moved: dict[str, str]) -> Run:
    """A run, its images at other places: whether they are the same images is found when they are read.

    Args:
        moved: {dataset.root: PATH} and so on.

    Raises:
        ConfigError: the run's dataset has no such path.
    """
    node = run.config["dataset"]
    paths = {key.removeprefix("dataset."): str(Path(path).expanduser()) for key, path in moved.items()}
    if other := paths.keys() - node.keys():
        raise ConfigError(f"the run's dataset has no dataset.{min(other)}: try dataset.root=PATH")
    return replace(run, config={**run.config, "dataset": {**node, **paths}})
