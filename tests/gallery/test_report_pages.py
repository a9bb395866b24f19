"""Pages, figures and maps of real runs, as a user makes them."""

import shutil
from pathlib import Path

import pytest
import yaml

from contrastive.cli.report import main
from contrastive.errors import ConfigError
from contrastive.report.page import main as page
from scripts.figures import tsne_map

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(runs: list[Path]) -> Path:
    return runs[0].parent


def test_a_map_has_the_labels_of_the_test_images(folder):
    points = tsne_map(folder / "seed=0")
    assert {len(column) for column in points.values()} == {359}  # the test split of the digits
    assert set(points["class"]) == {str(digit) for digit in range(10)}
    assert set(points["bias"]) <= set(range(10))


def test_a_map_builds_nothing_else_that_a_run_names(folder, tmp_path, monkeypatch):
    (tmp_path / "a_trap.py").write_text("open('EVIL', 'w')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    config = yaml.safe_load((folder / "seed=0/config.yaml").read_text())
    config["dataset"] = {"_target_": "a_trap.open_it"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigError, match="is no dataset of contrastive"):
        tsne_map(tmp_path)
    assert not (tmp_path / "EVIL").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("environment.json", b""), ("config.yaml", b""),
        ("config.yaml", b"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b]\n"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_named_and_not_counted(folder, tmp_path, name, content, capsys):
    shutil.copytree(folder, tmp_path / "outputs")
    first = tmp_path / "outputs/seed=0"
    (first / name).write_bytes(content)
    assert main([str(tmp_path / "outputs")]) == 0
    out, err = capsys.readouterr()
    assert f"{name} is missing or damaged" in out + err
    assert main([str(first)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("error: ") and "try " in said


def test_a_damaged_or_changed_log_is_said(folder, tmp_path, capsys):
    pytest.importorskip("vl_convert")
    shutil.copytree(folder, tmp_path / "outputs")
    run = tmp_path / "outputs/seed=0"
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:-1]))
    words = [str(tmp_path / "out.html"), str(tmp_path / "outputs")]
    assert page(words) == 0
    assert "metrics.jsonl was changed after the run" in capsys.readouterr().err
    (run / "metrics.jsonl").write_text("".join(lines[:-1])[:-9] + lines[-1])
    assert page(words) == 2
    said = capsys.readouterr().err
    assert "metrics.jsonl is damaged (" in said
    assert ": try rerun=true" in said
