"""Find finished runs in any folders, and the settings in which they differ."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.report.sweep import Job
from contrastive.run.files import read_config, read_environment, read_result
from contrastive.run.identity import identity

MAP_KEYS = {"seed", "dataset.data_seed", "data"}


def find_jobs(folders: list[Path]) -> tuple[list[Job], list[str]]:
    """Every finished run under the folders, each with the settings in which the runs differ.

    A setting that only some runs have, such as another loss's, is left out where all that have it agree. Runs on
    different data never share a row, except where every run draws its bias map with its own seed. A run that is there
    twice (equal settings, seed and data) counts once.

    Returns:
        the runs, and a sentence for each that was left out.
    """
    runs: dict[str, tuple[Path, dict[str, Any]]] = {}
    repeated = []
    for path in sorted({path.parent for folder in folders for path in folder.rglob("result.json")}):
        if read_result(path) is None:
            repeated.append(f"{path} holds a damaged result.json and is not counted")
            continue
        try:
            config = {**identity(read_config(path)), "data": read_environment(path)["data"][:8]}
        except ConfigError as error:
            repeated.append(f"{error}; the run is not counted")
            continue
        first, _ = runs.setdefault(json.dumps(config, sort_keys=True), (path, config))
        if first != path:
            repeated.append(f"{path} repeats {first} (equal settings, seed and data) and is not counted")
    configs = join_maps([config for _, config in runs.values()])
    keys = sorted({key for config in configs for key in config})
    shown = [key for key in keys if len({str(config[key]) for config in configs if key in config}) > 1]
    jobs = [
        Job([as_word(key, config[key]) for key in shown if key in config], path, read_result(path))
        for (path, _), config in zip(runs.values(), configs, strict=True)
    ]
    return jobs, repeated


def join_maps(configs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out the data's hash and `data_seed` of runs that all draw their bias map with their own seed.

    Their data differs as their seeds do: it belongs to the spread over seeds. Runs that share a seed and differ in
    their data keep both.
    """
    rest = [json.dumps({k: v for k, v in c.items() if k not in MAP_KEYS}, sort_keys=True) for c in configs]
    seeds = Counter((key, config["seed"]) for key, config in zip(rest, configs, strict=True))
    fixed = {
        key
        for key, config in zip(rest, configs, strict=True)
        if config.get("dataset.data_seed") != config["seed"] or seeds[key, config["seed"]] > 1
    }
    return [
        config if key in fixed else {k: v for k, v in config.items() if k not in MAP_KEYS - {"seed"}}
        for key, config in zip(rest, configs, strict=True)
    ]


def as_word(key: str, value: object) -> str:
    """A setting as it would be typed: `loss._target_` and its class become loss=Class."""
    if key.endswith("._target_"):
        return f"{key.removesuffix('._target_')}={str(value).rpartition('.')[2]}"
    return f"{key}={value}"
