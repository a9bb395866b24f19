"""The documentation is true: its commands compose, its Python runs, its links and names exist."""

import importlib.util
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from tables.spec import table_paths

import contrastive
from contrastive.config.reference import option_files
from contrastive.config.settings import Settings
from contrastive.config.words import quote_paths
from contrastive.experiment.components import build_evaluators, build_hooks, build_loss, instantiate_node
from contrastive.experiment.run import run_experiment
from contrastive.run.files import LAST
from contrastive.run.weights import content_hash
from contrastive.training.step import STATEFUL
from tests.helpers import ROOT, TINY, check_resumes, compose_settings, logged_lines, run_named, write_files

GUIDES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "studies").rglob("*.md")),
]
HELP = ROOT / "configs/hydra/help/contrastive.yaml"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^`([\w/]+\.(?:py|yaml))`\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:python|torchrun[^\n`]*) train\.py([^\n`]*)")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands(path: Path) -> list[str]:
    """The words after `train.py` of every command in a page; what follows two blanks or a # is a comment.

    Tab completion (-sc) composes nothing and is left out.
    """
    text = re.sub(r"\s*\\\n\s*", " ", path.read_text())
    typed = [re.split(r"  +| #", rest.strip())[0] for rest in COMMAND.findall(text) if " -sc " not in rest]
    return list(dict.fromkeys(typed))


# every command once, in the first page that has it; those of the README in make test
COMMANDS = [
    pytest.param(path, words, id=f"{path.name}:{words}", marks=pytest.mark.smoke if path.name == "README.md" else ())
    for words, path in {words: path for path in (HELP, *reversed(GUIDES)) for words in commands(path)}.items()
]


def files(path: Path) -> dict[str, str]:
    """{name: content} of the blocks that follow a line with the name of a file."""
    return dict(FILE.findall(path.read_text()))


