"""Recipes that datasets, experiments and tables compose; what differs from the authors' is named in their headers."""

import lzma
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tables.kept import study_records
from tables.spec import config_dirs, read_table, table_paths

from contrastive.config.compose import importable, search_path
from contrastive.config.reference import first_line, option_files
from contrastive.experiment.build import build
from tests.helpers import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("path", table_paths().values(), ids=table_paths().keys())
def test_rows_of_the_smoke_presets_build(composed, path):
    table = read_table(path, preset="smoke")
    own = config_dirs(table)
    with importable(own):
        for row in table.rows:
            if row.overrides:
                build(composed(*row.overrides, "device=cpu", *search_path(own)))


@pytest.mark.slow
@pytest.mark.parametrize("experiment", sorted(path.stem for path in (ROOT / "configs/experiment").glob("*.yaml")))
def test_a_biased_dataset_keeps_the_loss_of_an_experiment(composed, experiment):
    own, biased = (composed(f"experiment={experiment}", *more).loss for more in ((), ("dataset=biased_digits",)))
    assert biased["_target_"] == own["_target_"]


def test_biased_dataset_brings_its_epochs_and_learning_rate(composed):
    settings = composed("experiment=bc_ce", "dataset=biased_digits")
    assert (settings.epochs, settings.optimizer["lr"], settings.schedule["milestones"]) == (60, 3e-3, [30, 50])
    assert (settings.batch_size, settings.regularizer["batch_size"]) == (64, 128)
    assert composed("experiment=bc_ce", "seed=7").dataset["data_seed"] == 7


def test_a_recipe_of_a_paper_that_is_in_no_record_is_called_untried():
    texts = [(lzma.open if path.suffix == ".xz" else open)(path, "rt").read() for path in study_records().values()]
    named = {name for text in texts for name in re.findall(r"experiment=(\w+)", text)}
    tried = {name.replace("hy_", "hong_yang_", 1) for name in named}  # their names when they ran
    for name, path in option_files("experiment").items():
        says = first_line(path)
        assert says.startswith("Untried: ") == (name not in tried) or "of no paper" in says, name


FOLDER = ROOT / "configs/experiment"
GOLDENS = yaml.safe_load((ROOT / "tests/data/recipes.yaml").read_text())
NAMED = re.compile(r"# differs: (\S+) (.+?) \(theirs (.+?)\): \S")  # SETTING OURS (theirs THEIRS): why
COMMAND = re.compile(r"# *python train\.py ((?:.* \\\n#)*[^(\n]*)", re.MULTILINE)
PRECISION = re.compile(r"^# Precision: (\w+)", re.MULTILINE)
OF_NO_PAPER = {"domain", "gray16", "multispectral"}
EXPERIMENTS = sorted({path.stem for path in FOLDER.glob("*.yaml")} - OF_NO_PAPER)


def text_of(experiment: str, folder: Path = FOLDER) -> str:
    return (folder / f"{experiment}.yaml").read_text()


def parents(experiment: str) -> list[str]:
    """The experiments that it starts from."""
    defaults = yaml.safe_load(text_of(experiment))["defaults"]
    return [item for item in defaults if isinstance(item, str) and item != "_self_"]


def named_precision(experiment: str) -> str:
    """What its header, or that of the experiment it starts from, says a published run is repeated in."""
    found = PRECISION.search(text_of(experiment))
    return found[1] if found else named_precision(parents(experiment)[0])


def named_differences(experiment: str) -> set[tuple[str, str, str]]:
    """{(setting or fact, ours, theirs)} of the headers of an experiment and of those that it starts from."""
    text = text_of(experiment)
    own = set(NAMED.findall(text))
    assert len(own) == text.count("# differs:"), (
        f"{experiment}: a line is no `# differs: SETTING OURS (theirs THEIRS): why`"
    )
    return own.union(*(named_differences(parent) for parent in parents(experiment)))


def look_up(settings: dict[str, Any], key: str) -> Any:
    node: Any = settings
    for part in key.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def is_equal(ours: Any, theirs: Any) -> bool:
    """Numbers up to rounding; of a dictionary the keys that theirs has."""
    if isinstance(theirs, dict) and theirs:
        return isinstance(ours, dict) and all(is_equal(ours.get(key), value) for key, value in theirs.items())
    if isinstance(ours, float) and isinstance(theirs, float | int):
        return ours == pytest.approx(theirs, rel=1e-6)
    return bool(ours == theirs)


def in_header(value: Any) -> str:
    """A value as a header writes it: YAML on one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {in_header(item)}' for key, item in value.items())}}}"
    return "null" if value is None else str(value)


def differences(golden: dict[str, Any], settings: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(setting, ours, theirs) of every setting that differs."""
    for key, (theirs, _) in golden["settings"].items():
        ours = look_up(settings, key)
        if not is_equal(ours, theirs):
            yield key, in_header(ours), in_header(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_what_differs_from_the_authors_is_named_in_the_header(composed, experiment):
    goldens = [golden for golden in GOLDENS["recipes"] if golden["experiment"] == experiment]
    named = named_differences(experiment)
    assert goldens, f"tests/data/recipes.yaml has nothing of {experiment}"
    found, facts = set(), set()
    for golden in goldens:
        settings = composed(f"experiment={experiment}", *golden.get("words", [])).to_dict()
        found |= set(differences(golden, settings))
        facts |= {(fact, str(theirs)) for fact, (theirs, _) in golden.get("facts", {}).items()}
    for key, ours, theirs in sorted(found):
        print(f"{experiment}: {key} is {ours}, theirs {theirs}")
    assert not found - named, "name these in the header: " + "; ".join(
        f"# differs: {key} {ours} (theirs {theirs}): why" for key, ours, theirs in sorted(found - named)
    )
    named_facts = {(key, theirs) for key, _, theirs in named}
    assert not facts - named_facts, f"name these in the header: {sorted(facts - named_facts)}"
    stale = {line for line in set(NAMED.findall(text_of(experiment))) - found if (line[0], line[2]) not in facts}
    assert not stale, f"the header names what does not differ: {sorted(stale)}"


def test_every_value_says_where_it_was_read():
    assert {golden["experiment"] for golden in GOLDENS["recipes"]} == set(EXPERIMENTS)
    assert all(re.fullmatch(r"[0-9a-f]{40}", repository["commit"]) for repository in GOLDENS["repositories"].values())
    for golden in GOLDENS["recipes"]:
        assert golden["repository"] in GOLDENS["repositories"]
        for _, place in [*golden["settings"].values(), *golden.get("facts", {}).values()]:
            assert re.fullmatch(r"[\w./-]+:\d+", place)
    for missing in GOLDENS["absent"]:
        assert missing["what"] and set(missing["experiment"]) <= set(EXPERIMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_header_says_in_which_precision_a_run_is_repeated(composed, experiment):
    assert composed(f"experiment={experiment}").precision == named_precision(experiment)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_commands_of_the_header_compose(composed, experiment):
    commands = [shlex.split(command.replace("\\\n#", " ")) for command in COMMAND.findall(text_of(experiment))]
    assert commands
    for words in commands:
        composed(*words)
