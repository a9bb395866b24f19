"""Draw a metric of several runs: python scripts/figures.py OUT.png METRIC TITLE NAME=RUN_DIRECTORY ..."""

import sys
from pathlib import Path

from contrastive.report.figures import draw

if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    out, key, title, *named = sys.argv[1:]
    draw({name: Path(path) for name, _, path in (word.partition("=") for word in named)}, key, title, Path(out))