def slug(heading: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sweep_values(override: Override) -> list[str]:
    """`key=value` for each value that a sweep gives the key."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if override.is_interval_sweep():
        return [f"{override.get_key_element()}={override.value().start}"]  # type: ignore[union-attr]
    return [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]


def jobs(words: str) -> list[list[str]]:
    """The overrides of a command, in as many jobs as it takes to use every value of every swept key once."""
    arguments = shlex.split(words.replace("PATH", "/images"))
    if "--config-dir" in arguments:
        place = arguments.index("--config-dir")
        del arguments[place : place + 2]
    overrides = quote_paths([word for word in arguments if "=" in word])
    values = [sweep_values(override) for override in OverridesParser.create().parse_overrides(overrides)]
    length = max(map(len, values), default=1)
    return [[choices[min(i, len(choices) - 1)] for choices in values] for i in range(length)]


def installed(job: list[str]) -> bool:
    """Whether the plugin that a job needs is installed: Ray is an extra that `make setup` leaves out."""
    return "hydra/launcher=gpus" not in job or importlib.util.find_spec("hydra_plugins.hydra_ray_launcher") is not None


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Path]]:
    """written(page): a folder that holds the files of a page, as working directory and on the path of modules."""
    modules = set(sys.modules)

    def write(page: Path) -> Path:
        return write_files(tmp_path, files(page))

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield write
    for name in set(sys.modules) - modules:
        if name.startswith("my_"):
            del sys.modules[name]


def settings(job: list[str], folder: Path) -> Settings:
    """The settings that a command composes, with the YAMLs of `folder`/mine."""
    mine = [f"hydra.searchpath=[file://{folder}/mine]"] if (folder / "mine").exists() else []
    return compose_settings(*job, *mine)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "words"), COMMANDS)
def test_commands_compose_and_build(page: Path, words: str, written: Callable[[Path], Path]) -> None:
    folder = written(page)
    for job in filter(installed, jobs(words)):
        composed = settings(job, folder)
        build_evaluators(composed.evaluator)
        build_hooks("hook", composed.hook)
        build_loss(composed.loss)
        for node in (composed.regularizer, composed.augmentation, composed.schedule):
            if node:
                instantiate_node(node)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_blocks"), [("README.md", 1), ("docs/images.md", 1), ("docs/encoders.md", 2)])
def test_python_of_the_documentation_runs(written: Callable[[Path], Path], name: str, n_blocks: int) -> None:
    page = ROOT / name
    folder = written(page)
    path = folder / "outputs/digits/debiased_pos/default/seed=0"
    run_experiment(settings(["loss=debiased_pos", "epochs=0", "evaluator=[]", "device=cpu"], folder), path)
    named = set(files(page).values())
    blocks = [text for kind, text in FENCE.findall(page.read_text()) if kind == "python" and text not in named]
    assert len(blocks) == n_blocks
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)


def test_components_of_contributing_train_together(written: Callable[[Path], Path]) -> None:
    page = ROOT / "docs/components.md"
    folder = written(page)
    (command,) = [words for words in commands(page) if "loss=my_loss" in words]
    (hook,) = [words for words in commands(page) if "hook=" in words]
    (job,) = jobs(command)
    used = {word.split("=")[1] for word in job[:-1]} | {"spread", "my_queue", "weight_norm"}
    assert used == {Path(name).stem for name in files(page) if name.endswith(".yaml")}
    words = [*job, *jobs(hook)[0], "hook.weight_norm.every=2", "device=cpu"]
    assert set(run_experiment(settings(words, folder), folder / "run")["test"]) == {"knn_top1", "spread"}
    norms = {line["step"]: line["weights/norm"] for line in logged_lines(folder / "run") if "weights/norm" in line}
    assert [*norms][:2] == [2, 4] and min(norms.values()) > 1


@pytest.mark.slow
def test_queue_of_contributing_resumes_exactly(written: Callable[[Path], Path]) -> None:
    folder = written(ROOT / "docs/components.md")
    contrastive.check_loss(importlib.import_module("my_queue").Queue(size=8))
    words = [*TINY, "loss=my_queue", "loss.size=300", "checkpoint_every=1"]
    check_resumes(9, settings(words, folder), folder)  # of 15 steps, inside the second epoch
    one, two = (torch.load(folder / run / LAST, weights_only=True) for run in ("whole", "cut"))
    assert (one["objective"]["loss.queue"].norm(dim=1) > 0.99).all()  # it is full
    assert all(content_hash(one[part]) == content_hash(two[part]) for part in STATEFUL)


def test_the_readme_counts_losses_and_regularizers() -> None:
    told = re.search(r"(\d+) contrastive losses and regularizers", (ROOT / "README.md").read_text())
    assert told and int(told[1]) <= len({*option_files("loss"), *option_files("regularizer")} - {"none"})


def test_run_directory_of_the_readme_is_the_one_used() -> None:
    shown = re.search(r"^run directory +outputs/(\S+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert shown is not None
    assert shown[1] == run_named("loss=debiased_pos", "tau_plus=0.1")


@pytest.mark.parametrize("page", [*GUIDES, ROOT / "CHANGELOG.md"], ids=relative)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = page.read_text()
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if target.startswith("http"):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"there is no {target}"
        if anchor:
            there = file.read_text()
            rows = re.findall(r'<a id="(\w+)"', there)
            assert anchor in {*map(slug, re.findall(r"^#+ (.+)$", there, re.MULTILINE)), *rows}
    labels = set(re.findall(r"^\[([\w-]+)\]: https://\S+$", text, re.MULTILINE))
    assert set(re.findall(r"\]\[([\w-]+)\]", text)) == labels, "a label without address, or without use"


@pytest.mark.parametrize("page", GUIDES, ids=relative)
def test_targets_tables_modules_and_scripts_exist(page: Path) -> None:
    text = page.read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)) <= targets
    assert set(re.findall(r"TABLE=(\w+)", text)) <= table_paths().keys()
    assert all((ROOT / script).exists() for script in re.findall(r"\b(?:scripts|studies|docs/make)/[\w/]+\.py", text))
    for module in re.findall(r"python -m (contrastive[\w.]*)", text):
        is_package = (ROOT / module.replace(".", "/")).is_dir()
        assert importlib.util.find_spec(f"{module}.__main__" if is_package else module) is not None, module


def test_paths_in_the_architecture_exist() -> None:
    page = (ROOT / "docs/dev/architecture.md").read_text()
    names = re.findall(r"`([a-z_]+/[\w/]*(?:\.py|\.yaml|\.md|(?<=/)))`", page)
    assert len(names) > 20
    for name in names:
        assert (ROOT / "contrastive" / name).exists() or (ROOT / name).exists(), name


def test_citation_and_changelog_name_the_version_and_the_address_of_the_package() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    changelog = (ROOT / "CHANGELOG.md").read_text()
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert citation["version"] == contrastive.__version__ == re.search(r"^## ([\d.]+)", changelog, re.MULTILINE)[1]
    assert citation.get("repository-code") == urls.get("Repository")
