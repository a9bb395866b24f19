"""Evaluate finished runs: python -m contrastive.evaluate RUN [RUN ...] 'evaluator=[knn,linear]' [dataset=NAME]"""

import signal
import sys

from contrastive.cli.evaluate import main

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end silently when the reader does, as in `... | head`
    sys.exit(main(sys.argv[1:]))
