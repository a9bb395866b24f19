"""Run a table of configs/table beside its published figures, or check kept ones: see scripts/tables/engine.py."""

import sys

from tables.engine import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
