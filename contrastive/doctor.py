"""`python -m contrastive.doctor ...`: the same as `contrastive doctor ...`."""

import sys

from contrastive.__main__ import main

if __name__ == "__main__":
    sys.exit(main(["doctor", *sys.argv[1:]]))
