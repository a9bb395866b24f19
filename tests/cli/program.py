"""The program, called in this process."""

import contextlib
import io
import os
import warnings
from pathlib import Path

import train
from contrastive.config import compose
from contrastive.experiment import components
from tests.helpers import BARE

SMALL = [*BARE, "encoder=resnet18_narrow", "epochs=1", "batch_size=64"]
DRY = [*SMALL, "evaluator=[knn]", "dry_run=true", "hydra.run.dir=run"]  # naming a run composes once more


def call(words: list[str], folder: Path, out: io.StringIO | None = None) -> tuple[int, str]:
    """Run the program on these words in `folder`: (exit code, its stderr); what it prints goes to `out`."""
    compose._defaults.cache_clear()
    components._load_data.cache_clear()
    out, err, before = out or io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = train.main(words)
    finally:
        os.chdir(before)
    return code, err.getvalue()
