"""Runs on the disk: which of them share a configuration, how that is named, and every metric that they have.

Runs that differ only in the seed are one configuration. A setting that a run does not have is a value like any
other. Settings of evaluators belong to the metrics: with other settings it is another metric. A configuration is named
by its overrides, the method first: `debiased_pos tau_plus=0.1 epochs=3`.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from contrastive.config.identity import flatten, identity, is_identity, key_of, option_name
from contrastive.distributed.hardware import of_sessions
from contrastive.errors import ConfigError
from contrastive.run.figures import test_figures
from contrastive.run.files import RESULT, files_below, read_evaluations
from contrastive.run.run import Run, read_run
from contrastive.text import listed

DATA_SEED = "dataset.data_seed"
N_NAMED = 3  # unfinished runs in a sentence
# Words that no name needs: the seed is the spread over runs, the dataset a heading, an evaluator part of its metrics.
LEFT_OUT = ("seed", "loss", "dataset", "evaluator", "hydra")
LONG_NUMBER = re.compile(r"(?<==)-?\d+\.\d{5,}(e[+-]?\d+)?$")  # as a search draws them


class Figure(NamedTuple):
    """One number: the settings of its evaluator, and of the dataset if it is not that of the training, are in JSON."""

    split: str  # test | val | untrained
    metric: str
    protocol: str
    value: float
    is_later: bool = False  # of an evaluation after the run

    @property
    def key(self) -> tuple[str, str, str]:
        """Figures of one key are one metric."""
        return self.split, self.metric, self.protocol


def find_runs(folders: list[Path]) -> tuple[list[Run], list[str]]:
    """The finished runs in the order of the folders, and sentences on those that are left out.

    Raises:
        ConfigError: a folder is missing.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder: try outputs, or another folder of finished runs")
    runs, notes = [], []
    for path in dict.fromkeys(path.parent for folder in folders for path in files_below(folder, RESULT)):
        run = read_run(path)
        if run.kind != "finished":
            notes.append(f"{run.reason or f'{path} holds a damaged result.json'}; the run is not counted")
            continue
        settings = {key: value for key, value in identity(run.config).items() if not key.startswith("evaluator")}
        settings.pop("seed")
        runs.append(replace(run, settings=settings))
    _join_sources(runs)
    begun = dict.fromkeys(file.parent for folder in folders for file in files_below(folder, "environment.json"))
    if unfinished := [path for path in begun if not (path / "result.json").exists()]:
        notes.append(f"not finished and not counted: {listed(unfinished, N_NAMED)}")
    return runs, notes


def _join_sources(runs: list[Run]) -> None:
    """Give one name to the `bias_from` that each seed has of its own, which belong to the spread over seeds."""
    alike: dict[str, set[int]] = {}
    keys = [_key({k: v for k, v in run.settings.items() if k != DATA_SEED}) for run in runs]
    for run, key in zip(runs, keys, strict=True):
        alike.setdefault(key, set()).add(run.seed)
    for run, key in zip(runs, keys, strict=True):
        if (source := run.settings.get("bias_from")) and len(alike[key]) == 1:  # else several seeds share it
            run.settings["bias_from"] = re.sub(rf"seed={run.seed}(?!\d)", "seed=SEED", str(source))


def configurations(runs: list[Run]) -> Iterator[tuple[dict[str, Any], list[Run]]]:
    """(settings, runs that have exactly these).

    `dataset.data_seed` is left out where it is the seed of every run: their bias maps belong to the spread over seeds.
    Else the data are a setting wherever the others do not tell them, as with a folder whose images changed, and so are
    the files of weights that a run read.
    """
    for own in _grouped(runs, lambda run: _key({k: v for k, v in run.settings.items() if k != DATA_SEED})):
        follows = all(run.settings.get(DATA_SEED) == run.seed for run in own)
        for same in [own] if follows else _grouped(own, lambda run: _key(run.settings)):
            sources = partial(_sources, data_too=not follows)
            by_source = _grouped(same, sources)
            for members in by_source:
                settings = {k: v for k, v in members[0].settings.items() if not (follows and k == DATA_SEED)}
                told = {key: value[:8] for key, value in sources(members[0]).items()}
                yield settings | (told if len(by_source) > 1 else {}), members


