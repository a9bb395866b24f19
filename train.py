"""Pretrain an encoder with a contrastive loss and evaluate it: compose → build → pretrain → evaluate → result.json.

    python train.py loss=debiased_pos tau_plus=0.1
    python train.py -m loss=nt_xent,debiased_neg,debiased_pos seed=0,1,2
    python train.py --help
"""

import sys
import time
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from contrastive import command_line
from contrastive.settings import settings, unread


def run(cfg: dict[str, Any], path: Path) -> dict[str, Any]:
    """One run of a resolved configuration in the directory `path`, from wherever it stands there to its result."""
    from contrastive.build import build  # only here: importing torch takes seconds, and a mistake is answered at once
    from contrastive.environment import describe
    from contrastive.pretrain import fit
    from contrastive.report import summary
    from contrastive.run import Run

    since = time.perf_counter()
    built = build(cfg)
    trainer, encoder, evaluator = built.trainer, built.trainer.encoder, built.evaluator
    environment = describe(built.device, config=cfg, precision=built.precision, data=built.data_hash,
                           facts=evaluator.data.facts)
    with Run(path, config=cfg, environment=environment, rerun=cfg["rerun"]) as run:
        if run.result is not None:
            summary.already_done(run, cfg["probe"]["shots"])
            return run.result
        summary.heading(built, run)
        state = run.restore(built.device)
        spent = 0.0 if state is None else state["seconds"]
        if state is None:
            untrained = evaluator.everything(encoder).test
            run.log(0, 0, summary.named("test", untrained))
        else:
            untrained = state["untrained"]
            trainer.load(state)
            print(f"resuming after epoch {state['epoch']} of {trainer.epochs}")

        def monitor(epoch: int) -> dict[str, float]:
            every = cfg["knn"]["every"]
            return summary.named("test", evaluator.nearest(encoder)) if every and epoch % every == 0 else {}

        fit(trainer, built.loader, run, state=state, monitor=monitor,
            keep=lambda: {"untrained": untrained, "seconds": spent + time.perf_counter() - since},
            log_every=cfg["log_every"], checkpoint_every=cfg["checkpoint_every"])
        trained = evaluator.everything(encoder, trainer.objective.classifier)
        run.log(trainer.epochs * len(built.loader), trainer.epochs,
                {**summary.named("test", trained.test), **summary.flat("audit", trained.audit)})
        for kind, cosines in trained.cosines.items():
            run.histogram(trainer.epochs * len(built.loader), f"similarity/{kind}", cosines)
        result = {"status": "done", "test": trained.test, "val": trained.val, "untrained": untrained,
                  "audit": trained.audit, "protocol": evaluator.protocol(),
                  "time": {"seconds": spent + time.perf_counter() - since}}
        run.finish(result, encoder)
        summary.finished(run, environment, cfg["probe"]["shots"])
        return result


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
@command_line.job
def main(cfg: DictConfig) -> dict[str, Any]:
    plain = settings(cfg)
    for knob in unread(cfg, HydraConfig.get().overrides.task):
        print(f"warning: nothing reads {knob} here, so {knob}={plain[knob]} changes nothing")
    return run(plain, Path(HydraConfig.get().runtime.output_dir))


if __name__ == "__main__":
    sys.exit(command_line.start(main))
