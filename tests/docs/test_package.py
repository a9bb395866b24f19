"""The public names, and the wheel."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest

import contrastive
from contrastive.config.reference import option_files
from tests.helpers import ROOT, python


def run_python(code: str, *, path: Path, cwd: Path) -> str:
    """Run code in a new process with `path` alone as PYTHONPATH."""
    done = python("-c", code, cwd=cwd, env={**os.environ, "PYTHONPATH": str(path), "GLIBC_TUNABLES": ""})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_public_name_stands_in_the_stub_and_can_be_imported():
    stub = ast.parse(Path(contrastive.__file__).with_suffix(".pyi").read_text())
    names = [alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(names) == sorted(contrastive.__all__) == sorted(dir(contrastive))
    for name in contrastive.__all__:
        value = getattr(contrastive, name)
        assert value.__name__ == name
        assert value.__doc__


def test_a_loss_loads_torch_and_numpy_and_nothing_of_a_training(tmp_path):
    code = "import sys, contrastive; contrastive.NTXent; print(*sys.modules)"
    modules = run_python(code, path=ROOT, cwd=tmp_path).split()
    loaded = {name.split(".")[0] for name in modules}
    assert {"torch", "numpy"} <= loaded
    assert not loaded & {*["hydra", "omegaconf", "torchvision", "tensorboard", "pandas", "PIL", "safetensors"]}
    folders = {name.split(".")[1] for name in modules if name.startswith("contrastive.")}
    assert folders == {"errors", "gathering", "loss", "pairs", "types"}


@pytest.mark.parametrize("group", ["loss", "regularizer"])
def test_every_loss_and_regularizer_is_public(group):
    components = [contrastive.make(f"{group}/{option}") for option in option_files(group) if option != "none"]
    assert {type(component).__name__ for component in components} - {"Weighted"} <= set(contrastive.__all__)


def test_the_image_has_extras_that_exist_and_the_python_of_the_constraints():
    lines = (ROOT / "Dockerfile").read_text()
    extras = set(re.search(r"'\.\[(.*)\]'", lines)[1].split(","))
    assert {"report", "timm", "export"} <= extras
    assert extras <= tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    (version,) = re.findall(r"FROM python:([\d.]+)", lines)
    assert f"Python {version}" in (ROOT / "constraints.txt").read_text().partition("\n")[0]
    assert lines.rstrip().endswith('ENTRYPOINT ["contrastive"]')


@pytest.mark.slow
def test_the_wheel_holds_its_configs(tmp_path):
    source, wheels, site = tmp_path / "source", tmp_path / "wheels", tmp_path / "site"
    for name in ("contrastive", "configs", "hydra_plugins"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels)]
    built = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = wheels.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(site)
    installed = {path.relative_to(site / "contrastive") for path in (site / "contrastive").rglob("*.*")}
    expected = {path.relative_to(ROOT / "contrastive") for path in (ROOT / "contrastive").rglob("*.py*")}
    expected = {path for path in expected if path.suffix in (".py", ".pyi")}
    kinds = ("*.html", "*.css", "cards/*.md", "tracker/*.yaml")
    templates = [path for kind in kinds for path in (ROOT / "contrastive").rglob(kind)]
    assert len(templates) > 3
    expected |= {path.relative_to(ROOT / "contrastive") for path in templates}
    expected |= {Path("weights/digits") / name for name in ("README.md", "config.json", "model.safetensors")}
    expected |= {path.relative_to(ROOT) for path in (ROOT / "configs").rglob("*.yaml")} | {Path("py.typed")}
    assert installed == expected
    code = "from contrastive.__main__ import main; main(['train', 'loss=supcon', '--cfg', 'job'])"
    assert "contrastive.loss.supcon.SupCon" in run_python(code, path=site, cwd=tmp_path)
    code = "import contrastive; print(contrastive.__file__, contrastive.make('loss/nt_xent'))"
    assert run_python(code, path=site, cwd=tmp_path) == f"{site}/contrastive/__init__.py NTXent()"
    code = "import contrastive; print(contrastive.load_encoder('digits')[1].size, contrastive.__version__)"
    assert run_python(code, path=site, cwd=tmp_path) == f"(16, 16) {contrastive.__version__}"
    assert wheel.name.split("-")[1] == contrastive.__version__
