"""Evaluate finished runs: python -m contrastive.evaluate RUN [RUN ...] 'evaluator=[knn,linear]' [dataset=NAME]"""

import signal
import sys

from contrastive.cli.evaluate import main
from contrastive.experiment import malloc

if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end silently when the reader does, as in `... | head`
    malloc.reexec_with_tuned_malloc()
    sys.exit(main(sys.argv[1:]))
