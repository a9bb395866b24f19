"""Evaluate finished runs: python -m contrastive.evaluate RUN [RUN ...] 'evaluator=[knn,linear]' [dataset=NAME]"""

import sys

from contrastive.program.evaluate_command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
