"""What produced a run, as it is recorded: the command, the code, the processor."""

import importlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from contrastive.cli.sweep import record_jobs
from contrastive.errors import ConfigError
from contrastive.files import file_hash
from contrastive.run import provenance
from contrastive.run.provenance import code_record, module_hashes, typed_command
from tests.helpers import write_files

WHO = ["-c", "user.name=a", "-c", "user.email=a@b.c"]


def git(folder, *words):
    subprocess.run(["git", "-C", str(folder), *words], check=True)


LOSS = "contrastive/loss.py"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A package in a checkout of its own."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    git(tmp_path, "init", "-q")
    (tmp_path / "contrastive").mkdir()
    (tmp_path / LOSS).write_text('"""A loss."""\n')
    git(tmp_path, "add", LOSS)
    git(tmp_path, *WHO, "commit", "-q", "-m", "first")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    yield tmp_path
    provenance._checkout.cache_clear()


def code_now():
    """As in a new process."""
    provenance._checkout.cache_clear()
    return code_record({})


def test_the_recorded_command_can_be_typed_again(monkeypatch):
    words = ["-m", "seed=0,1", "dataset.root=my images", "evaluator=[knn,linear]"]
    added = [*record_jobs(Path("/tmp/jobs")), "hydra/launcher=cores"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/train.py", *words, *added])
    assert shlex.split(typed_command([])) == ["train.py", *words]


def test_other_code_is_told_from_another_commit(checkout):
    clean = code_now()
    assert (len(clean["commit"]), clean["dirty"]) == (40, False)
    (checkout / "notes.txt").write_text("of no consequence")
    assert code_now() == {**clean, "dirty": True}
    git(checkout, "add", "notes.txt")
    git(checkout, *WHO, "commit", "-q", "-m", "second")
    noted = code_now()
    assert noted["commit"] != clean["commit"]
    assert noted["code"] == clean["code"]
    (checkout / "contrastive/cli").mkdir()
    (checkout / "contrastive/cli/mine.py").write_text("a command is no code of a run")
    (checkout / "contrastive/.#loss.py").symlink_to("nowhere")  # as Emacs leaves one
    assert code_now()["code"] == clean["code"]
    (checkout / LOSS).write_bytes(b"# caf\xe9, no UTF-8\n")
    edited = code_now()
    assert (edited["commit"], edited["dirty"]) == (noted["commit"], True)
    (checkout / "contrastive/mine.py").write_text("not in git yet")
    added = code_now()
    (checkout / "contrastive/mine.py").rename(checkout / "contrastive/yours.py")
    assert len({record["code"] for record in (clean, edited, added, code_now())}) == 4


def test_an_edit_during_a_process_is_not_what_it_runs(checkout):
    before = code_now()
    (checkout / LOSS).write_text("")
    assert code_record({}) == before


def test_commit_is_that_of_this_package(checkout, monkeypatch):
    """A package in the site-packages of somebody else's project."""
    (checkout / ".venv/lib").mkdir(parents=True)
    monkeypatch.setattr(provenance, "ROOT", checkout / ".venv/lib")
    record = code_now()
    assert (record["commit"], record["dirty"]) == (None, None)
    assert len(record["code"]) == 16


def test_a_module_that_was_edited_after_it_was_imported_is_refused(tmp_path, monkeypatch):
    """In a notebook the old code would run, and the new code's hash be recorded."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("my_first_hashed", "my_first_imported"):
        (tmp_path / f"{name}.py").write_text("X = 1\n")
        config = {"loss": {"_target_": f"{name}.X"}}
        before = module_hashes(config) if name == "my_first_hashed" else {}
        module = importlib.import_module(name)
        assert before in ({}, module_hashes(config))
        module_hashes(config)
        (tmp_path / f"{name}.py").write_text("X = 23\n")
        with pytest.raises(ConfigError, match=rf"{name}\.py is not the {name} .* try a new Python"):
            module_hashes(config)
        importlib.reload(module)
        assert module_hashes(config)[name] == file_hash(tmp_path / f"{name}.py")


def test_what_an_installer_put_into_another_folder_is_no_code_of_ones_own(tmp_path, monkeypatch):
    """As `pip install --target` and shared machines do; it is known by its *.dist-info."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    places = ("mine/own_user.py", "theirs/library_one.py", "theirs/library_two/__init__.py")
    write_files(tmp_path, dict.fromkeys(places, "import library_one, library_two\n"))
    (theirs / "library_one-1.0.dist-info").mkdir()
    for folder in (mine, theirs):
        monkeypatch.syspath_prepend(str(folder))
    assert provenance.own_modules(["own_user.f", "library_two.g"]) == {"own_user": mine / "own_user.py"}


def test_modules_of_ones_own_and_what_lies_beside_them_are_hashed_without_importing_them(tmp_path, monkeypatch):
    """Of a package all modules. Beside a module in the folder that one stands in lie other programs."""
    places = ("own_a.py", "own_b.py", "own_pack/__init__.py", "own_pack/deep/inner.py", "own_space/near.py")
    write_files(tmp_path, dict.fromkeys(places, "def (\n"))
    monkeypatch.syspath_prepend(str(tmp_path))
    config = {
        "loss": {"_target_": "own_a.Loss"},
        "augmentation": {"ops": [{"_target_": "own_pack.deep.inner.Op.make"}]},
        "head": {"_target_": "contrastive.head.mlp.MLP"},
        "optimizer": {"_target_": "torch.optim.SGD"},
        "encoder": {"_target_": "nowhere.to.be.Found"},
    }
    before, code = module_hashes(config), code_record(config)["code"]
    assert list(before) == ["own_a", "own_b", "own_pack", "own_pack.deep.inner", "own_space.near"]
    (tmp_path / "own_b.py").write_text("of a helper")
    assert [name for name, own in module_hashes(config).items() if own != before[name]] == ["own_b"]
    assert code_record(config)["code"] != code
    monkeypatch.chdir(tmp_path)
    assert list(module_hashes(config)) == ["own_a", "own_pack", "own_pack.deep.inner"]
    assert not {"own_a", "own_pack", "own_space"} & sys.modules.keys()
