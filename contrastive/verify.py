"""Recompute hashes and figures of a finished run: python -m contrastive.verify RUN"""

import sys

from contrastive.program.verify import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
