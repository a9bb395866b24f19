"""One comparison, one code: what its runs are made of is read once and copied into its folder, and they import that.

BASE/code/       the user's own modules, with what they import from the user's folders
BASE/options/    the YAMLs of --config-dir
BASE/plan.json   hashes of the code, the configurations and the data
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contrastive.errors import ConfigError
from contrastive.files import atomic, write_text
from contrastive.run.provenance import own_sources, package_hash
from contrastive.study.compare.stages import Contest

PLAN, CODE, OPTIONS = "plan.json", "code", "options"
DEPTHS = ("*.yaml", "*/*.yaml", "*/*/*.yaml")  # of a folder of --config-dir; runs may lie in it, deeper


Sources = Mapping[str, Mapping[str, bytes]]  # {CODE or OPTIONS: {path: content}}


def read_sources(targets: Sequence[str], folders: Sequence[Path]) -> Sources:
    """The user's own files as they are now: the modules that `_target_`s name, with what they import, and the YAMLs of
    folders, the first of a name."""
    options: dict[str, bytes] = {}
    for folder in folders:
        for file in sorted(file for depth in DEPTHS for file in folder.glob(depth)):
            options.setdefault(file.relative_to(folder).as_posix(), file.read_bytes())
    return {CODE: {place: file.read_bytes() for place, file in own_sources(targets).items()}, OPTIONS: options}


def seal(contest: Contest, sources: Sources, data: Mapping[str, str]) -> None:
    """Copy the sources into the comparison's folder and write its plan.json.

    Args:
        data: {settings of a dataset: hash of the data} as the trials found them.

    Raises:
        ConfigError: the data are other than those that the comparison began with.
    """
    for folder, files in sources.items():
        (contest.base / folder).mkdir(parents=True, exist_ok=True)
        for place, content in files.items():
            with atomic(contest.base / folder / place) as part:
                part.write_bytes(content)
    before = read_sealed(contest.base).get("data", {})
    if others := [key for key, now in data.items() if before.get(key, now) != now]:
        own = "dataset.name=NAME" if "dataset.name" in json.loads(others[0])[0] else "dataset.root=PATH"
        raise ConfigError(
            f"the data are other than those that {contest.base} began with: put them back, or try {own} for a "
            "comparison on these"
        )
    hashes = {
        folder: {place: hashlib.sha256(content).hexdigest() for place, content in files.items()}
        for folder, files in sources.items()
    }
    plan = asdict(contest.plan)
    if (file := contest.base / PLAN).exists():  # the hours that became this budget find it again
        plan["hours"] = plan["hours"] or json.loads(file.read_text())["plan"].get("hours", 0)
    record = {"plan": plan, "made_of": contest.made_of, **hashes, "data": {**before, **data}}
    write_text(contest.base / PLAN, json.dumps(record, indent=1))


def read_sealed(base: Path) -> dict[str, Any]:
    """The content of plan.json without the plan; {} where there is none."""
    file = base / PLAN
    content: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return {key: value for key, value in content.items() if key != "plan"}


def check_package(contest: Contest) -> None:
    """Raise ConfigError if this package was edited since the comparison began: its code is not copied."""
    if contest.made_of.get("package") != package_hash():
        raise ConfigError(
            "the code of contrastive itself changed while this comparison ran: undo that and run the same command "
            "again; with the new code it is another comparison, which begins anew"
        )


def other_comparisons(base: Path) -> list[str]:
    """What a comparison of these names that lies beside this one was made of otherwise, a sentence for each."""
    named = re.fullmatch(r"(.+)-[0-9a-f]{8}-(\w+)", base.name)
    if named is None:  # it has a folder of the user's
        return []
    names, metric = named.groups()
    return [
        f"{file.parent.name} beside it is of other code, settings or an older version: its runs do not count here"
        for file in sorted(base.parent.glob(f"{names}-????????-{metric}/{PLAN}"))
        if file.parent != base
    ]
