"""The hash of the code: what counts as the code of a run."""

import sys

import pytest

from contrastive.config.targets import load_target
from contrastive.errors import ConfigError
from contrastive.run.provenance import _first_seen, code_hash, module_of, user_files

FILES = {
    "my_hash_loss.py": (
        "import torch\nfrom my_hash_helper import twice\nfrom my_hash_folder.maths import THREE\n"
        "\nclass MyLoss:\n    pass\n"
    ),
    "my_hash_helper.py": (
        "from importlib import import_module\nimport_module(name='my_hash_dynamic')\n"
        "def twice(x):\n    from my_hash_package.deep import half\n    return half(x) * 4\n"
    ),
    "my_hash_package/__init__.py": "",
    "my_hash_package/deep.py": (
        "from . import beside\nfrom importlib import import_module\nimport_module('.last', __package__)\n"
        "\ndef half(x):\n    return x / 2\n"
    ),
    "my_hash_package/beside.py": "VALUE = 1\n",
    "my_hash_package/last.py": "__import__('/')\nimport torch, numpy, statistics\n",
    "my_hash_folder/maths.py": "from .more import other\nTHREE = 3\n",
    "my_hash_folder/more/other.py": "VALUE = 1\n",
    "my_hash_dynamic.py": "VALUE = 1\n",
    "my_hash_unused.py": "VALUE = 1\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder: a loss, a helper it imports, and a package that the helper imports inside a function."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("my_hash_loss")
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("my_hash")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_the_loss_leads_to_counts(folder, name):
    before = code_hash({"my_hash_loss.MyLoss"})
    with (folder / name).open("a") as file:
        file.write("# changed\n")
    is_used = name != "my_hash_unused.py"
    if is_used:  # this process imported what the file was
        with pytest.raises(ConfigError, match="changed since this program began: try the same command again"):
            code_hash({"my_hash_loss.MyLoss"})
    _first_seen.cache_clear()  # as in a new process
    assert (code_hash({"my_hash_loss.MyLoss"}) != before) == is_used


def test_files_are_named_by_module(folder):
    assert set(user_files("my_hash_loss")) == {
        "my_hash_loss", "my_hash_helper", "my_hash_package", "my_hash_package.deep", "my_hash_package.beside",
        "my_hash_package.last",
        "my_hash_folder.maths", "my_hash_folder.more.other", "my_hash_dynamic",
    }  # fmt: skip


def test_a_loss_in_a_package_made_by_a_method_and_helped_from_another_folder(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "my_hash_pack").mkdir(parents=True)
    second.mkdir()
    for folder in (first, second):
        monkeypatch.syspath_prepend(str(folder))
    (first / "my_hash_pack/__init__.py").write_text("")
    (first / "my_hash_pack/loss.py").write_text("import my_hash_beyond\n\nclass L:\n    make = classmethod(print)\n")
    (second / "my_hash_beyond.py").write_text("")
    names = {"my_hash_pack", "my_hash_pack.loss", "my_hash_beyond"}
    assert module_of("my_hash_pack.loss.L") == module_of("my_hash_pack.loss.L.make") == "my_hash_pack.loss"
    assert set(user_files("my_hash_pack.loss")) == names
    for name in ("my_hash_pack.loss.L", "my_hash_pack.loss.L.make"):
        assert code_hash({name}) != code_hash(set())


def test_components_of_this_package_and_of_torch_add_nothing():
    assert code_hash({"torch.optim.SGD", "contrastive.loss.nt_xent.NTXent"}) == code_hash(set())


def test_of_an_installed_package_only_the_module_counts():
    assert list(user_files("torchvision.models")) == ["torchvision.models"]


def test_an_edit_between_import_and_the_first_run_is_noticed(folder):
    (folder / "my_hash_late.py").write_text("class Late:\n    pass\n")
    load_target("my_hash_late.Late")
    (folder / "my_hash_late.py").write_text("class Late:\n    x = 1\n")
    with pytest.raises(ConfigError, match="changed since this program began"):
        code_hash({"my_hash_late.Late"})
