"""Draw a metric of several runs: python scripts/figures.py OUT.png METRIC TITLE NAME=RUN_DIRECTORY ..."""

import sys
from pathlib import Path

from contrastive.report.figures import draw

if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    out, key, title, *named = sys.argv[1:]
    runs: dict[str, Path] = {}
    for word in named:
        name, _, path = word.partition("=")
        if not (Path(path) / "metrics.jsonl").exists():  # a path has an = of its own: NAME may have been forgotten
            sys.exit(f"error: {path} is no run directory: try NAME={word if Path(word).exists() else 'PATH'}")
        runs[name] = Path(path)
    draw(runs, key, title, Path(out))
