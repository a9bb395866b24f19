"""`python -m contrastive.evaluate ...`: the same as `contrastive evaluate ...`."""

import sys

from contrastive.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["evaluate", *sys.argv[1:]]))
