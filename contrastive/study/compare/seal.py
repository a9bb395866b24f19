"""One comparison, one code: hashes of what its runs are made of stand in BASE/plan.json, and an edit stops it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

from omegaconf import DictConfig

from contrastive.errors import ConfigError
from contrastive.files import file_hash, write_text
from contrastive.run.provenance import package_hash
from contrastive.schema import read_json
from contrastive.study.compare.stages import Contest
from contrastive.study.jobs import Compose

PLAN = "plan.json"
SOURCES = [f"{depth}*.{kind}" for depth in ("", "*/", "*/*/") for kind in ("py", "yaml")]  # runs may lie deeper


class Sealed(TypedDict):
    """What a comparison began with: `made_of` as `Contest` has it, and {settings of a dataset: hash of the data}."""

    made_of: dict[str, Any]
    data: dict[str, str]


def code_of(folders: Sequence[Path]) -> dict[str, str]:
    """Hashes of the code of all runs: this package, and the folders of --config-dir."""
    found = {"package": package_hash()}
    for i, folder in enumerate(folders):
        files = sorted(file for depth in SOURCES for file in folder.glob(depth) if file.is_file())
        hashes = [(file.relative_to(folder).as_posix(), file_hash(file)) for file in files]
        found[f"folder {i + 1}"] = hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:16]
    return found


def check_code(contest: Contest) -> None:
    """Raise ConfigError if this package or a folder of --config-dir was edited since the comparison began."""
    if any(contest.made_of.get(name) != now for name, now in code_of(contest.folders).items()):
        edited = " or ".join(["contrastive itself", *map(str, contest.folders)])
        raise ConfigError(
            f"the code of {edited} changed while this comparison ran: undo that and try the same command again; with "
            "the new code it is another comparison, which begins anew"
        )


def unchanged(contest: Contest, compose: Compose) -> Compose:
    """Composes a run where the code is still that of the comparison, see `check_code`."""

    def composed(overrides: Sequence[str]) -> DictConfig:
        check_code(contest)
        return compose(overrides)

    return composed


def seal(contest: Contest, data: Mapping[str, str]) -> None:
    """Write the comparison's plan.json.

    Args:
        data: {settings of a dataset: hash of the data} as the trials found them.

    Raises:
        ConfigError: the data are other than those that the comparison began with.
    """
    before = read_sealed(contest.base)["data"]
    if others := [key for key, now in data.items() if before.get(key, now) != now]:
        own = "dataset.name=NAME" if "dataset.name" in json.loads(others[0])[0] else "dataset.root=PATH"
        raise ConfigError(
            f"the data are other than those that {contest.base} began with: put them back, or try {own} for a "
            "comparison on these"
        )
    record = {"plan": asdict(contest.plan), "made_of": contest.made_of, "data": {**before, **data}}
    write_text(contest.base / PLAN, json.dumps(record, indent=1))


def read_sealed(base: Path) -> Sealed:
    """What plan.json says that a comparison began with; nothing where there is none."""
    file = base / PLAN
    content: Sealed = read_json(file, Sealed) if file.exists() else {"made_of": {}, "data": {}}
    return {"made_of": content["made_of"], "data": content["data"]}
