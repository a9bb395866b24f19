"""Pretrain an encoder with a contrastive loss and evaluate it: compose → build → pretrain → evaluate → result.json.

python train.py loss=debiased_pos tau_plus=0.1
python train.py -m loss=nt_xent,debiased_neg,debiased_pos seed=0,1,2
python train.py --help
"""

import sys
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from contrastive.program import command_line
from contrastive.program.settings import settings, unread


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
@command_line.job
def main(cfg: DictConfig) -> dict[str, Any]:
    plain = settings(cfg)
    for knob in unread(cfg, HydraConfig.get().overrides.task):
        print(f"warning: nothing reads {knob} here, so {knob}={plain[knob]} changes nothing")
    from contrastive.program.experiment import (
        run,
    )  # only here: importing torch takes seconds, and a mistake is answered at once

    return run(plain, Path(HydraConfig.get().runtime.output_dir))


if __name__ == "__main__":
    sys.exit(command_line.start(main))
