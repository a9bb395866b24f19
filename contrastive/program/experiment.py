"""The program: one run, from a resolved configuration to its result."""

import json
import time
from pathlib import Path
from typing import Any

from contrastive.distributed import process as distributed
from contrastive.distributed.launch import launch
from contrastive.program import summary
from contrastive.program.build import build
from contrastive.program.dry_run import project
from contrastive.run.directory import Run, opened
from contrastive.run.environment import describe
from contrastive.training.loop import fit


def run(cfg: dict[str, Any], path: Path) -> dict[str, Any]:
    """One run of a resolved configuration in the directory `path`, from wherever it stands there to its result.

    Returns what result.json holds, or nothing from a dry run.
    """
    since = time.perf_counter()
    if cfg["devices"] > 1 and not distributed.is_launched():
        launch(cfg["devices"], run, cfg, path)
        return {} if cfg["dry_run"] else json.loads((path / "result.json").read_text())
    distributed.init(cfg["device"])
    built = build(cfg)
    if cfg["dry_run"]:
        print(project(built, knn_every=cfg["knn"]["every"]))
        return {}
    trainer, encoder, evaluator = built.trainer, built.trainer.encoder, built.evaluator
    environment = describe(
        built.device, config=cfg, precision=built.precision, data=built.data_hash, facts=evaluator.data.facts
    )
    with opened(path, config=cfg, environment=environment, rerun=cfg["rerun"]) as directory:
        if directory.result is not None:
            if isinstance(directory, Run):
                summary.already_done(directory, cfg["probe"]["shots"])
            return directory.result
        if isinstance(directory, Run):
            summary.heading(built, directory)
        state = directory.restore()
        spent = 0.0 if state is None else state["seconds"]
        if state is None:
            untrained = distributed.broadcast_from_main(lambda: evaluator.everything(encoder).test)
            directory.log(0, 0, summary.named("test", untrained))
        else:
            untrained = state["untrained"]
            trainer.load(state)
            print(f"resuming after epoch {state['epoch']} of {trainer.epochs}")

        def monitor(epoch: int) -> dict[str, float]:
            due = cfg["knn"]["every"] and epoch % cfg["knn"]["every"] == 0 and isinstance(directory, Run)
            return summary.named("test", evaluator.nearest(encoder)) if due else {}

        fit(
            trainer,
            built.loader,
            directory,
            state=state,
            monitor=monitor,
            keep=lambda: {"untrained": untrained, "seconds": spent + time.perf_counter() - since},
            log_every=cfg["log_every"],
            checkpoint_every=cfg["checkpoint_every"],
        )

        def conclude() -> dict[str, Any]:
            assert isinstance(directory, Run)
            trained = evaluator.everything(encoder, trainer.objective.classifier)
            step = trainer.epochs * len(built.loader)
            directory.log(
                step, trainer.epochs, {**summary.named("test", trained.test), **summary.flat("audit", trained.audit)}
            )
            for kind, cosines in trained.cosines.items():
                directory.histogram(step, f"similarity/{kind}", cosines)
            result = {
                "status": "done",
                "test": trained.test,
                "val": trained.val,
                "untrained": untrained,
                "audit": trained.audit,
                "protocol": evaluator.protocol(),
                "time": {"seconds": spent + time.perf_counter() - since},
            }
            directory.finish(result, encoder)
            summary.finished(directory, environment, cfg["probe"]["shots"])
            return result

        return distributed.broadcast_from_main(conclude)
