"""TensorBoard of every run below some folders, each called by what tells it from the others.

    contrastive tensorboard [FOLDER ...] [--port 6006] [--host HOST]      default: outputs

Runs that start later appear within half a minute. `tensorboard --logdir outputs` shows the same runs by their paths.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from contrastive.config.arguments import Parser, answering
from contrastive.config.identity import dataset_name, flatten, option_name
from contrastive.errors import ConfigError
from contrastive.run.files import RunState, files_below, run_state
from contrastive.study.names import told_apart, typed_words, without_shared

EVERY = 30.0  # seconds between looks for new runs
LONGEST = 200  # letters of a folder's name


@answering
def main(words: list[str]) -> int:
    """Start TensorBoard on links to the runs; returns its exit code."""
    parser = Parser("tensorboard", __doc__)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("outputs")], metavar="FOLDER")
    parser.add_argument("--port", default="6006")
    parser.add_argument("--host", default="localhost")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="contrastive-") as name:
        links = Path(name)
        if not link(given.folders, links):
            raise ConfigError(f"no run under {', '.join(map(str, given.folders))}: try python train.py first")
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", name]
        server = subprocess.Popen([*command, "--port", given.port, "--host", given.host])
        try:
            while True:
                try:
                    return server.wait(EVERY)
                except subprocess.TimeoutExpired:
                    link(given.folders, links)
        finally:
            server.terminate()
            server.wait()


def link(folders: list[Path], links: Path) -> dict[str, Path]:
    """Make `links` hold a link to each run with event files, and nothing else; returns {name: run}."""
    paths = dict.fromkeys(event.parent.resolve() for folder in folders for event in files_below(folder, "events.*"))
    known = {path: state for path in paths if (state := run_state(path)).config}
    names = dict(zip(short_names(known), known, strict=True))
    for old in links.iterdir():
        if old.name not in names or old.resolve() != names[old.name]:
            old.unlink()
    for name, path in names.items():
        if not (links / name).exists():
            (links / name).symlink_to(path, target_is_directory=True)
    return names


def short_names(runs: dict[Path, RunState]) -> list[str]:
    """What was typed for each run and not for all; no two are equal.

    The data set and the seed are named where they differ.
    """
    if not runs:
        return []
    configs = [flatten(state.config) | {"run": str(path)} for path, state in runs.items()]
    datasets = [dataset_name(option_name(s.config["dataset"]["_target_"]), s.config["dataset"]) for s in runs.values()]
    words = [
        (*typed_words(state.environment.get("overrides") or [], config["loss._target_"]),
         f"dataset={dataset}", f"seed={config['seed']}")
        for state, config, dataset in zip(runs.values(), configs, datasets, strict=True)
    ]  # fmt: skip
    names, _ = without_shared(words)
    return [re.sub(r"[/\0]", "-", name)[-LONGEST:] for name in told_apart(names, configs)]