def _sources(run: Run, *, data_too: bool) -> dict[str, str]:
    """Hashes of what all seeds share: the data, unless each seed draws its own, files of weights that they read, and
    modules of one's own."""
    per_seed = "seed=SEED" in str(run.settings.get("bias_from"))
    keys = {"data": data_too, "weights": True, "bias_from": not per_seed}
    told = {key: run.environment[key] for key, asked in keys.items() if asked and key in run.environment}
    if own := of_sessions(run.environment, "modules"):  # a loss of one's own that was edited is another loss
        told["modules"] = hashlib.sha256(own.encode()).hexdigest()
    return told


def data_apart(runs: list[Run]) -> dict[Path, str]:
    """{run: the first digits of its data's hash}, of runs with the same settings of the dataset but other data: two
    folders of one name, or one folder whose images changed. Their figures are never set side by side."""
    hashes: dict[str, dict[Path, str]] = {}
    for run in runs:
        own = {key: value for key, value in run.settings.items() if key.split(".")[0] in ("dataset", "held_out")}
        follows = own.get(DATA_SEED) == run.seed
        if data := run.environment.get("data"):
            key = _key(own | ({DATA_SEED: f"that of the run, {run.seed}"} if follows else {}))
            hashes.setdefault(key, {})[run.path] = str(data)[:8]
    apart = [own for own in hashes.values() if len(set(own.values())) > 1]
    return {path: data for own in apart for path, data in own.items()}


def _grouped(runs: list[Run], key: Callable[[Run], object]) -> list[list[Run]]:
    """The runs of each key, in the order of their first."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(str(key(run)), []).append(run)
    return list(groups.values())


def _key(settings: dict[str, Any]) -> str:
    """Equal for equal settings; 1.0 is 1, as it is to a resume."""
    plain = {key: int(v) if isinstance(v, float) and v.is_integer() else v for key, v in settings.items()}
    return json.dumps(plain, sort_keys=True, default=str)


def by_seed(runs: list[Run]) -> tuple[dict[int, list[Run]], list[str]]:
    """The runs of one configuration by seed, in its order, the newest first, and a sentence for each older one that has
    the same evaluators, or of which another encoder came: it is not counted."""
    seeds: dict[int, list[Run]] = {}
    older = []
    for run in sorted(runs, key=lambda run: (run.finished, str(run.path)), reverse=True):
        others = seeds.setdefault(run.seed, [])
        evaluators, weights = run.config["evaluator"], run.result.get("weights")
        newer = (own for own in others if own.config["evaluator"] == evaluators or own.result.get("weights") != weights)
        if (other := next(newer, None)) is not None:
            older.append(f"{run.path} is not counted: {other.path} has equal settings and seed, and is newer")
        else:
            others.append(run)
    return dict(sorted(seeds.items())), older


def own_figures(run: Run) -> Iterator[Figure]:
    """What the run itself measured."""
    result, modules = run.result, run.environment["modules"]
    for split, values in (("test", test_figures(result)), ("val", result["val"]), ("untrained", result["untrained"])):
        for metric, value in values.items():
            yield Figure(split, metric, protocol_of(metric, run.config["evaluator"], modules, {}), value)


def later_figures(run: Run) -> Iterator[Figure]:
    """Those of RUN/evaluation/, newest first; on another dataset a metric is called `dataset:metric`."""
    records = read_evaluations(run.path).values()
    for record in sorted(records, key=lambda record: str(record["time"].get("finished", "")), reverse=True):
        node, evaluators = record["settings"]["dataset"], record["settings"]["evaluator"]
        dataset = _kept(node, "dataset")
        is_own = not record["is_transfer"] and dataset == _kept(run.config["dataset"], "dataset")
        data, modules = record["environment"].get("data"), record["environment"].get("modules", {})
        if is_own and data not in (None, run.environment.get("data")):
            is_own, dataset["data"] = False, data[:8]  # the images were changed since, or are others of that name
        if dataset.get("data_seed") == run.seed:  # each seed draws anew, which belongs to the spread over seeds
            dataset.pop("data_seed")
        if "name" in dataset and "root" in node:  # an image folder: two may have one name
            dataset["root"] = node["root"]
        if dataset.get("size") == run.config["dataset"].get("size"):  # that which the encoder was trained on
            dataset.pop("size", None)
        prefix = f"{record['dataset']}:" if record["is_transfer"] else ""
        for split, values in (("test", test_figures(record)), ("val", record["val"])):
            for metric, value in values.items():
                others = {} if is_own else {"dataset": dataset}
                protocol = protocol_of(metric, evaluators, modules, others)
                yield Figure(split, f"{prefix}{metric}", protocol, value, is_later=True)


def protocol_of(metric: str, evaluators: dict[str, Any], modules: dict[str, str], others: dict[str, Any]) -> str:
    """What a metric was computed with: the settings of the evaluator that it is named after, and the hash of its module
    if that is one's own."""
    named = (name for name in evaluators if f"{metric}_".startswith(f"{name}_"))
    name = max(named, key=len, default=None)
    own = {} if name is None else {name: _kept(evaluators[name], f"evaluator.{name}")}
    home = str(evaluators.get(name or "", {}).get("_target_")).rpartition(".")[0]
    code = {module: digest[:8] for module, digest in modules.items() if module == home}
    return json.dumps({**own, **code, **others}, sort_keys=True)


