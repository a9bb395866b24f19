"""A configuration is data, not a program: what is refused, and that nothing was imported or run before it was."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from omegaconf import OmegaConf
from safetensors.torch import save_file

from contrastive.cli.evaluate import parse_args
from contrastive.config.compose import limited_environment
from contrastive.config.targets import check_targets, load_target
from contrastive.errors import ConfigError
from contrastive.experiment.api import Result, pretrain
from contrastive.tables.spec import read_table
from tests.helpers import EMPTY_RESULT, ONE_THREAD, ROOT, program
from tests.hostile import DRY, call

HUB = "contrastive.encoder.torchvision.torch.hub.load"
HOSTILE = [
    "os.system", "builtins.eval", "builtins.open", "builtins.exec", "torch.load", "torch.hub.load", "subprocess.Popen",
    "pathlib.Path.write_text", "importlib.import_module", "hydra.utils.get_object", "hydra.utils.instantiate",
    "functools.partial", "joblib.load", "pickle.loads", "numpy.load", "runpy.run_path", "ctypes.CDLL",
    "torch.utils.cpp_extension.load", "torch.ops.load_library", "contrastive.files.write_text",
    "contrastive.run.directory.torch.load", "contrastive.cli.train.os.system", "contrastive.loss.__import__",
    "_posixsubprocess.fork_exec", "open", "", "os..system", "os.system()", "torch", "torchvision.datasets.CIFAR10",
    "contrastive._x.y", "optuna.load_study", "timm.create_model", "yaml.unsafe_load",
]  # fmt: skip


def settings(**nodes: object) -> dict[str, object]:
    """A configuration whose components are sound unless given."""
    groups = ("dataset", "augmentation", "encoder", "head", "loss", "regularizer", "optimizer", "schedule")
    sound = {group: {"_target_": "contrastive.loss.nt_xent.NTXent"} for group in groups}
    return {**sound, "evaluator": {}, "seed": 0, **nodes}


def refuse(node: object, folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        check_targets(settings(loss=node), trust=[], folders=[folder])
    assert "try " in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("target", HOSTILE)
def test_hostile_targets_are_refused_by_name_wherever_they_are_nested(target, tmp_path):
    evil = {"_target_": target, "command": "touch EVIL"}
    for node in (
        evil,
        {"_target_": "torch.nn.ReLU", "a": {"b": [[evil]]}},
        {"_target_": "torch.nn.ReLU", "_args_": [evil], "_partial_": True},
        {"a": 1, "_target_": "contrastive.loss.nt_xent.NTXent", "more": {**evil, "_partial_": True}},
    ):
        assert target in refuse(node, tmp_path)


@pytest.mark.parametrize("target", [None, 5, ["os.system"], {"_target_": "os.system"}, True])
def test_a_target_that_is_no_name_is_refused(target, tmp_path):
    refuse({"_target_": target}, tmp_path)


def test_an_escaped_interpolation_would_be_resolved_after_the_check(tmp_path):
    assert "escaped" in refuse({"_target_": "torch.nn.ReLU", "x": "${oc.decode:os.system}"}, tmp_path)
    assert "dotted name" in refuse({"_target_": "${evil}"}, tmp_path)


@pytest.mark.parametrize("group", ["loss", "encoder", "dataset", "schedule"])
@pytest.mark.parametrize("node", [{}, None, [], "x", {"temperature": 0.5}])
def test_a_component_without_a_target_is_named(group, node):
    with pytest.raises(ConfigError, match=f"the YAML of {group} has no _target_"):
        check_targets(settings(**{group: node}), trust=[], folders=[])
    check_targets(settings(regularizer=None), trust=[], folders=[])


def test_a_users_module_is_trusted_by_its_place_or_by_its_name(tmp_path, monkeypatch):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder, module in ((here, "my_loss_of_here"), (elsewhere, "my_loss_of_elsewhere")):
        folder.mkdir()
        (folder / f"{module}.py").write_text("raise SystemExit('imported')")
        monkeypatch.syspath_prepend(folder)
    installed = here / ".venv/lib/site-packages"
    installed.mkdir(parents=True)
    (installed / "a_library_of_here.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(installed)
    check_targets(settings(loss={"_target_": "my_loss_of_here.Loss"}), trust=[], folders=[here])
    assert "trust=[my_loss_of_elsewhere]" in refuse({"_target_": "my_loss_of_elsewhere.Loss"}, here)
    assert "trust=[a_library_of_here]" in refuse({"_target_": "a_library_of_here.load"}, here)
    assert "does not find" in refuse({"_target_": "my_loss_of_nowhere.Loss"}, here)
    for folders, trust in (([here, elsewhere], []), ([here], ["my_loss_of_elsewhere"])):
        check_targets(settings(loss={"_target_": "my_loss_of_elsewhere.Loss"}), trust=trust, folders=folders)


@pytest.mark.parametrize(
    "target",
    ["contrastive.dataset.cifar.torch.load", "contrastive.loss.base.torch.hub.load", "torch.nn.functional.relu",
     "contrastive.dataset.image_folder.Path", "contrastive.dataset.cifar.fetch", "torch.nn.modules.module.torch.load",
     "torchvision.models.resnet.load_state_dict_from_url", "torchvision.models._api.inspect.sys", "torch.optim.os.x",
     "contrastive.dataset.image_folder.re.compile", "contrastive.loss.nt_xent.Nothing", "torch.nn.modules",
     "contrastive.encoder.resnet.ResNet.load_state_dict", "contrastive.ConfigError", "contrastive.make"],
)  # fmt: skip
def test_a_name_that_begins_well_and_ends_elsewhere_is_refused(target):
    with pytest.raises(ConfigError, match="try "):
        load_target(target)


@pytest.mark.parametrize("kind", ["contrastive.encoder.torchvision.torch.hub.load", "torch.nn.Sequential"])
def test_nothing_is_built_that_only_begins_well(kind, tmp_path, monkeypatch):
    """However it is reached: a run of somebody else names a model whose hubconf.py would be run."""
    (tmp_path / "hubconf.py").write_text("open('EVIL', 'w')\ndef x():\n    return 1\n")
    evil = {"_target_": HUB, "repo_or_dir": str(tmp_path), "model": "x", "source": "local"}
    node = {**evil, "_target_": kind} if kind == HUB else {"_target_": kind, "_args_": [evil]}
    monkeypatch.chdir(tmp_path)
    config = settings(encoder=node, dataset={"_target_": "contrastive.dataset.digits.digits"}, channels_last=False)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "result.json").write_text(json.dumps(EMPTY_RESULT))
    save_file({"x": torch.zeros(1)}, tmp_path / "encoder.safetensors")
    with pytest.raises(ConfigError, match="is no component"):
        Result(tmp_path).encoder()
    assert not (tmp_path / "EVIL").exists()


@pytest.mark.parametrize(
    "target",
    ["contrastive.NTXent", "contrastive.dataset.image_folder.image_folder", "torch.nn.ReLU", "torch.optim.SGD",
     "torchvision.models.resnet18", "torch.nn.modules.activation.ReLU"],
)  # fmt: skip
def test_components_are_let_in(target):
    check_targets(settings(loss={"_target_": target}), trust=[], folders=[])
    assert callable(load_target(target))


@pytest.mark.parametrize("node", [
    {"weights": "DEFAULT"}, {"pretrained": True}, {"_args_": [True]}, {"weights_backbone": "DEFAULT"}
])  # fmt: skip
def test_weights_that_torchvision_would_unpickle_are_refused(node, tmp_path):
    said = refuse({"_target_": "torchvision.models.resnet18", **node}, tmp_path)
    assert "would load unchecked weights: try encoder=torchvision encoder.pretrained=true" in said
    check_targets(
        settings(encoder={"_target_": "torchvision.models.resnet18", "weights": None, "_args_": []}),
        trust=[],
        folders=[],
    )
    with pytest.raises(ConfigError, match="no component"):  # fetches the weights of its backbone unless told not to
        load_target("torchvision.models.segmentation.fcn_resnet50")
    with pytest.raises(ConfigError, match="no component"):
        load_target("torchvision.models.get_model")


@pytest.mark.parametrize(
    "target", ["subprocess.Popen", "shutil.rmtree", "pathlib.Path.write_text", "logging.FileHandler"]
)
def test_the_standard_library_is_nobodys_folder(target):
    for folder in (sys.base_prefix, "/"):
        assert "is of Python's own library: try trust=[" in refuse({"_target_": target}, Path(folder))


def test_packages_beside_the_standard_library_are_nobodys_either(tmp_path, monkeypatch):
    """Such as `test`, which Python's list of its own modules leaves out."""
    (tmp_path / "a_part_of_python.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    check_targets(settings(loss={"_target_": "a_part_of_python.X"}), trust=[], folders=[Path("/")])
    monkeypatch.setattr("contrastive.config.targets.sysconfig.get_path", lambda name: str(tmp_path))
    assert "lies neither in this folder" in refuse({"_target_": "a_part_of_python.X"}, Path("/"))


@pytest.mark.slow
@pytest.mark.parametrize(("root", "said"), [
    ("trust: [logging]", "trust=[logging] stands in a YAML"),
    ("trust: [logging]\nhydra: {overrides: {task: ['trust=[logging]']}}", "hydra.overrides is what was typed"),
    ("hydra: {mode: MULTIRUN, sweeper: {params: {'++trust': '[logging]'}}}", "trust=[logging] stands in a YAML"),
    (
        "hydra: {mode: MULTIRUN, sweeper: {params: '${hydra.job_logging.x}'}, job_logging: {x: {trust: '[logging]'}}}",
        "trust=[logging] stands in a YAML",
    ),
])  # fmt: skip
def test_a_yaml_cannot_vouch_for_itself(root, said, tmp_path):
    (tmp_path / "mine/loss").mkdir(parents=True)
    loss = "loss: {_target_: logging_of_mine.Door, file: EVIL}"
    (tmp_path / "elsewhere").mkdir()
    door = "class Door:\n    def __init__(self, file):\n        open(file, 'w')\n"
    (tmp_path / "elsewhere/logging_of_mine.py").write_text(door)
    text = f"# @package _global_\n{root}\n{loss}\n".replace("[logging]", "[logging_of_mine]")
    (tmp_path / "mine/loss/evil.yaml").write_text(text)
    (tmp_path / "run").mkdir()
    done = program(
        "--config-dir", str(tmp_path / "mine"), "loss=evil", "dry_run=true", cwd=tmp_path / "run",
        env={**ONE_THREAD, "PYTHONPATH": str(tmp_path / "elsewhere")},
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert said.replace("[logging]", "[logging_of_mine]") in done.stderr
    assert not list(tmp_path.rglob("EVIL"))


def test_a_dataset_cannot_vouch_for_itself_in_an_evaluation(tmp_path, monkeypatch):
    (tmp_path / "mine/dataset").mkdir(parents=True)
    (tmp_path / "mine/dataset/evil.yaml").write_text(
        "# @package _global_\ntrust: [logging]\ndataset: {_target_: logging.FileHandler, filename: EVIL}\n"
    )
    config = {"seed": 0, "dataset": {"_target_": "contrastive.dataset.digits.digits"}, "evaluator": {}}
    monkeypatch.setattr("contrastive.cli.evaluate.read_config", lambda _: config)
    monkeypatch.setattr("contrastive.cli.evaluate.finished_runs", lambda path: [path])
    with pytest.raises(ConfigError, match=r"trust=\[logging\] stands in a YAML"):
        parse_args([str(tmp_path), "dataset=evil"], folders=[tmp_path / "mine"])


def test_a_table_cannot_vouch_for_a_module(tmp_path):
    table = tmp_path / "evil.yaml"
    table.write_text("title: T\nseeds: [0]\nmetrics: [knn_top1]\nrows:\n- {name: A, overrides: ['trust=[a]']}\n")
    with pytest.raises(ConfigError, match="cannot vouch for modules"):
        read_table(table)
    table.write_text("title: T\nseeds: [0]\nmetrics: [knn_top1]\nrows:\n- {name: A, overrides: [loss=supcon]}\n")
    assert read_table(table, extra=("trust=[a]",)).rows


def test_a_trusted_module_is_no_way_to_another(tmp_path, monkeypatch):
    (tmp_path / "my_open_door.py").write_text("import os\nfrom os import system\nclass Loss: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_target("my_open_door.Loss").__name__ == "Loss"
    for target in ("my_open_door.system", "my_open_door.os.system", "my_open_door.os"):
        with pytest.raises(ConfigError, match="no component"):
            load_target(target)


def test_the_check_imports_neither_torch_nor_what_it_refuses(tmp_path):
    (tmp_path / "a_trap.py").write_text("open('EVIL', 'w')")
    code = (
        "import sys\nfrom contrastive.config.targets import COMPONENTS, check_targets\n"
        "node = {'_target_': 'a_trap.Loss'}\n"
        "try:\n    check_targets({g: node for g in COMPONENTS}, trust=[], folders=[])\n"
        "except Exception as error:\n    print(type(error).__name__, 'torch' in sys.modules, 'a_trap' in sys.modules)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.split() == ["ConfigError", "False", "False"], done.stderr
    assert not (tmp_path / "EVIL").exists()


@pytest.mark.slow
def test_the_program_runs_nothing_of_a_hostile_configuration(tmp_path):
    """Every way in that a configuration offers, through the real program: one sentence each, and no file written."""
    nt_xent, evil = "_target_: contrastive.loss.nt_xent.NTXent\n", "os.system, command: touch EVIL}"
    handlers = "version: 1\nroot: {handlers: [x]}\nhandlers: {x: {%s: " + evil + "}"
    files = {
        "loss/a": "_target_: os.system\ncommand: touch EVIL",
        "loss/b": nt_xent + "temperature: {_target_: builtins.open, file: EVIL, mode: w}",
        "loss/c": nt_xent + "_args_: [{_target_: pathlib.Path.write_text, _args_: [EVIL]}]",
        "loss/d": "# @package _global_\nhydra: {callbacks: {x: {_target_: "
        + evil
        + "}}\nloss: {_target_: torch.nn.ReLU}",
        "loss/e": "# @package hydra.job_logging\n" + handlers % "()",
        "loss/f": "# @package hydra.hydra_logging\n" + handlers % "class",
        "loss/g": "# @package hydra.sweeper\n_target_: os.system",
        "loss/h": "_target_: ${data_root}\ncommand: touch EVIL",
        "loss/i": nt_xent + "temperature: ${oc.env:SECRET}",
        "loss/j": nt_xent + "temperature: !!python/object/apply:os.system [touch EVIL]",
    }
    said = {
        "loss/a": "loss._target_=os.system is refused", "loss/b": "builtins.open is refused",
        "loss/c": "pathlib.Path.write_text is refused", "loss/d": "hydra.callbacks would run code",
        "loss/e": "hydra.job_logging.handlers.x.()=os.system is no handler",
        "loss/f": "hydra.hydra_logging.handlers.x.class=os.system is no handler",
        "loss/g": "hydra.sweeper._target_=os.system is no plugin", "loss/h": "loss._target_=os.system is refused",
        "loss/i": "${oc.env:SECRET} is refused", "loss/j": "could not determine a constructor",
    }  # fmt: skip
    for name, text in files.items():
        path = tmp_path / "mine" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in files:
        word = name.replace("/", "=")
        done = program(
            "--config-dir", "mine", word, "data_root=os.system", "dry_run=true", cwd=tmp_path,
            env={**ONE_THREAD, "SECRET": "s3cret"},
        )  # fmt: skip
        assert done.returncode == 2, (word, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1, (word, done.stderr)
        assert said[name] in done.stderr, (word, done.stderr)
        assert "s3cret" not in done.stderr + done.stdout
        assert not (tmp_path / "EVIL").exists(), word


@pytest.mark.slow
def test_a_pickled_configuration_is_refused(tmp_path):
    done = program("--experimental-rerun", "config.pickle", cwd=tmp_path)
    assert done.returncode == 2
    assert "pickle" in done.stderr


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("hydra.searchpath=[structured://a_trap]", "structured://a_trap would import a module: try file://"),
        (r"hydra.searchpath=[pkg\://a_trap]", "pkg://a_trap would import a module: try file://"),
        (
            "+hydra.job_logging.handlers.x={class: logging.FileHandler, filename: precious.txt, mode: w}",
            "precious.txt may lie outside the run: try ${hydra.runtime.output_dir}/my.log",
        ),
        ("hydra.job.name=../../precious", "names a file elsewhere: try hydra.job.name=train"),
        ("hydra.job.name=${data_root}", "names a file elsewhere: try hydra.job.name=train"),
        (
            "+hydra.job_logging.handlers.x={class: logging.FileHandler, mode: w, "
            "filename: '${hydra.runtime.output_dir}/${data_root}'}",
            "may lie outside the run: try ${hydra.runtime.output_dir}/my.log",
        ),
    ],
)
def test_hydra_imports_and_empties_nothing(tmp_path, monkeypatch, word, said):
    (tmp_path / "a_trap.py").write_text("open('EVIL', 'w')")
    (tmp_path / "precious.txt").write_text("precious")
    monkeypatch.syspath_prepend(str(tmp_path))
    code, message = call([*DRY, word, "data_root=../precious.txt"], tmp_path)
    assert code == 2
    assert said in message
    assert not (tmp_path / "EVIL").exists()
    assert (tmp_path / "precious.txt").read_text() == "precious"


def test_nothing_that_is_composed_from_python_imports_a_module(tmp_path, monkeypatch):
    (tmp_path / "a_trap.py").write_text("open('EVIL', 'w')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="would import a module"):
        pretrain("hydra.searchpath=[structured://a_trap]", "dry_run=true")
    monkeypatch.setenv("SECRET", "s3cret")
    with pytest.raises(ConfigError, match=r"SECRET.* is refused"):
        pretrain("dataset.root=${oc.env:SECRET}", "dataset=mnist", "dry_run=true")
    assert not (tmp_path / "EVIL").exists()


def test_other_configurations_of_the_same_process_read_what_they_like(monkeypatch):
    monkeypatch.setenv("SCRATCH", "/scratch")
    with limited_environment(), pytest.raises(Exception, match=r"SCRATCH.* is refused"):
        print(OmegaConf.create({"a": "${oc.env:SCRATCH}"}).a)
    assert OmegaConf.create({"a": "${oc.env:SCRATCH}"}).a == "/scratch"
