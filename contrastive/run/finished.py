"""A finished run, recognized from its small files. Imports no torch, which takes longer than all of it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contrastive.config.identity import config_hash, differences
from contrastive.errors import ConfigError
from contrastive.run.files import ENCODER, HEAD, run_state, source_hashes
from contrastive.run.log import has_same_log
from contrastive.run.provenance import code_record


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run that is done.

    Attributes:
        changed_since: `code`, `weights`, `bias_from` where it was made by other code or from other sources than
            there are now.
    """

    path: Path
    result: dict[str, Any]
    changed_since: Sequence[str] = ()


def finished_run(path: Path, *, config: dict[str, Any]) -> FinishedRun | None:
    """The run in `path`, if it is finished with this configuration; it is only read.

    Neither data nor networks are needed to show it. Whatever else the directory holds is for `open_run`.
    """
    state = run_state(path)
    if state.kind != "finished" or differences(state.config, config) or not is_own(state.result, config):
        return None
    for name in (ENCODER, HEAD):
        if not (path / name).exists():
            print(f"warning: {name} is missing: remove result.json beside it to write it again from the checkpoint")
    if not has_same_log(path, state.result):
        print("warning: metrics.jsonl was changed after the run: rerun=true starts it over")
    changed = [] if state.environment["code"] == code_record(config)["code"] else ["code"]
    with suppress(ConfigError):  # the file that it started from may be gone
        changed += [key for key, value in source_hashes(config).items() if state.environment.get(key) != value]
    return FinishedRun(path=path, result=state.result, changed_since=changed)


def is_own(result: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether a result is of this configuration; True where an older one does not say."""
    return "made_by" not in result or bool(result["made_by"]["config"] == config_hash(config))
