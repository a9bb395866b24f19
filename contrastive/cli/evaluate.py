"""`contrastive evaluate`: compose what was typed over the configuration of each run, evaluate, print a table."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hydra import compose
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf

from contrastive.config.arguments import Parser, answering
from contrastive.config.compose import composing, importable, search_path
from contrastive.config.identity import dataset_name, option_name
from contrastive.config.reference import option_files
from contrastive.config.settings import Settings, checked_settings
from contrastive.config.targets import check_targets
from contrastive.config.words import quote_paths
from contrastive.errors import ConfigError
from contrastive.experiment.summary import majority_text
from contrastive.report.runs import protocol_of
from contrastive.run.files import dataset_below, read_config, runs_below
from contrastive.run.run import read_run
from contrastive.text import as_typed, format_grid, show

HELP = """Evaluate finished runs again, without training.

RUN is a run directory, or a folder with finished runs below it. The encoder is read from encoder.safetensors; nothing
of the run is changed. The metrics are written to RUN/evaluation/<name>.json and printed as a table. A line says whether
figures that the run recorded, too, are still the same.

    'evaluator=[knn,linear]'      the evaluators; those of train.py if not given
    evaluator.knn.k=50            their settings; those of the run if not given
    dataset=cifar10               another dataset: transfer. Its images get the side that the run was trained on
                                  (dataset.size=N: another) and are standardized with its training statistics
    rerun=true                    evaluate again, also what is done
    device=cuda  data_root=PATH   as in train.py
