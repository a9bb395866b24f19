"""Every YAML of a component builds by name, and states the defaults of its constructor."""

import inspect
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra.utils import get_object
from omegaconf import OmegaConf

from contrastive.config import CONFIGS
from contrastive.config.identity import COMPONENTS
from contrastive.experiment.make import make

YAMLS = [path for group in COMPONENTS for path in sorted((CONFIGS / group).glob("*.yaml"))]
WIRED = {"in_dim", "params", "encoder", "head", "seed", "in_channels"}  # supplied by the program
ROOT_VALUES = OmegaConf.load(CONFIGS / "train.yaml")


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@cache
def component_node(path: Path) -> dict[str, Any]:
    """The component in the YAML, its ${...} resolved with the values of train.yaml."""
    content = OmegaConf.load(path)
    tree = OmegaConf.create({**ROOT_VALUES, "node": content.get(path.parent.name, content)})
    return OmegaConf.to_container(tree.node, resolve=True)


def nodes(value: Any) -> list[dict[str, Any]]:
    """Every dict with a _target_ in a tree of containers."""
    if isinstance(value, list):
        return [node for item in value for node in nodes(item)]
    if not isinstance(value, dict):
        return []
    return [value] * ("_target_" in value) + [node for item in value.values() for node in nodes(item)]


def as_yaml(value: Any) -> Any:
    """A default as YAML can write it: tuples are lists."""
    return [as_yaml(item) for item in value] if isinstance(value, tuple | list) else value


@cache
def written_values(target: str) -> dict[str, list[Any]]:
    """Every value that the YAMLs give to each option of a class: more than one where they are variants of it."""
    values: dict[str, list[Any]] = {}
    for path in YAMLS:
        for node in nodes(component_node(path)):
            for key, value in node.items() if node["_target_"] == target else ():
                values.setdefault(key, []).append(value)
    return values


@pytest.mark.parametrize("path", YAMLS, ids=name)
def test_defaults_in_the_constructor_and_in_the_yaml_are_equal(path):
    for node in nodes(component_node(path)):
        if not str(node["_target_"]).startswith("contrastive."):
            continue  # a function that is to be named; torch's optimizers have defaults of their own
        parameters = inspect.signature(get_object(node["_target_"])).parameters
        if set(parameters) == {"args", "kwargs"}:
            parameters = {}  # of nn.Module: the class has no constructor of its own
        options = {key: parameter for key, parameter in parameters.items() if key not in WIRED}
        assert set(options) == {key for key in node if not key.startswith("_")}
        assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in options.values())
        values = written_values(node["_target_"])
        for key, parameter in options.items():
            if not nodes(values[key]):  # components inside another have no default
                assert as_yaml(parameter.default) in values[key], f"{node['_target_']}({key}=)"


@pytest.mark.parametrize("path", YAMLS, ids=name)
def test_every_component_builds_by_its_name(path):
    if path.parent.name == "dataset":
        pytest.skip("datasets need their files; the digits are built below")
    if path.stem == "callable":
        pytest.skip("it needs a function: tests/augmentation/test_callable.py")
    if path.stem == "timm":
        pytest.importorskip("timm")
    if path.parent.name == "tracker" and path.stem != "tensorboard":
        pytest.importorskip(path.stem)
    net = torch.nn.Linear(2, 2)
    wiring = {"head": {"in_dim": 8}, "average": {"encoder": net}, "teacher": {"encoder": net, "head": net}}
    component = make(name(path), **(wiring.get(path.parent.name, {}) if path.stem != "none" else {}))
    if path.stem == "none" and path.parent.name in ("regularizer", "average", "teacher"):
        assert component is None
    elif path.parent.name == "optimizer":
        assert isinstance(component, partial)
        assert isinstance(component([torch.nn.Parameter(torch.zeros(1))]), torch.optim.Optimizer)
    else:
        assert type(component).__module__.startswith(("contrastive.", "torchvision.", "timm."))


def test_overrides_replace_the_values_of_the_yaml():
    assert make("loss/debiased_pos").tau_plus == ROOT_VALUES.tau_plus
    assert make("loss/debiased_pos", tau_plus=0.05).tau_plus == 0.05
    assert make("head/mlp", in_dim=12, out_dim=5)(torch.zeros(2, 12)).shape == (2, 5)
    assert make("optimizer/adam", lr=0.5)([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]["lr"] == 0.5
    assert make("dataset/digits", size=8).pretrain.image.shape[-1] == 8
    crop = make("augmentation/simclr", ops={"crop": {"scale": [0.5, 1.0]}}).ops["crop"]
    assert (crop.scale, crop.flip) == ((0.5, 1.0), 0.5)


def test_a_variant_takes_the_rest_from_the_yaml_that_it_names():
    narrow, full = make("encoder/resnet18_narrow"), make("encoder/resnet18", width=8)
    assert narrow.dim == full.dim == 64
    assert [p.shape for p in narrow.parameters()] == [p.shape for p in full.parameters()]
