"""Recompute hashes and figures of a finished run: python -m contrastive.verify RUN"""

import signal
import sys

from contrastive.cli.verify import main

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end silently when the reader does, as in `... | head`
    sys.exit(main(sys.argv[1:]))
