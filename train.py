"""Pretrain an encoder with a contrastive loss and evaluate it: compose → build → pretrain → evaluate → result.json.

python train.py loss=debiased_pos tau_plus=0.1
python train.py -m loss=nt_xent,debiased_neg,debiased_pos seed=0,1,2
python train.py --help
"""

import sys

try:
    from contrastive.cli.train import main
except ModuleNotFoundError as error:
    from contrastive.errors import without_package

    raise without_package(error) from None

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
