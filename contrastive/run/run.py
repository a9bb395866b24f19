"""A run: what it is to be, and what lies in its directory. Imports no torch, which takes longer than all of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from contrastive.config.identity import dataset_name, differences, option_name
from contrastive.errors import ConfigError
from contrastive.listing.places import Place, places
from contrastive.run.files import (
    ADVICE,
    ENCODER,
    HEAD,
    LAST,
    PREVIOUS,
    RESULT,
    read_config,
    read_environment,
    read_result,
    source_hashes,
)
from contrastive.run.log import missing_lines
from contrastive.run.provenance import code_record


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run, to do or as it was read from its directory; equal to others of the same directory and words.

    Attributes:
        path: its directory.
        overrides: what train.py gets, of a run to do.
        row: of a table, or the contestant of a comparison, that it is of.
        stage: of a comparison: search | finalists | final.
        name: what it is called on the terminal.
        kind: what the directory holds: nothing to go on from, a result, a checkpoint, or files that cannot be used.
        reason: one sentence about a damaged one.
        config, environment: the contents of config.yaml and environment.json; {} where nothing was written yet, or
            where the run is damaged.
        result: the content of result.json; {} unless the run is finished.
        warnings: of a finished one, on what is not as it was when it was made.
        settings: its identity by dotted keys, seed and evaluators apart, where `find_runs` found it.
    """

    path: Path
    overrides: tuple[str, ...] = ()
    row: str = ""
    stage: str = ""
    name: str = ""
    kind: Literal["empty", "finished", "resumable", "damaged"] = field(default="empty", compare=False)
    reason: str = field(default="", compare=False)
    config: dict[str, Any] = field(default_factory=dict, compare=False)
    environment: dict[str, Any] = field(default_factory=dict, compare=False)
    result: dict[str, Any] = field(default_factory=dict, compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    settings: dict[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return f"{self.stage}, {self.name}" if self.stage else self.name

    @property
    def log(self) -> Path:
        """The file that what it prints goes to."""
        return self.path.with_name(f"{self.path.name}.log")

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def finished(self) -> str:
        """The day and hour of its end."""
        return str(self.result["time"]["finished"])

    @property
    def loss(self) -> str:
        """The `_target_` of its loss."""
        return str(self.config["loss"]["_target_"])

    @property
    def dataset(self) -> str:
        """The dataset's option; an image folder adds its own name."""
        node = self.config["dataset"]
        return dataset_name(option_name(node["_target_"]), node)


def read_run(path: Path) -> Run:
    """The run in a directory: finished, to be resumed, or neither; a millisecond or two.

    Its three small files are read once. Of checkpoints and weights only the existence is looked at.
    """
    if not (path / "config.yaml").exists() and not (path / RESULT).exists() and not has_checkpoint(path):
        return Run(path=path)
    try:
        config, environment = read_config(path), read_environment(path)
    except ConfigError as error:
        return Run(path=path, kind="damaged", reason=str(error))
    run = Run(path=path, config=config, environment=environment)
    if (result := read_result(path)) is not None:
        return replace(run, kind="finished", result=result)
    if has_checkpoint(path):
        return replace(run, kind="resumable")
    if (path / RESULT).exists():
        return Run(path=path, kind="damaged", reason=f"{path / RESULT} is damaged: {ADVICE}")
    return run


def has_checkpoint(run: Path) -> bool:
    """Whether the run was interrupted after its first checkpoint, or is finished."""
    return (run / LAST).exists() or (run / PREVIOUS).exists()


def read_finished(path: Path) -> Run:
    """The finished run in a directory; raises ConfigError for any other."""
    run = read_run(path)
    if run.kind != "finished":
        raise ConfigError(run.reason or f"the run in {path} is not finished: try its command again")
    return run


def done_already(path: Path, config: dict[str, Any]) -> Run | None:
    """The run in `path`, if it is finished with this configuration, of files that lie as they did or are gone.

    It is only read; neither data nor networks are needed. Whatever else the directory holds is for `open_run`, which
    compares the data themselves.
    """
    run = read_run(path)
    if run.kind != "finished" or differences(run.config, config):
        return None
    files, gone = places(config["dataset"]), list[str]()
    if files != run.environment.get("files", {}) and not (gone := gone_places(run, config, files)):
        return None
    again = "to write it again from the checkpoint"
    said = [f"{name} is missing: remove result.json beside it {again}" for name in (ENCODER, HEAD)
            if not (path / name).exists()]  # fmt: skip
    if missing_lines(path, run.result["log"]):
        said.append("metrics.jsonl was changed after the run: rerun=true starts it over")
    changed = [] if run.environment["code"] == code_record(config)["code"] else ["code"]
    if changed := [*changed, *replaced_sources(replace(run, config=config))]:
        said.append(f"changed since it was made: {', '.join(changed)}; rerun=true replaces it")
    if gone:
        said.append(f"its data are not compared, nothing is left in {' and '.join(gone)}")
    return replace(run, warnings=tuple(said))


def replaced_sources(run: Run) -> list[str]:
    """Which of `source_hashes` are of files that have another content now; none that is gone."""
    try:
        hashes = source_hashes(run.config)
    except ConfigError:
        return []
    return [key for key, value in hashes.items() if run.environment.get(key) != value]


def gone_places(run: Run, config: dict[str, Any], files: Mapping[str, Place]) -> list[str]:
    """Where the files lay that a run was made of, if none is left; at a place that was not the run's none was."""
    same_places = all(run.config["dataset"].get(key) == config["dataset"].get(key) for key in files)
    is_empty = all(place["listing"] is None for place in files.values())
    return [place["path"] for place in files.values()] if same_places and is_empty else []


def other_data(run: Run, config: dict[str, Any], files: Mapping[str, Place]) -> str:
    """The sentence for a run that was made of other data than there are now in `files`."""
    recorded = run.environment.get("files") or places(run.config["dataset"])
    before, now = (" and ".join(place["path"] for place in each.values()) for each in (recorded, files))
    own = "dataset.name=NAME" if "name" in config["dataset"] else "hydra.run.dir=PATH"
    return (
        f"{run.path} was made from other data ({before or 'from Python'}) than now ({now or 'from Python'}): "
        f"try {own} for a run of its own, or rerun=true to replace that one"
    )
