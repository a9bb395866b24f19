"""Sweeps: which launcher runs the jobs, and how each of them went."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict

from contrastive.config.compose import search_path, take_config_dirs
from contrastive.config.messages import user_message
from contrastive.config.paths import CONFIGS
from contrastive.distributed.cores import gpus_for, n_cores
from contrastive.errors import ConfigError
from contrastive.listing.places import places
from contrastive.run.files import read_result
from contrastive.run.provenance import ADDED
from contrastive.study.jobs import Run, dataset_node

COMPARE = "hydra/sweeper=compare"  # whose jobs are those of a sweep
PLACES = ("dataset.root", "dataset.test", "data_root")  # where data lie, which no run's name tells whole


def check_places(words: Sequence[str]) -> None:
    """Refuse a sweep over places of data in which two jobs would be one run.

    Raises:
        ConfigError: they have one directory and other files.
    """
    folders, others = take_config_dirs(list(words))
    typed = [word for word in others if "=" in word and not word.startswith("-")]
    is_named = any(word.startswith(("hydra/sweeper=", "hydra.sweep.")) for word in typed)
    if is_named or not any(word.startswith(PLACES) and "," in word for word in typed):
        return
    parsed = OverridesParser.create().parse_overrides(typed)
    taken: dict[str, str] = {}
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        for job in product(*map(_values, parsed)):
            cfg = compose("train", [*job, *search_path(folders)], return_hydra_config=True)
            with open_dict(cfg):
                cfg.hydra.job.config_name = "train"  # which hydra.main sets, and the naming of runs reads
            found = ", ".join(place["path"] for place in places(dataset_node(cfg)).values())
            if taken.setdefault(cfg.hydra.run.dir, found) != found:
                raise ConfigError(
                    f"{taken[cfg.hydra.run.dir]} and {found} would be one run, {cfg.hydra.run.dir}: "
                    "try a command for each, with a dataset.name=NAME of its own"
                )


def _values(word: Override) -> list[str]:
    """The words that a word of a sweep stands for; of other settings than PLACES one: a sweep is a product."""
    is_discrete = word.is_sweep_override() and word.is_discrete_sweep()
    values = list(word.sweep_string_iterator()) if is_discrete else [word.get_value_element_as_str()]
    return [f"{word.get_key_element()}={value}" for value in values][: None if word.key_or_group in PLACES else 1]


def choose_launcher(overrides: Sequence[str]) -> list[str]:
    """The override `hydra/launcher=cores` for a sweep on several GPUs, or without a GPU on several cores; else none.

    Two runs of one thread each end sooner than one after the other with two threads: 1.3 to 1.5 times on two cores. A
    sweep keeps Hydra's own launcher, one run after the other in one process, on a single GPU, for `devices` and
    `device=cuda:N`, and when a launcher or a sweeper is chosen. `hydra.launcher.n_jobs` asks for several at a time.
    """
    from hydra_plugins.contrastive_launcher import CoresLauncher  # late: only the process that starts a sweep needs it

    Plugins.instance().register(CoresLauncher)  # Hydra itself finds plugins only in folders of sys.path
    if COMPARE in overrides:
        from hydra_plugins.contrastive_sweeper import CompareSweeper  # late: it needs all of study/

        Plugins.instance().register(CompareSweeper)
        overrides = [word for word in overrides if word != COMPARE]
    chosen = ("hydra/launcher=", "hydra/sweeper=", "devices=", "device=cuda:")
    if any(word.startswith(chosen) for word in overrides):
        return []
    is_asked_for = any(word.startswith("hydra.launcher.n_jobs=") for word in overrides)
    return ["hydra/launcher=cores"] if is_asked_for or (len(gpus_for(overrides)) or n_cores()) > 1 else []


class RecordJobs(Callback):
    """Adds every job that ends on this machine to a file, also from other processes.

    Args:
        path: the file; jobs on a machine that lacks it go unrecorded.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        hydra, failure = config.hydra, None
        try:
            _ = job_return.return_value
        except Exception as error:
            failure = user_message(error, words=list(hydra.overrides.task)) or f"{type(error).__name__}: {error}"
        job = {
            "number": hydra.job.num,
            # as typed: what follows the seed, as in "data/${seed}", is one setting
            "overrides": OmegaConf.to_container(hydra.overrides.task),
            "path": hydra.runtime.output_dir,
            "failure": failure,
        }
        if self.path.exists():
            with self.path.open("a") as file:
                file.write(json.dumps(job) + "\n")


def record_jobs(path: Path) -> list[str]:
    """The overrides with which the jobs of a sweep are recorded in a file."""
    return [f"{ADDED}._target_={RecordJobs.__module__}.{RecordJobs.__name__}", f"{ADDED}.path='{path}'"]


def read_jobs(path: Path) -> dict[Run, str]:
    """The recorded runs that ended, in the order of the sweep, and why each failed; empty for one that is done.

    A dry run has neither a result nor a failure, and is left out.
    """
    lines = sorted(map(json.loads, path.read_text().splitlines()), key=lambda line: int(line["number"]))
    runs = {Run(overrides=tuple(line["overrides"]), path=Path(line["path"])): line["failure"] or "" for line in lines}
    return {run: failure for run, failure in runs.items() if failure or read_result(run.path) is not None}
