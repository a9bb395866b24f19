"""`python -m contrastive.doctor`: one page about this machine, exit code 1 if something stands in a run's way."""

import sys

from contrastive.cli.doctor import CHECKS, examine

if __name__ == "__main__":
    sys.exit(examine(CHECKS))
