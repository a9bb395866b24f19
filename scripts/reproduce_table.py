"""Run a table of configs/table beside its published figures: see contrastive/cli/table.py."""

import sys

from contrastive.cli.table import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
