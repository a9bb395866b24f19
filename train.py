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

import contrastive.program.naming  # noqa: F401  registers the resolver that names run directories
from contrastive.program.command_line import CommandLine
from contrastive.program.job import run_job

command_line = CommandLine()


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
@command_line.job
def main(cfg: DictConfig) -> dict[str, Any]:
    return run_job(cfg, HydraConfig.get().overrides.task, Path(HydraConfig.get().runtime.output_dir))


if __name__ == "__main__":
    sys.exit(command_line.start(main))
