"""The program behind `python -m contrastive.evaluate`."""

import sys

from contrastive.program.evaluation_words import read_words
from contrastive.program.flags import take_config_dirs
from contrastive.program.job import importable
from contrastive.program.messages import user_message

HELP = """Evaluate finished runs again, without training.

    python -m contrastive.evaluate RUN [RUN ...] [KEY=VALUE ...]

RUN is a run directory, or a folder with finished runs below it. The encoder is read from encoder.safetensors; nothing
of the run is changed. The figures are written to RUN/evaluation/<name>.json and printed as a table.

    'evaluator=[knn,linear]'      the evaluators; those of train.py if not given
    evaluator.knn.k=50            their settings; those of the run if not given
    dataset=cifar10               another dataset: transfer. Its images get the side that the run was trained on
                                  (dataset.size=N: another) and are standardized with its training statistics
    rerun=true                    evaluate again what is done already
    device=cuda  data_root=PATH   as of train.py
    --config-dir mine             YAMLs and modules of your own, as of train.py
"""


def main(words: list[str]) -> int:
    """Evaluate and print; returns the exit code: 0 done, 1 an unexpected error, 2 a mistake of the user, 130 Ctrl-C."""
    if {"-h", "--help"} & set(words):
        print(HELP, end="")
        return 0
    try:
        folders, words = take_config_dirs(words)
        requests = read_words(words, folders=folders)
        from contrastive.program.evaluate_runs import evaluate_runs  # late: importing torch takes seconds

        with importable(folders):
            print(evaluate_runs(requests, folders=folders))
    except KeyboardInterrupt:
        print("\ninterrupted: the same command again goes on with what is not done", file=sys.stderr)
        return 130
    except Exception as error:
        message = user_message(error)
        if message is None:
            raise
        message = message.replace("python train.py --help", "python -m contrastive.evaluate --help")
        print(f"error: {message}", file=sys.stderr)
        return 2
    return 0
