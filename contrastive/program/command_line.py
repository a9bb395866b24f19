"""How the program meets its user: run directories named by content, refusals as one sentence, a table after a sweep.

Exit codes: 0 done, 1 an unexpected error (with its traceback) or a failed job of a sweep, 2 a refusal, 130 Ctrl-C.
"""

import contextlib
import functools
import hashlib
import os
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, InstantiationException
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from contrastive.errors import ConfigError
from contrastive.program import malloc
from contrastive.program.configs import options
from contrastive.program.settings import FREE
from contrastive.report.sweep import Job, table

LONGEST = 120  # characters of a directory's name


def run_name(dataset: str, loss: str, overrides: list[str], seed: int) -> str:
    """`dataset/loss/changed settings/seed=N`: the same settings always name the same directory.

    What a file name cannot hold, or is too long, is replaced and told apart by a hash. Settings that do not change
    the result have no part in the name.
    """
    left_out = {"dataset", "loss", "seed", *FREE} - {"dataset.root"}
    kept = sorted(
        item.lstrip("+") for item in overrides if item.lstrip("+~").split("=", 1)[0].split("@")[0] not in left_out
    )
    full = ",".join(kept) or "default"
    clean = re.sub(r"[^\w.,=+-]+", "-", full)[:LONGEST]
    if clean != full:
        clean += "-" + hashlib.sha256(full.encode()).hexdigest()[:8]
    return f"{dataset}/{loss}/{clean}/seed={seed}"


OmegaConf.register_new_resolver("run_name", run_name, replace=True)
_jobs: list[Job] = []
_failures: list[Exception] = []


def job(task: Callable[[Any], dict[str, Any]]) -> Callable[[Any], float | None]:
    """Decorate the task function: remember how each job of a sweep went, and let the next one run.

    What is returned is for searches: the `search_metric` on the validation images.
    """

    @functools.wraps(task)
    def wrapped(cfg: Any) -> float | None:
        if HydraConfig.get().mode != RunMode.MULTIRUN:
            try:
                task(cfg)
                _remove_if_empty()
            except Exception as error:  # raised again by start: Hydra would print its own account of it first
                _failures.append(error)
                _remove_if_empty()
            return None
        record = Job(list(HydraConfig.get().overrides.task), Path(HydraConfig.get().runtime.output_dir))
        _jobs.append(record)
        try:
            record.result = task(cfg)
        except Exception as error:
            record.failure = sentence(error) or f"{type(error).__name__}: {error}"
            print(f"failed: {record.failure}", file=sys.stderr)
            if sentence(error) is None:
                traceback.print_exc()
            _remove_if_empty()
            raise
        _remove_if_empty()
        if not record.result:  # a dry run
            return None
        found = record.result["val"].get(cfg.search_metric)
        if found is None:
            raise ConfigError(
                f"a run without a classifier trained along has no {cfg.search_metric} to search by: "
                "try search_metric=linear_top1"
            )
        return found

    return wrapped


def start(main: Callable[[], Any]) -> int:
    """Run the program and return its exit code."""
    malloc.tune()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that errors arrive here instead of being printed by Hydra
    try:
        main()
        for error in _failures:
            raise error
        return 0
    except KeyboardInterrupt:
        print(
            "\ninterrupted: the same command again (without rerun=true) goes on after the last whole epoch",
            file=sys.stderr,
        )
        return 130
    except Exception as error:
        said = sentence(error)
        if _jobs:
            return 1
        if said is None:
            raise
        if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
            print(f"error: {said}", file=sys.stderr)
        return 2
    finally:
        if "contrastive.distributed.process" in sys.modules:
            sys.modules["contrastive.distributed.process"].shutdown()
        if any(job.result or job.failure for job in _jobs):
            print(table(_jobs))


def sentence(error: BaseException) -> str | None:
    """What to tell the user, or None when it is not the user's to mend."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    for link in chain:
        if isinstance(link, ConfigError):
            return str(link)
    if isinstance(error, ValueError) and "Config group override must be" in str(error):
        return "a group needs one of its options, not null: try python train.py --help"
    if not isinstance(error, HydraException | OmegaConfBaseException):
        return None
    if isinstance(error, InstantiationException):
        binding = isinstance(chain[-1], TypeError) and re.search(r"unexpected keyword|missing \d+ req", str(chain[-1]))
        if not binding and not isinstance(chain[-1], ImportError):
            return None  # a bug in what was being built: its traceback says more
        return f"{' '.join(str(chain[-1]).split())}: try python train.py --cfg job"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    unknown = re.search(r"Could not (?:override|append|delete)[^']*'([^']+)'", lines[0]) if lines else None
    if unknown and "accumul" in unknown[1]:
        return (
            "plain gradient accumulation is another loss, whose anchors see the negatives of their own piece only: "
            "try grad_cache_chunk=128, which has the whole batch's gradient"
        )
    if unknown:
        return f"there is no setting {unknown[1]}: try python train.py --cfg job to see them all"
    for plugin, extra in (("submitit", "slurm"), ("ray", "ray"), ("optuna", "search")):
        if re.search(rf"Could not (find|load) 'hydra/\w+/{plugin}", lines[0]) if lines else None:
            return f"{plugin} is not installed: try pip install -e '.[{extra}]'"
    choice = re.search(r"Could not find '([^/']+)/([^']+)'", lines[0]) if lines else None
    if choice:
        names = options(choice[1])
        known = f", known are {', '.join(names)}" if names else ""
        return f"there is no {choice[1]}={choice[2]}{known}: try python train.py --help"
    last = chain[-1]
    return f"{' '.join(lines[:1])} {'' if last is error else last}".strip() + ": try python train.py --cfg job"


def _remove_if_empty() -> None:
    """Leave no empty run directory, which Hydra makes early, behind a refusal or a dry run."""
    with contextlib.suppress(OSError, ValueError):
        path = Path(HydraConfig.get().runtime.output_dir)
        path.rmdir()
        for parent in path.relative_to(Path.cwd() / "outputs").parents:  # those our own naming made
            (Path.cwd() / "outputs" / parent).rmdir()
