"""A table of any finished runs: python -m contrastive.report outputs/digits [FOLDER ...]"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from contrastive.report.sweep import Job, sweep_table
from contrastive.run.identity import identity


def find_jobs(folders: list[Path]) -> list[Job]:
    """Every finished run under the folders, each with the settings in which the runs differ.

    A setting that only some runs have, such as another loss's, is left out where all that have it agree. Runs on
    different data never share a row, and a run that is there twice (equal settings, seed and data) counts once.
    """
    runs: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path in sorted({path.parent for folder in folders for path in folder.rglob("result.json")}):
        data = json.loads((path / "environment.json").read_text())["data"]
        config = {**identity(yaml.safe_load((path / "config.yaml").read_text())), "data": data[:8]}
        runs.setdefault(json.dumps(config, sort_keys=True), (path, config))
    _merge_redrawn_data([config for _, config in runs.values()])
    keys = sorted({key for _, config in runs.values() for key in config})
    shown = [key for key in keys if len({str(config[key]) for _, config in runs.values() if key in config}) > 1]
    return [
        Job(
            [as_word(key, config[key]) for key in shown if key in config],
            path,
            json.loads((path / "result.json").read_text()),
        )
        for path, config in runs.values()
    ]


def _merge_redrawn_data(configs: list[dict[str, Any]]) -> None:
    """Let runs share a row whose data is redrawn for every seed (dataset.data_seed = seed).

    Their data differs by design. Where the same seed and settings stand for different data, nothing is done.
    """
    redrawn = [config for config in configs if config.get("dataset.data_seed", "none") == config["seed"]]
    data: dict[str, set[str]] = {}
    for config in redrawn:
        settings = {key: value for key, value in config.items() if key == "seed" or key.startswith("dataset.")}
        data.setdefault(json.dumps(settings, sort_keys=True), set()).add(config["data"])
    if all(len(hashes) == 1 for hashes in data.values()):
        for config in redrawn:
            config |= {"dataset.data_seed": "seed", "data": "redrawn for every seed"}


def as_word(key: str, value: object) -> str:
    """A setting as it would be typed: `loss._target_` and its class become loss=Class."""
    if key.endswith("._target_"):
        return f"{key.removesuffix('._target_')}={str(value).rpartition('.')[2]}"
    return f"{key}={value}"


def main(words: list[str]) -> int:
    if any(word.startswith("-") for word in words):
        print(__doc__)
        return 0 if words in (["-h"], ["--help"]) else 2
    jobs = find_jobs([Path(word) for word in words])
    if not jobs:
        print(
            f"no finished run under {', '.join(words) or 'no folder'}: try python -m contrastive.report outputs",
            file=sys.stderr,
        )
        return 2
    print(sweep_table(jobs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
