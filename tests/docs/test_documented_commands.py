"""Every documented command about finished runs is run as it is typed, on small runs of the digits."""

import re
import shlex
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from contrastive.__main__ import COMMANDS
from contrastive.experiment.run import run_experiment
from tests.helpers import ROOT, TINY, compose_settings

pytestmark = pytest.mark.slow
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPED = re.compile(r"contrastive (evaluate|verify|export|report|page) ([^`\n]*)")
RUNS = {f"outputs/digits/{loss}/default/seed=0": loss for loss in ("debiased_pos", "nt_xent")}
STUDIES = str(ROOT / "studies")
STANDS_FOR = {  # what a reader would put there; CIFAR-10 and STL-10 are not at hand
    "RUN": [*RUNS], "DIR": ["hub"], "FOLDER": [f"{STUDIES}/biased_digits"],
    "outputs/compare": [f"{STUDIES}/hard_or_temperature"], "outputs/cifar10": ["outputs/digits"],
    "dataset=cifar10": ["dataset=biased_digits"], "dataset=stl10": ["dataset=biased_digits"],
}  # fmt: skip
# those of docs/biased.md run on data of their own, in tests/docs/test_shown_pages.py
FOUND = {found for page in PAGES if page.name != "biased.md" for found in TYPED.findall(page.read_text())}
DOCUMENTED = sorted((name, re.split(r"  +#", rest)[0].strip()) for name, rest in FOUND)


def filled_in(words: list[str]) -> list[str]:
    """The words with every placeholder replaced; the second RUN of a command is another one."""
    left = {word: list(others) for word, others in STANDS_FOR.items()}
    return [left[word].pop(0) if word in left else word for word in words]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runs that the commands name."""
    folder = tmp_path_factory.mktemp("documented")
    for path, loss in RUNS.items():
        run_experiment(compose_settings(*TINY, "epochs=1", f"loss={loss}"), folder / path)
    return folder


def test_commands_are_found() -> None:
    assert {name for name, _ in DOCUMENTED} == {"evaluate", "verify", "export", "report", "page"}
    assert len(DOCUMENTED) > 15


@pytest.mark.parametrize(("name", "typed"), DOCUMENTED)
def test_a_documented_command_runs(
    name: str, typed: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shutil.copytree(trained, tmp_path / "here"))
    assert import_module(f"contrastive.{COMMANDS[name][0]}").main(filled_in(shlex.split(typed))) == 0