def _kept(node: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The settings of a node that can change a figure."""
    return {key: value for key, value in node.items() if is_identity(f"{prefix}.{key}")}


def typed_words(overrides: Sequence[str], target: str) -> tuple[str, ...]:
    """The words of a run's name: its method, then its overrides in the order typed. No other run matters.

    Args:
        overrides: of the command line.
        target: the `_target_` of the loss, for a run whose loss was not typed.
    """
    by_key = {key_of(word): word for word in overrides}  # of several for one key the last one holds
    method = by_key.get("loss", "").partition("=")[2] or option_name(target)
    kept = [word for key, word in by_key.items() if is_identity(key) and key not in LEFT_OUT]
    kept = [word for word in kept if not key_of(word).startswith(("evaluator.", "hydra.", "hydra/"))]
    return method, *(LONG_NUMBER.sub(lambda number: f"{float(number[0]):.4g}", word.lstrip("+")) for word in kept)


def told_apart(names: Sequence[str], configs: Sequence[dict[str, Any]]) -> list[str]:
    """The names; equal ones get the first settings in which their configurations differ, so that no two are equal.

    That happens if the same overrides meant something else, as after an edit of a YAML.

    Args:
        configs: by dotted keys, no two equal.
    """
    names = list(names)
    texts = [{key: setting_text(value) for key, value in config.items()} for config in configs]
    while twice := [name for name, n in Counter(names).items() if n > 1]:
        for name in twice:
            same = [i for i, other in enumerate(names) if other == name]
            for key in sorted({key for i in same for key in texts[i]}):
                more = {i: f"{key}={texts[i][key]}" if key in texts[i] else f"no {key}" for i in same}
                if len({(names[i], more[i]) for i in same}) > len({names[i] for i in same}):
                    names = [f"{own} {more[i]}".strip() if i in more else own for i, own in enumerate(names)]
    return names


def protocols_apart(protocols: Sequence[str]) -> dict[str, str]:
    """{protocol: the settings that tell it from the others, such as `k=5`}; nothing is said of a single one.

    Args:
        protocols: in JSON, no two equal.
    """
    configs = [{key.rpartition(".")[2]: v for key, v in flatten(json.loads(text)).items()} for text in protocols]
    return dict(zip(protocols, told_apart([""] * len(protocols), configs), strict=True))


def without_shared(names: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """(each name without the overrides that all of them have, these overrides); the method always stays.

    A table prints the shared ones once, above its rows.
    """
    shared = [word for word in names[0][1:] if all(word in name[1:] for name in names)] if len(names) > 1 else []
    return [" ".join([name[0], *(word for word in name[1:] if word not in shared)]) for name in names], shared


def setting_text(value: Any) -> str:
    """A value as it is typed; equal texts are equal values."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return value
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)
