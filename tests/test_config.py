"""Every YAML composes and builds, defaults have one home, and what is typed beats what a recipe says."""

import ast
import inspect
from pathlib import Path

import pytest
import yaml
from hydra.utils import get_object

from contrastive.errors import ConfigError
from contrastive.program.build import build
from contrastive.program.settings import FREE, unread
from tests.conftest import ROOT, TINY

GROUPS = ("augmentation", "encoder", "head", "loss", "optimizer", "probe", "schedule")
OPTIONS = [(group, path.stem) for group in GROUPS for path in sorted((ROOT / "configs" / group).glob("*.yaml"))]
VARIANTS = {("resnet34", "depth"), ("resnet50", "depth")}  # options that differ from their class's defaults in this


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_builds(composed, group, option):
    words = [*TINY[:1], *TINY[2:], f"{group}={option}"]
    if option in ("bias_contrastive", "bias_balanced"):  # the digits have no bias
        with pytest.raises(ConfigError, match="needs bias labels"):
            build(composed(*words))
    else:
        build(composed(*words))


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*/*.yaml")), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_yaml_has_a_comment_and_targets_that_exist(path: Path):
    text = path.read_text()
    if path.parent.name != "hydra":
        assert "#" in text
    content = yaml.safe_load(text) or {}
    for node in (content, content.get(path.parent.name, {})):
        if isinstance(node, dict) and "_target_" in node:
            target = get_object(node["_target_"])
            if node["_target_"].startswith("contrastive."):
                code = target.__init__ if inspect.isclass(target) else target
                ours = str(getattr(code, "__module__", "")).startswith("contrastive")
                parameters = inspect.signature(code).parameters if ours else {}
                wired = {"self", "in_dim", "params"}
                assert set(parameters) - wired == set(node) - {"_target_", "_partial_", "defaults"}
                root = yaml.safe_load((ROOT / "configs/train.yaml").read_text())
                for name, parameter in parameters.items():
                    if parameter.default is parameter.empty or (path.stem, name) in VARIANTS:
                        continue
                    value = root[name] if node[name] == f"${{{name}}}" else node[name]
                    if isinstance(parameter.default, float):
                        value = float(value)  # YAML reads 1e-3 as text
                    default = list(parameter.default) if isinstance(value, list) else parameter.default
                    assert default == value, f"{name}: the constructor's default differs from the YAML's"
                assert all(p.kind == p.KEYWORD_ONLY for n, p in parameters.items() if n not in ("self", "params"))


def test_cifar10_alone_is_the_papers_setting(composed):
    cfg = composed("dataset=cifar10")
    assert cfg["encoder"] == {
        "_target_": "contrastive.encoder.resnet.ResNet",
        "depth": 18,
        "width": 64,
        "stem": "small",
    }
    assert (cfg["batch_size"], cfg["epochs"], cfg["temperature"], cfg["knn"]["k"]) == (512, 50, 0.5, 200)
    assert (cfg["optimizer"]["_target_"], cfg["optimizer"]["lr"], cfg["optimizer"]["weight_decay"]) == (
        "torch.optim.Adam",
        1e-3,
        1e-6,
    )


def test_what_is_typed_beats_the_recipe(composed):
    cfg = composed(
        "dataset=cifar10",
        "encoder=resnet50",
        "batch_size=64",
        "optimizer.lr=0.1",
        "knn.k=5",
        "temperature=0.2",
        "augmentation=digits",
    )
    assert cfg["encoder"]["depth"] == 50
    assert (cfg["batch_size"], cfg["optimizer"]["lr"], cfg["knn"]["k"]) == (64, 0.1, 5)
    assert cfg["loss"]["temperature"] == 0.2
    assert cfg["augmentation"]["flip"] == 0
    assert composed("encoder=resnet18")["encoder"]["width"] == 64
    assert composed()["encoder"]["width"] == 8


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("epochs=0", "epochs"),
        ("batch_size=1", "batch_size=128"),
        ("tau_plus=1.5", "tau_plus=0.1"),
        ("temperature=0", "temperature=0.5"),
        ("temperature=hot", "number"),
        ("seed=-1", "seed=0"),
        ("views_forward=both", "views_forward=fused"),
        ("knn.k=0", "knn.k=20"),
        ("rerun=maybe", "rerun=true"),
        ("knn.temperature=-1", "knn.temperature=0.5"),
        ("n_views=two", "n_views=2"),
        ("noise_frac=2", "noise_frac=0.3"),
        ("sampler=none", "sampler=uniform"),
        ("device=null", "device=auto"),
    ],
)
def test_a_value_out_of_range_is_refused_before_anything_is_built(composed, word, said):
    with pytest.raises(ConfigError, match=f"{said}.*") as caught:
        composed(word)
    assert "try " in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["batch_size=2000"], "try batch_size=128"),
        (["loss=debiased_pos", "batch_size=4"], "try batch_size=5"),
        (["n_views=1"], "try n_views=2"),
        (["device=tpu"], "try device=auto"),
        (["precision=fp8"], "try precision=auto"),
        (["precision=fp16", "device=cpu"], "try precision=auto"),
        (["optimizer.lr=-1"], "try optimizer.lr"),
        (["optimizer.lr=abc"], "try optimizer.lr"),
        (["loss=combination", "tau_plus=0.001"], "try batch_size=500"),
        (["n_views=3", "loss.aggregation=pos_grouping"], "loss_combination"),
        (["device=cuda:99"], "try device=auto"),
    ],
)
def test_combinations_that_cannot_run_are_refused_when_the_program_is_built(composed, words, said):
    with pytest.raises(ConfigError, match=said):
        build(composed(*words))


def test_a_knob_nothing_reads_is_named():
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(str(ROOT / "configs"), version_base="1.3"):
        words = ["loss=nt_xent", "tau_plus=0.3", "temperature=0.2"]
        assert unread(compose("train", words), words) == ["tau_plus"]
        words[0] = "loss=debiased_neg"
        assert unread(compose("train", words), words) == []


def test_imports_go_one_way():
    """Low modules never import high ones, and only build, the command line, settings and testing know Hydra."""
    components = {
        "augmentation",
        "dataset",
        "encoder",
        "head",
        "loss",
        "metric",
        "optimizer",
        "probe",
        "regularizer",
        "schedule",
    }
    base = {
        "accuracy",
        "atomic",
        "color",
        "decoded",
        "download",
        "embedded",
        "estimators",
        "image",
        "pairs",
        "refusal",
        "relation",
        "seeding",
        "split",
        "term",
        "tiles",
        "types",
    }
    above = {"build", "command_line", "program", "report", "testing"}
    for path in (ROOT / "contrastive").rglob("*.py"):
        own = path.relative_to(ROOT / "contrastive").parts[0].removesuffix(".py")
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        inner = {name.split(".")[1] for name in found if name.startswith("contrastive.")}
        if own in base | components:
            assert inner <= base, path
        elif own not in above:
            assert not inner & above, path
        hydra = any(name.startswith(("hydra", "omegaconf")) for name in found)
        assert not hydra or own in {"build", "command_line", "settings", "testing"}, path


def test_the_free_keys_exist(composed):
    cfg = composed()
    for key in FREE:
        head, _, rest = key.partition(".")
        assert head in cfg
        assert not rest or head == "dataset" or rest in cfg[head]
