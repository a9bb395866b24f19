"""What produced a run, as it is recorded."""

import shlex
import shutil
import subprocess
import sys

import pytest

from contrastive.run import provenance as environment
from contrastive.run.provenance import typed_command


def test_the_recorded_command_can_be_typed_again(monkeypatch):
    words = ["-m", "seed=0,1", "dataset.root=my images", "evaluator=[knn,linear]"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/train.py", *words])
    assert shlex.split(typed_command([])) == ["train.py", *words]


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
def test_the_commit_is_that_of_this_package_and_of_no_folder_around_it(monkeypatch, tmp_path):
    """A package in the site-packages of somebody else's project."""
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "theirs"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    assert len(environment._git("rev-parse", "HEAD") or "") == 40
    (tmp_path / ".venv/lib").mkdir(parents=True)
    monkeypatch.setattr(environment, "ROOT", tmp_path / ".venv/lib")
    assert environment._git("rev-parse", "HEAD") is None
