"""`python -m contrastive.verify ...`: the same as `contrastive verify ...`."""

import sys

from contrastive.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["verify", *sys.argv[1:]]))
