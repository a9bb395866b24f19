"""What a run directory may name: components and one's own modules. What one composes oneself may name anything."""

import json

import pytest
import torch
import yaml
from safetensors.torch import save_file

from contrastive.config.targets import check_targets, load_target
from contrastive.errors import ConfigError
from contrastive.experiment.api import Result
from tests.helpers import EMPTY_RESULT, SOUND_CONFIG

HUB = "contrastive.encoder.torchvision.torch.hub.load"
REFUSED = [
    "os.system", "builtins.eval", "torch.load", "torch.hub.load", "subprocess.Popen", "pathlib.Path.write_text",
    "hydra.utils.instantiate", "functools.partial", "pickle.loads", "numpy.load", "yaml.unsafe_load",
    "torch.utils.cpp_extension.load", "timm.create_model", "torchvision.datasets.CIFAR10", "my_nothing.Loss",
    # of this project, but no component
    "contrastive.files.write_text", "contrastive.make", "contrastive.pretrain", "contrastive.cli.train.main",
    "tests.forked.run", "scripts.reproduce_table.main", "train.main", "contrastive.dataset.download.fetch",
    # names that begin well and end elsewhere
    HUB, "contrastive.dataset.cifar.torch.load", "contrastive.dataset.image_folder.Path", "contrastive.loss.__import__",
    "contrastive.encoder.resnet.ResNet.load_state_dict", "torch.nn.modules.module.torch.load", "torch.nn.modules",
    "torchvision.models.resnet.load_state_dict_from_url", "torchvision.models._api.inspect.sys", "torch.optim.os.x",
    # no names
    "", "open", "os..system", "os.system()", "${evil}", None, 5, ["os.system"], {"_target_": "os.system"},
]  # fmt: skip
ALLOWED = [
    "contrastive.NTXent", "contrastive.loss.nt_xent.NTXent", "contrastive.dataset.image_folder.image_folder",
    "torch.nn.ReLU", "torch.nn.modules.activation.ReLU", "torch.optim.SGD", "torchvision.models.resnet18",
]  # fmt: skip


@pytest.mark.parametrize("target", REFUSED, ids=str)
def test_what_a_run_directory_may_not_name(target):
    evil = {"_target_": target}
    for node in (evil, {"_target_": "torch.nn.ReLU", "a": {"b": [[evil]]}}, {"_args_": [evil], "_partial_": True}):
        with pytest.raises(ConfigError, match="try "):
            check_targets({"loss": node})


@pytest.mark.parametrize("target", ALLOWED)
def test_what_a_run_directory_may_name(target):
    check_targets({"loss": {"_target_": target, "a": [{"_target_": "torch.nn.ReLU"}]}, "regularizer": None})


def test_a_module_of_yours_lies_in_a_folder_that_you_name(tmp_path, monkeypatch):
    source = "from os import system\nclass Loss: pass\n"
    for place in ("here/my_loss_of_here", "elsewhere/my_loss_of_elsewhere", "here/.venv/site-packages/my_library"):
        path = tmp_path / f"{place}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source if "library" not in place else "open('EVIL', 'w')")
        monkeypatch.syspath_prepend(path.parent)
    monkeypatch.chdir(tmp_path / "here")
    check_targets({"loss": {"_target_": "my_loss_of_here.Loss"}})
    for target in ("my_loss_of_elsewhere.Loss", "my_library.Loss", "my_loss_of_here.system"):
        with pytest.raises(ConfigError, match="try --config-dir with the folder of the module"):
            check_targets({"loss": {"_target_": target}})
    check_targets({"loss": {"_target_": "my_loss_of_elsewhere.Loss"}}, [tmp_path / "elsewhere"])
    assert not list(tmp_path.rglob("EVIL"))


def test_a_strangers_run_runs_nothing(tmp_path, monkeypatch):
    """Its encoder is a model whose hubconf.py would be run."""
    (tmp_path / "hubconf.py").write_text("open('EVIL', 'w')\ndef x():\n    return 1\n")
    evil = {"_target_": HUB, "repo_or_dir": str(tmp_path), "model": "x", "source": "local"}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**SOUND_CONFIG, "encoder": evil}))
    (tmp_path / "result.json").write_text(json.dumps(EMPTY_RESULT))
    save_file({"x": torch.zeros(1)}, tmp_path / "encoder.safetensors")
    with pytest.raises(ConfigError, match="is no component"):
        Result(tmp_path).encoder()
    assert not (tmp_path / "EVIL").exists()


def test_a_composed_class_may_be_any_that_can_be_imported():
    assert load_target("collections.Counter")([1])[1] == 1
    with pytest.raises(ConfigError, match=r"contrastive\.loss\.nt_xent\.Nothing cannot be imported"):
        load_target("contrastive.loss.nt_xent.Nothing")
