"""What a run directory may name: components and one's own modules. What one composes oneself may name anything."""

import sys
from pathlib import Path

import pytest

from contrastive.cli.evaluate import evaluate_runs, parse_args
from contrastive.config.targets import check_targets
from contrastive.errors import ConfigError
from contrastive.experiment.api import Result
from tests.helpers import compose_settings, write_files, write_finished

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
        write_files(tmp_path, {f"{place}.py": source if "library" not in place else "open('EVIL', 'w')"})
        monkeypatch.syspath_prepend((tmp_path / place).parent)
    monkeypatch.chdir(tmp_path / "here")
    here, elsewhere = Path("."), tmp_path / "elsewhere"
    check_targets({"loss": {"_target_": "my_loss_of_here.Loss"}}, [here])
    check_targets({"loss": {"_target_": "my_loss_of_elsewhere.Loss"}}, [elsewhere])
    for target, folders, typed in (
        ("my_loss_of_here.Loss", [], "try --config-dir FOLDER, that of my_loss_of_here.py"),
        ("my_loss_of_here.Loss", [elsewhere], "try --config-dir FOLDER, that of my_loss_of_here.py"),
        ("my_loss_of_here.system", [here], "is neither a component"),
        ("my_loss_of_elsewhere.Loss", [here], "try --config-dir FOLDER, that of my_loss_of_elsewhere.py"),
        ("my_library.Loss", [here], "is neither a component"),
        ("__main__.Loss", [here], "try another run"),
    ):
        with pytest.raises(ConfigError, match=typed):
            check_targets({"loss": {"_target_": target}}, folders)
    assert not list(tmp_path.rglob("EVIL"))


@pytest.mark.parametrize("place", [".", "run"])
@pytest.mark.parametrize(
    ("use", "group"),
    [
        *((lambda path: evaluate_runs(parse_args([path])), group) for group in ("encoder", "dataset", "augmentation")),
        (lambda path: Result(path).encoder(), "encoder"),
    ],
)
def test_a_module_that_came_with_a_run_is_not_imported(place, group, use, tmp_path, monkeypatch):
    """The shell stands where the archive was unpacked, or in the run itself."""
    evil = f"evil_{tmp_path.name}"  # a name that no earlier case has imported
    config = {**compose_settings().to_dict(), group: {"_target_": f"{evil}.Thing"}}
    write_finished(tmp_path / "run", config=config, environment={})
    (tmp_path / "run/encoder.safetensors").touch()
    (tmp_path / place / f"{evil}.py").write_text("open('EVIL', 'w')\nclass Thing: pass\n")
    monkeypatch.chdir(tmp_path / place)
    monkeypatch.setattr("sys.path", [str(Path.cwd()), *sys.path])  # as python -m has it
    advice = f"if you know what {evil} does, try --config-dir FOLDER, that of {evil}.py"
    with pytest.raises(ConfigError, match=rf"{group}\._target_={evil}\.Thing is neither a component.*{advice}"):
        use(str(tmp_path / "run"))
    assert not list(tmp_path.rglob("EVIL"))