"""
USAGE = "try python -m contrastive evaluate RUN 'evaluator=[knn,linear]'"
SETTABLE = ("evaluator", "dataset", "device", "data_root", "resident", "rerun")
BUILT = ("encoder", "augmentation", "dataset", "evaluator")  # what an evaluation builds of a run's configuration
Item = TypeVar("Item")
Done = TypeVar("Done")
SHOWN = 0.01  # points: what a table shows
NEUTRAL = "image_folder"  # its recipe leaves every evaluator at its defaults


class Request(NamedTuple):
    """One run to evaluate again.

    Attributes:
        run: the run directory. config: its config.yaml. settings: see `evaluate_run`.
        dataset_name: in names and tables. is_transfer: whether `dataset` was typed.
    """

    run: Path
    config: dict[str, Any]
    settings: Settings
    dataset_name: str
    is_transfer: bool


@answering
def main(words: list[str]) -> int:
    """Evaluate and print; returns the exit code."""
    parser = Parser("evaluate", HELP, usage="RUN [RUN ...] [KEY=VALUE ...] [--config-dir DIR]")
    parser.add_argument("words", nargs="*", metavar="RUN, KEY=VALUE", help="as above")
    parser.add_config_dir()
    options = parser.parse_intermixed_args(words)
    with importable(options.folders):
        requests = parse_args(options.words, folders=options.folders)
        show(evaluate_runs(requests))
    return 0


def evaluate_runs(requests: list[Request]) -> str:
    """Evaluate each run, and return a table of runs and figures. All settings are checked before the first."""
    from contrastive.experiment.evaluate import build_chosen, evaluate_run  # late: importing torch takes seconds

    evaluators = [build_chosen(request.settings) for request in requests]
    numbers = iter(range(1, len(requests) + 1))

    def evaluated(pair: tuple[Request, dict[str, Any]]) -> tuple[Request, dict[str, Any]]:
        (run, config, settings, dataset, is_transfer), chosen = pair
        print(f"[{next(numbers)}/{len(requests)}]", end=" ", flush=True)
        record = evaluate_run(run, config, settings, chosen, dataset_name=dataset, is_transfer=is_transfer)
        if said := beside_the_run(run, record):
            show(said)
        return pair[0], record

    done = _each(list(zip(requests, evaluators, strict=True)), evaluated)
    metrics = list(dict.fromkeys(key for _, record in done for key in record["test"]))
    grid = [["run", "dataset", *metrics]]
    for request, record in done:
        cells = [f"{record['test'][key]:.2f}" if key in record["test"] else "-" for key in metrics]
        grid.append([as_typed(request.run), request.dataset_name, *cells])
    shares = dict.fromkeys(said for _, record in done if (said := majority_text(record)))
    return "\n".join([f"\nTest split; accuracies in percent:\n{format_grid(grid)}", *shares])


def beside_the_run(run: Path, record: dict[str, Any]) -> str:
    """Whether figures are those that the run recorded of the same images, read in the same way; empty where none is."""
    state, said = read_run(run), []
    if state.kind != "finished" or record["is_transfer"]:
        return ""
    if record["environment"].get("data") != state.environment["data"]:
        return f"warning: these images are not those that {as_typed(run)} was judged on: tables keep the figures apart"
    own, evaluators = state.result, record["settings"]["evaluator"]
    for metric, value in record["test"].items():
        read = protocol_of(metric, evaluators, record["environment"].get("modules", {}), {})
        as_recorded = protocol_of(metric, state.config["evaluator"], state.environment["modules"], {})
        if metric in own["test"] and read == as_recorded:
            before = own["test"][metric]
            said.append(f"{metric} {'as' if abs(value - before) < SHOWN else f'is {value:.2f}, {before:.2f}'} recorded")
    return f"{as_typed(run)}: {', '.join(said)}" if said else ""


def _each(items: Sequence[Item], task: Callable[[Item], Done]) -> list[Done]:
    """What the task returns for each item; one that it refuses is left out with a line, unless it refuses all."""
    done: list[Done] = []
    refused: list[ConfigError] = []
    for item in items:
        try:
            done.append(task(item))
        except ConfigError as error:
            refused.append(error)
    if not done:
        raise refused[0]
    for fault in refused:
        show(f"warning: a run is left out: {fault}")
    return done


def parse_args(words: list[str], *, folders: Sequence[Path] = ()) -> list[Request]:
    """A request for each run: folders name runs, everything else is an override.

    Args:
        folders: of YAMLs besides the package's own, those of --config-dir.

    Raises:
        ConfigError: a word that is neither a folder with finished runs nor a setting of an evaluation.
    """
    places = [Path(word) for word in words if Path(word).is_dir()]
    overrides = quote_paths([word for word in words if not Path(word).is_dir()])
    for override in overrides:
        key, is_setting, _ = override.lstrip("+~").partition("=")
        if not is_setting or "/" in key:
            raise ConfigError(f"{override} is neither a folder nor KEY=VALUE: {USAGE}")
        if key.split(".")[0] not in SETTABLE:
            raise ConfigError(
                f"{key} is not a setting of an evaluation, which are {', '.join(SETTABLE)}: "
                f"try python train.py {override} for a new run"
            )
    if not places:
        raise ConfigError(f"no run is given: {USAGE}")
    runs = [run for place in places for run in runs_below(place)]
    return _each(runs, lambda run: _request(run, overrides, folders))


def _request(run: Path, overrides: list[str], folders: Sequence[Path]) -> Request:
    """Compose what was typed, and take everything else from the run; what of that is built must be a component."""
    config, typed = read_config(run), OverridesParser.create().parse_overrides(overrides)
    check_targets({group: config[group] for group in BUILT if group in config}, folders)
    chosen = {override.key_or_group: override.value() for override in typed if not override.is_delete()}
    is_transfer = "dataset" in chosen
    option = str(chosen["dataset"]) if is_transfer else option_name(config["dataset"]["_target_"])
    if not is_transfer and option not in option_files("dataset", folders):
        option = NEUTRAL
    words = [f"seed={config['seed']}", *([] if is_transfer else [f"dataset={option}"]), *overrides]
    with composing():
        cfg = compose("train", [*words, *search_path(folders)])
    OmegaConf.set_struct(cfg, False)
    if not is_transfer:
        cfg.dataset = dataset_below(config, cfg.data_root) if "data_root" in chosen else config["dataset"]
        for name, recorded in config["evaluator"].items():
            if isinstance(cfg.evaluator.get(name), DictConfig) and "_target_" in cfg.evaluator[name]:
                cfg.evaluator[name] = recorded
        for key, value in chosen.items():
            if "." in key:
                OmegaConf.update(cfg, key, value, merge=True)
    elif "size" in cfg.dataset and "dataset.size" not in chosen and "size" in config["dataset"]:
        cfg.dataset.size = config["dataset"]["size"]
    settings = checked_settings(cfg, overrides)
    return Request(run, config, settings, dataset_name(option, settings.dataset), is_transfer)
