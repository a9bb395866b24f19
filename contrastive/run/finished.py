"""A finished run, recognized from its small files and a listing of its data. Imports no torch, which takes longer than
all of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contrastive.config.identity import config_hash, differences
from contrastive.errors import ConfigError
from contrastive.listing.places import Place, places
from contrastive.run.files import ENCODER, HEAD, RunState, read_result, run_state, source_hashes
from contrastive.run.log import has_same_log
from contrastive.run.provenance import code_record


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run that is done.

    Attributes:
        changed_since: `code`, or what of `source_hashes`, where it was made by other code or from other sources than
            there are now.
        gone: where its data were, if nothing is left there.
    """

    path: Path
    result: dict[str, Any]
    changed_since: Sequence[str] = ()
    gone: Sequence[str] = ()


def finished_run(path: Path, *, config: dict[str, Any]) -> FinishedRun | None:
    """The run in `path`, if it is finished with this configuration, of files that lie as they did or are gone.

    It is only read; neither data nor networks are needed. Whatever else the directory holds is for `open_run`, which
    compares the data themselves: also of a run of an earlier version, which did not record how its files lay.
    """
    state = run_state(path)
    if state.kind != "finished" or differences(state.config, config) or not is_own(state.result, config):
        return None
    files = places(config["dataset"])
    is_same = files == state.environment.get("files", {})
    gone = [] if is_same else gone_places(state, config, files)
    if not is_same and not gone:
        return None
    for name in (ENCODER, HEAD):
        if not (path / name).exists():
            print(f"warning: {name} is missing: remove result.json beside it to write it again from the checkpoint")
    if not has_same_log(path, state.result):
        print("warning: metrics.jsonl was changed after the run: rerun=true starts it over")
    changed = [] if state.environment["code"] == code_record(config)["code"] else ["code"]
    changed += replaced_sources(replace(state, config=config))
    return FinishedRun(path=path, result=state.result, changed_since=changed, gone=gone)


def shorter_run(path: Path, config: dict[str, Any]) -> tuple[int, Path] | None:
    """The longest finished run beside the one in `path` that differs from it in fewer `epochs` alone, after those."""
    found = []
    for run in path.parent.parent.glob(f"*/{path.name}"):
        result = read_result(run) or {}
        n = result.get("encoder", {}).get("epochs", 0)
        if 0 < n < config["epochs"] and result.get("made_by", {}).get("config") == config_hash({**config, "epochs": n}):
            found.append((n, run))
    return max(found, default=None)


def replaced_sources(state: RunState) -> list[str]:
    """Which of `source_hashes` are of files that have another content now; none that is gone."""
    try:
        hashes = source_hashes(state.config)
    except ConfigError:
        return []
    return [key for key, value in hashes.items() if state.environment.get(key) != value]


def gone_places(state: RunState, config: dict[str, Any], files: Mapping[str, Place]) -> list[str]:
    """Where the files lay that a run was made of, if none is left; at a place that was not the run's none was."""
    same_places = all(state.config["dataset"].get(key) == config["dataset"].get(key) for key in files)
    is_empty = all(place["listing"] is None for place in files.values())
    return [place["path"] for place in files.values()] if same_places and is_empty else []


def other_data(path: Path, state: RunState, config: dict[str, Any], files: Mapping[str, Place]) -> str:
    """The sentence for a run in `path` that was made of other data than there are now in `files`."""
    recorded = state.environment.get("files") or places(state.config["dataset"])
    before, now = (" and ".join(place["path"] for place in each.values()) for each in (recorded, files))
    if now == before:
        said = f"{path} was made from other data than {f'{now} holds now' if now else 'those given'}"
    else:
        said = f"{path} was made from {before or 'data given in Python'}, and {now or 'what is given'} holds other data"
    own = "dataset.name=NAME" if "name" in config["dataset"] else "hydra.run.dir=PATH"
    return f"{said}: try {own} for a run of its own, or rerun=true to replace that one"


def is_own(result: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether a result is of this configuration; True where an older one does not say."""
    return "made_by" not in result or bool(result["made_by"]["config"] == config_hash(config))
