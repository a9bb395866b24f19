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

import contrastive.config.naming  # noqa: F401  registers the resolver that names run directories
from contrastive.cli.train import CommandLine, trusted_modules
from contrastive.config.paths import CONFIGS
from contrastive.experiment.job import run_job

command_line = CommandLine()


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="train")
@command_line.job
def run(cfg: DictConfig) -> dict[str, Any]:
    hydra_config = HydraConfig.get()
    sources = hydra_config.runtime.config_sources
    folders = [Path(source.path) for source in sources if source.provider == "command-line"]  # --config-dir
    path = Path(hydra_config.runtime.output_dir)
    return run_job(cfg, hydra_config.overrides.task, path, trusted=trusted_modules(), folders=folders)


def main(words: list[str]) -> int:
    """Run the program on the words of a command line; returns the exit code."""
    return command_line.start(run, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
