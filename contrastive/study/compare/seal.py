"""One comparison, one code, one data: hashes of what its runs are made of stand in BASE/plan.json, an edit stops it,
and no run is taken that was made of something else."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

from contrastive.config.identity import flatten, is_identity
from contrastive.distributed.hardware import pair_of
from contrastive.errors import ConfigError
from contrastive.files import file_hash, read_json, write_text
from contrastive.run.provenance import package_hash
from contrastive.run.run import Run, read_run, replaced_sources
from contrastive.study.compare.contest import Contest, due, known_runs
from contrastive.text import as_typed

PLAN = "plan.json"
ANOTHER_KIND = "on another kind of machine, precision or version of torch"
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


def data_key(config: Mapping[str, Any]) -> str:
    """What the data of a run follow from: the settings of its dataset, and the draw of its held-out images."""
    node = {key: value for key, value in flatten(config["dataset"], "dataset.").items() if is_identity(key)}
    return json.dumps([node, config.get("held_out")], sort_keys=True, default=str)


def seal_data(contest: Contest, run: Run) -> None:
    """Add the data of a run that ended to what is sealed, or raise ConfigError: they changed since."""
    if (state := read_run(run.path)).kind == "finished":
        seal(contest, {data_key(state.config): state.environment["data"]})


def check_runs(contest: Contest) -> None:
    """Check that every run that lies there was trained by the code of this comparison, with the settings that belong
    there, on the same data as the others with its settings of the dataset, from the sources that there are now, and
    final runs of one seed on one kind of machine: they are a pair. Search runs are none, and to them another machine is
    as another seed.

    Raises:
        ConfigError: one was not.
    """
    data, pairs, others = read_sealed(contest.base)["data"], dict[int, Any](), dict[str, list[Run]]()
    for run, state in _begun(contest).items():
        kind = pair_of(state.environment)
        if made := _made_otherwise(contest, run, state, data):
            others.setdefault(made, []).append(run)
        elif run.stage == "final" and pairs.setdefault(state.seed, kind) != kind:
            others.setdefault(f"{ANOTHER_KIND} than the first method with its seed", []).append(run)
    _refuse(others)


def check_machine(contest: Contest, here: Collection[tuple[Any, ...]]) -> None:
    """Check, before runs are made here, that these are pairs with the final runs that lie there.

    Args:
        here: `pair_of` the runs of this machine.

    Raises:
        ConfigError: a final run of another machine has no pair yet, or the contestants would not be pairs here.
    """
    if len(here) > 1:
        kinds = " and ".join(sorted(f"{precision} on {name}" for name, precision, _ in here))
        raise ConfigError(
            f"contestants are compared in one precision on one kind of machine, got {kinds}: "
            "try precision=fp32 for all of them"
        )
    coming = due(contest)
    searches = {run.path.parents[2] for run in coming if run.stage != "final"}  # all seeds of these are to come
    seeds = {run.path.name for run in coming if run.stage == "final"}
    waiting = {run: state for run, state in _begun(contest).items()
               if run.stage == "final" and (run.path.parents[2] in searches or run.path.name in seeds)}  # fmt: skip
    if apart := [run for run, state in waiting.items() if pair_of(state.environment) not in here]:
        _refuse({f"{ANOTHER_KIND} than here, where a pair is due for each": apart})


def _begun(contest: Contest) -> dict[Run, Run]:
    """{run: as it lies there} of those that are finished, or would be gone on with."""
    runs = [run for own in contest.methods for run in known_runs(contest, own)]
    return {run: state for run in runs if (state := read_run(run.path)).kind in ("finished", "resumable")}


def _refuse(others: Mapping[str, Sequence[Run]]) -> None:
    """Raise ConfigError for the first of {how runs were made otherwise: these}."""
    for made, own in others.items():
        who = f"{own[0]} was" if len(own) == 1 else f"{own[0]} and {len(own) - 1} more were"
        folders = " ".join(as_typed(run.path) for run in own)
        raise ConfigError(f"{who} trained {made}: try rm -r {folders} and the same command again")


def _made_otherwise(contest: Contest, run: Run, state: Run, data: dict[str, str]) -> str:
    """How a run was made, if not as it belongs to the comparison.

    Args:
        data: {settings of a dataset: hash of the data}; those of the run come to it.
    """
    made_of, environment = contest.made_of, state.environment
    sessions = [environment, *environment.get("earlier", [])]
    modules = made_of.get("contestants", {}).get(run.row, {}).get("modules", {})
    hashes = [pair for session in sessions for pair in (session.get("modules") or {}).items()]
    packages = [session["package"] for session in sessions if "package" in session]
    if set(packages) - {made_of.get("package")} or any(modules.get(name, own) != own for name, own in hashes):
        return "by other code than this comparison began with"
    typed = [word for word in environment.get("overrides", []) if not word.startswith(("hydra", "+hydra"))]
    if sorted(typed) != sorted(run.overrides):  # as after a failure was removed, or a folder copied
        return "with other settings than belong there now"
    if data.setdefault(data_key(state.config), environment["data"]) != environment["data"]:
        return "on other data than this comparison began with"
    return "from other weights or images of transfer than there are now" if replaced_sources(state) else ""
